#include "model/engram_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/counter_rng.h"
#include "base/fault.h"

namespace yeoul {
namespace {

class EngramRowsTest : public testing::Test {
 protected:
  void SetUp() override {
    checkpoint_ = *Checkpoint::open("models/tiny-random");
    width_ = static_cast<size_t>(checkpoint_->config().engram_head_dim);
  }

  std::unique_ptr<EngramRows> rows(const EngramRowsOptions& options) {
    auto made = EngramRows::create(checkpoint_, options);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return std::move(*made);
  }

  // Table rows of both tables drawn from a seed, some of them twice.
  struct Wanted {
    int32_t table = 0;
    int64_t row = 0;
    std::vector<uint8_t> codes, scales;
  };
  std::vector<Wanted> draw(uint64_t seed, size_t count) {
    std::vector<Wanted> wanted;
    for (size_t i = 0; i < count; ++i) {
      const auto table = static_cast<int32_t>(i % 2);
      const int64_t num_rows =
          checkpoint_->config().engram_num_embeddings[static_cast<size_t>(table)];
      const uint64_t bits = counter_bits(seed, i % 5 == 4 ? i - 4 + i % 2 : i);
      wanted.push_back({table, static_cast<int64_t>(bits % static_cast<uint64_t>(num_rows)),
                        std::vector<uint8_t>(width_, 0xEE),
                        std::vector<uint8_t>(width_ / 32, 0xEE)});
    }
    return wanted;
  }

  void begin(EngramRows& engram, std::vector<Wanted>& wanted) {
    engram.begin();
    for (size_t i = 0; i < wanted.size(); ++i) {
      engram.want({wanted[i].table, static_cast<int32_t>(i), wanted[i].row, wanted[i].codes.data(),
                   wanted[i].scales.data()});
    }
    engram.start();
  }
  void run(EngramRows& engram, std::vector<Wanted>& wanted) {
    begin(engram, wanted);
    engram.wait(0);
    engram.wait(1);
  }

  const TensorEntry& tensor(int32_t table, const char* part) {
    const int32_t layer = checkpoint_->config().engram_layer_ids[static_cast<size_t>(table)];
    return **checkpoint_->find(fmt::format("layers.{}.engram.embed.{}", layer, part));
  }
  std::vector<uint8_t> stored(const Wanted& wanted, const char* part, size_t width) {
    std::vector<uint8_t> bytes(width);
    EXPECT_TRUE(checkpoint_->read_at(tensor(wanted.table, part),
                                     static_cast<uint64_t>(wanted.row) * width,
                                     std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }
  void expect_stored(const Wanted& wanted) {
    EXPECT_EQ(wanted.codes, stored(wanted, "weight", width_)) << wanted.row;
    EXPECT_EQ(wanted.scales, stored(wanted, "scale", width_ / 32)) << wanted.row;
  }
  static size_t num_distinct(const std::vector<Wanted>& wanted) {
    std::set<std::pair<int32_t, int64_t>> distinct;
    for (const Wanted& one : wanted) distinct.insert({one.table, one.row});
    return distinct.size();
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
  size_t width_ = 0;
};

TEST_F(EngramRowsTest, gives_the_rows_of_the_checkpoint_with_every_way_of_reading) {
  for (const ReadWay way : {ReadWay::kBest, ReadWay::kThreads}) {
    for (const bool allow_direct : {true, false}) {
      for (const bool scales_resident : {true, false}) {
        const auto engram =
            rows({.scales_resident = scales_resident, .way = way, .allow_direct = allow_direct});
        for (uint64_t step = 0; step < 3; ++step) {
          std::vector<Wanted> wanted = draw(step, step == 0 ? 1 : 700);
          run(*engram, wanted);
          for (const Wanted& one : wanted) expect_stored(one);
          EXPECT_TRUE(engram->failures().empty());
        }
      }
    }
  }
}

TEST_F(EngramRowsTest, reads_a_row_once_however_often_it_is_wanted) {
  for (const bool scales_resident : {true, false}) {
    const auto engram = rows({.scales_resident = scales_resident});
    std::vector<Wanted> wanted = draw(1, 40);
    const size_t distinct = num_distinct(wanted);
    ASSERT_LT(distinct, wanted.size());
    const int64_t before = engram->traffic().reads;
    run(*engram, wanted);
    EXPECT_EQ(engram->traffic().rows_wanted, static_cast<int64_t>(distinct));
    EXPECT_LE(engram->traffic().reads - before,
              static_cast<int64_t>(scales_resident ? distinct : 2 * distinct));
  }
}

TEST_F(EngramRowsTest, what_is_kept_is_not_read_again) {
  const auto engram = rows({.num_cached = 8192});
  std::vector<Wanted> wanted = draw(1, 100);
  run(*engram, wanted);
  const int64_t before = engram->traffic().reads;
  std::vector<Wanted> again = draw(1, 100);
  run(*engram, again);
  for (const Wanted& one : again) expect_stored(one);
  EXPECT_EQ(engram->traffic().reads, before);
  EXPECT_EQ(engram->traffic().rows_kept, static_cast<int64_t>(num_distinct(again)));
}

TEST_F(EngramRowsTest, a_failed_read_fails_its_own_rows_and_no_others) {
  const TensorEntry& scales = tensor(1, "scale");
  const uint64_t lost = covering(scales.offset + scales.num_bytes / 2, 1).offset;
  for (const ReadWay way : {ReadWay::kBest, ReadWay::kThreads}) {
    const auto engram = rows({.num_cached = 64, .way = way});
    std::vector<Wanted> wanted = draw(3, 400);
    {
      const ScopedFault fault(FaultPoint::kReadError,
                              [&](uint64_t offset) { return offset / 4096 * 4096 == lost; });
      run(*engram, wanted);
    }
    std::set<int32_t> failed;
    for (const EngramRows::Failure& failure : engram->failures()) {
      EXPECT_EQ(failure.table, 1);
      EXPECT_EQ(failure.error.code, ErrorCode::kUnavailable);
      failed.insert(failure.step_row);
    }
    EXPECT_GE(failed.size(), 1u);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (failed.contains(static_cast<int32_t>(i))) {
        EXPECT_EQ(wanted[i].codes, std::vector<uint8_t>(width_, 0));
        // A read may take the block before along.
        const uint64_t at = scales.offset + static_cast<uint64_t>(wanted[i].row) * (width_ / 32);
        EXPECT_GE(at + 4096 + width_ / 32, lost);
        EXPECT_LE(at, lost + 2 * 4096);
      } else {
        expect_stored(wanted[i]);
      }
    }
    // The fault is over.
    run(*engram, wanted);
    for (const Wanted& one : wanted) expect_stored(one);
  }
}

TEST_F(EngramRowsTest, a_step_that_nobody_waited_for_does_not_disturb_the_next) {
  const auto engram = rows({});
  std::vector<Wanted> first = draw(5, 600), second = draw(6, 600);
  begin(*engram, first);
  run(*engram, second);
  for (const Wanted& one : second) expect_stored(one);
}

}  // namespace
}  // namespace yeoul
