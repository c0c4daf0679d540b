#include "store/unit_ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <vector>

namespace yeoul {
namespace {

UnitEntry entry(UnitLedger& ledger, uint64_t number, int64_t bytes = 10) {
  const uint64_t use = ledger.take_use();
  return {.key = {number, 0}, .bytes = bytes, .last_use = use, .recorded_use = use};
}

TEST(UnitLedger, the_unit_used_longest_ago_is_the_victim) {
  UnitLedger ledger;
  for (const uint64_t number : {1, 2, 3}) EXPECT_TRUE(ledger.add(entry(ledger, number)));
  EXPECT_EQ(ledger.victim()->key.high, 1u);
  EXPECT_TRUE(ledger.touch({1, 0}));
  EXPECT_EQ(ledger.victim()->key.high, 2u);
  EXPECT_TRUE(ledger.remove({2, 0}));
  EXPECT_EQ(ledger.victim()->key.high, 3u);
  EXPECT_EQ(ledger.num_bytes(), 20);
}

TEST(UnitLedger, a_key_is_there_once_and_a_missing_one_is_neither_touched_nor_removed) {
  UnitLedger ledger;
  EXPECT_TRUE(ledger.add(entry(ledger, 1)));
  EXPECT_FALSE(ledger.add(entry(ledger, 1, 99)));
  EXPECT_EQ(ledger.num_bytes(), 10);
  EXPECT_FALSE(ledger.touch({2, 0}));
  EXPECT_FALSE(ledger.remove({2, 0}));
}

TEST(UnitLedger, only_units_used_since_they_were_recorded_are_recorded_again) {
  UnitLedger ledger;
  for (const uint64_t number : {1, 2, 3}) ledger.add(entry(ledger, number));
  EXPECT_TRUE(ledger.take_unrecorded().empty());
  ledger.touch({1, 0});
  ledger.add(entry(ledger, 4));
  ledger.touch({2, 0});
  const std::vector<UnitEntry> taken = ledger.take_unrecorded();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].key.high, 2u);
  EXPECT_EQ(taken[1].key.high, 1u);
  EXPECT_TRUE(ledger.take_unrecorded().empty());
}

TEST(UnitLedger, the_order_of_use_survives_a_restart) {
  rc::check([] {
    UnitLedger ledger;
    const auto touches =
        *rc::gen::container<std::vector<uint64_t>>(rc::gen::inRange<uint64_t>(0, 9));
    for (uint64_t number = 0; number < 9; ++number) ledger.add(entry(ledger, number));
    for (const uint64_t number : touches) ledger.touch({number, 0});
    std::vector<UnitEntry> units;
    ledger.for_each([&](const UnitEntry& unit) { units.push_back(unit); });
    UnitLedger again;
    for (size_t i = 0; i < units.size(); ++i) again.add(units[(i * 4) % units.size()]);
    again.sort_by_use();
    std::vector<uint64_t> order;
    again.for_each([&](const UnitEntry& unit) { order.push_back(unit.key.high); });
    RC_ASSERT(order.size() == units.size());
    for (size_t i = 0; i < units.size(); ++i) RC_ASSERT(order[i] == units[i].key.high);
    RC_ASSERT(again.take_use() > units.front().last_use);
  });
}

}  // namespace
}  // namespace yeoul
