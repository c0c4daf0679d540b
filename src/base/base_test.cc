#include <gtest/gtest.h>

#include <set>

#include "base/bounded_queue.h"
#include "base/counter_rng.h"
#include "base/fault.h"
#include "base/json.h"

namespace yeoul {
namespace {

TEST(BoundedQueue, a_full_queue_refuses_and_leaves_the_value) {
  BoundedQueue<std::string> queue(1);
  EXPECT_TRUE(queue.try_push("first"));
  std::string second = "second";
  EXPECT_FALSE(queue.try_push(std::move(second)));
  EXPECT_EQ(second, "second");
  EXPECT_EQ(queue.try_pop(), "first");
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(CounterRng, coordinates_decide_and_do_not_collide) {
  std::set<uint64_t> seen;
  for (uint64_t seed : {0, 1}) {
    for (uint64_t choice : {0, 1}) {
      for (uint64_t position = 0; position < 20; ++position) {
        for (uint64_t index = 0; index < 20; ++index) {
          seen.insert(counter_bits(counter_key(seed, choice, position), index));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 2u * 2 * 20 * 20);
}

TEST(CounterRng, unit_interval_excludes_both_ends) {
  EXPECT_GT(unit_interval(0), 0.0);
  EXPECT_LT(unit_interval(~0ull), 1.0);
}

TEST(Fault, fires_only_while_armed_and_only_for_its_key) {
  EXPECT_FALSE(fault_fires(FaultPoint::kEngramRead, 7));
  {
    const ScopedFault fault(FaultPoint::kEngramRead, [](uint64_t key) { return key == 7; });
    EXPECT_TRUE(fault_fires(FaultPoint::kEngramRead, 7));
    EXPECT_FALSE(fault_fires(FaultPoint::kEngramRead, 8));
    EXPECT_FALSE(fault_fires(FaultPoint::kWeightRead, 7));
  }
  EXPECT_FALSE(fault_fires(FaultPoint::kEngramRead, 7));
}

TEST(Json, refuses_duplicate_keys_depth_and_rubbish_with_a_place) {
  EXPECT_EQ(parse_json(R"({"a": 1, "a": 2})").error().message, "invalid JSON: duplicate key \"a\"");
  EXPECT_EQ(parse_json(std::string(200, '[')).error().message,
            "invalid JSON: nested deeper than 128 levels");
  EXPECT_NE(parse_json("{\"a\": }").error().message.find("byte 7"), std::string::npos);
  EXPECT_FALSE(parse_json("\"\xff\""));
  EXPECT_FALSE(parse_json("1 2"));
  EXPECT_EQ(parse_json({"{}\0 rubbish]", 12}).error().message, "invalid JSON: NUL byte at 2");
  EXPECT_FALSE(parse_json(""));
}

TEST(Json, the_same_key_in_different_objects_is_fine) {
  EXPECT_TRUE(parse_json(R"([{"a": 1}, {"a": {"a": 2}}])"));
}

TEST(Json, python_style_matches_json_dumps) {
  EXPECT_EQ(dump_python_style(*parse_json(R"({"b":[1,2.5,null],"a":"여울\n","c":{}})")),
            "{\"b\": [1, 2.5, null], \"a\": \"여울\\n\", \"c\": {}}");
}

TEST(Json, python_style_numbers_are_written_as_repr_writes_them) {
  EXPECT_EQ(dump_python_style(*parse_json("[1.0, -0.0, 1e15, 1e16, 0.0001, 1e-5, 1.5e-7, 2.5e+300, "
                                          "123456789012345.67, 18446744073709551615, -5]")),
            "[1.0, -0.0, 1000000000000000.0, 1e+16, 0.0001, 1e-05, 1.5e-07, 2.5e+300, "
            "123456789012345.67, 18446744073709551615, -5]");
}

}  // namespace
}  // namespace yeoul
