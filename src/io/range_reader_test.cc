#include "io/range_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/counter_rng.h"
#include "base/fault.h"
#include "io/anonymous_memory.h"

namespace yeoul {
namespace {

static_assert(covering(0, 1).num_bytes == 4096 && covering(0, 4096).num_bytes == 4096);
static_assert(covering(4095, 2).offset == 0 && covering(4095, 2).num_bytes == 8192);
static_assert(covering(8200, 100).offset == 8192 && covering(8200, 100).inner == 8);

constexpr size_t kFileBytes = 300 * 4096 + 123;  // the last block is not whole

struct Way {
  const char* name;
  ReadWay way;
  bool allow_direct;
};

class RangeReaderTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    // Beside the build, not under /tmp: a file system in memory may know no O_DIRECT.
    path_ = (std::filesystem::current_path() / "build" / "yeoul-ranges-XXXXXX").string();
    std::filesystem::create_directories("build");
    const int descriptor = ::mkstemp(path_.data());
    ASSERT_GE(descriptor, 0);
    ::close(descriptor);
    for (size_t i = 0; i < kFileBytes; ++i) {
      bytes_.push_back(static_cast<char>(counter_bits(7, i / 8) >> (i % 8 * 8)));
    }
    std::ofstream(path_, std::ios::binary)
        .write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    files_.push_back(std::move(*File::open(path_)));
    memory_ = std::move(*AnonymousMemory::reserve(kFileBytes / 4096 * 4096 + 4096));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::unique_ptr<RangeReader> reader(RangeReaderOptions options) {
    options.way = GetParam().way;
    options.allow_direct = GetParam().allow_direct;
    auto made = RangeReader::open(files_, options);
    if (!made && made.error().code == ErrorCode::kUnsupported) return nullptr;
    EXPECT_TRUE(made);
    return std::move(*made);
  }

  // The range that covers a part of the file, at the same place of the memory.
  RangeRead range(uint64_t offset, uint64_t num_bytes, uint64_t tag) {
    const AlignedRange aligned = covering(offset, num_bytes);
    return {0,
            aligned.offset,
            {memory_.data() + aligned.offset, aligned.num_bytes},
            aligned.inner + num_bytes,
            tag};
  }
  bool has_arrived(const RangeRead& read) const {
    return std::equal(read.into.begin(),
                      read.into.begin() + static_cast<std::ptrdiff_t>(read.num_needed),
                      reinterpret_cast<const std::byte*>(bytes_.data()) + read.offset);
  }

  std::string path_;
  std::vector<char> bytes_;
  std::vector<File> files_;
  AnonymousMemory memory_;
};

#define READER_OR_SKIP(name, ...)                                \
  const std::unique_ptr<RangeReader> name = reader(__VA_ARGS__); \
  if (!name) GTEST_SKIP() << "io_uring is forbidden here"

TEST_P(RangeReaderTest, every_range_gets_its_own_bytes_whatever_the_pieces_and_the_depth) {
  for (const int32_t depth : {1, 3, 64}) {
    for (const uint32_t piece_bytes : {4096u, 12288u, 1u << 20}) {
      READER_OR_SKIP(ranges, {.ranges_max = 20,
                              .depth = depth,
                              .piece_bytes = piece_bytes,
                              .memory = {memory_.data(), memory_.size()}});
      std::fill_n(memory_.data(), memory_.size(), std::byte{0});
      constexpr uint64_t kPart = kFileBytes / 20;
      for (uint64_t i = 0; i < 20; ++i) {
        // Two blocks apart from each other's, the last one up to the end of the file.
        const uint64_t begin = i * kPart + 8192;
        ranges->start(range(begin, i == 19 ? kFileBytes - begin : kPart - 3 * 8192, i));
      }
      std::set<uint64_t> tags;
      while (const std::optional<RangeOutcome> outcome = ranges->next(true)) {
        EXPECT_TRUE(outcome->ok) << ranges->explain(*outcome);
        EXPECT_TRUE(has_arrived(outcome->read)) << outcome->read.tag;
        tags.insert(outcome->read.tag);
      }
      EXPECT_EQ(tags.size(), 20u);
      EXPECT_GE(ranges->num_bytes(), static_cast<int64_t>(kFileBytes / 2));
    }
  }
}

TEST_P(RangeReaderTest, reads_go_past_the_page_cache_only_where_that_is_asked_for) {
  READER_OR_SKIP(ranges, {});
  // Where it is asked for the file system may still say no.
  EXPECT_LE(ranges->is_direct(0), GetParam().allow_direct);
  EXPECT_STREQ(ranges->way(), GetParam().way == ReadWay::kUring ? "io_uring" : "threads");
}

TEST_P(RangeReaderTest, a_failed_read_ends_its_own_range_and_no_other) {
  READER_OR_SKIP(ranges, {.depth = 2, .piece_bytes = 4096});
  const ScopedFault fault(FaultPoint::kReadError, [](uint64_t offset) {
    return offset == 30 * 4096 || offset == 33 * 4096;
  });
  for (uint64_t i = 0; i < 10; ++i) ranges->start(range(i * 10 * 4096, 9 * 4096, i));
  size_t count = 0;
  while (const std::optional<RangeOutcome> outcome = ranges->next(true)) {
    ++count;
    EXPECT_EQ(outcome->ok, outcome->read.tag != 3) << outcome->read.tag;
    if (outcome->ok) {
      EXPECT_TRUE(has_arrived(outcome->read)) << outcome->read.tag;
    } else {
      EXPECT_EQ(outcome->error, EIO);
      EXPECT_EQ(outcome->num_found, 0u);
    }
  }
  EXPECT_EQ(count, 10u);
  // The place is free again, and the same range can be read once the fault is over.
  ranges->start(range(40 * 4096, 4096, 1));
  EXPECT_TRUE(ranges->next(true)->ok);
}

TEST_P(RangeReaderTest, a_short_read_is_continued_behind_what_came) {
  READER_OR_SKIP(ranges, {.piece_bytes = 64 << 10});
  std::set<uint64_t> shortened;
  {
    const ScopedFault fault(FaultPoint::kReadShort, [&](uint64_t offset) {
      shortened.insert(offset);
      return true;
    });
    ranges->start(range(5, kFileBytes - 5, 1));
    const std::optional<RangeOutcome> outcome = ranges->next(true);
    ASSERT_TRUE(outcome && outcome->ok);
    EXPECT_TRUE(has_arrived(outcome->read));
  }
  EXPECT_GT(shortened.size(), 20u);
}

TEST_P(RangeReaderTest, a_file_that_was_shortened_says_what_is_missing) {
  READER_OR_SKIP(ranges, {.piece_bytes = 4096});
  std::filesystem::resize_file(path_, 100 * 4096 + 17);
  ranges->start(range(98 * 4096, 5 * 4096, 1));
  ranges->start(range(96 * 4096, 4 * 4096 + 10, 2));
  std::set<uint64_t> tags;
  for (int i = 0; i < 2; ++i) {
    const std::optional<RangeOutcome> outcome = ranges->next(true);
    ASSERT_TRUE(outcome);
    tags.insert(outcome->read.tag);
    EXPECT_EQ(outcome->ok, outcome->read.tag == 2);
    if (outcome->ok) continue;
    EXPECT_EQ(outcome->num_found, 2 * 4096u + 17);
    const std::string text = ranges->explain(*outcome);
    EXPECT_NE(text.find(path_), std::string::npos) << text;
    EXPECT_NE(text.find("20480 bytes expected, 8209 found (the file was shortened)"),
              std::string::npos)
        << text;
  }
  EXPECT_EQ(tags.size(), 2u);
}

TEST_P(RangeReaderTest, memory_that_was_not_made_known_can_be_read_into_too) {
  const size_t half = kFileBytes / 2 / 4096 * 4096;
  READER_OR_SKIP(ranges, {.ranges_max = 3, .memory = {memory_.data(), half}});
  ranges->start(range(0, half, 0));
  ranges->start(range(half - 8192, 16384, 1));  // across the border
  ranges->start(range(half, kFileBytes - half, 2));
  for (int i = 0; i < 3; ++i) {
    const std::optional<RangeOutcome> outcome = ranges->next(true);
    ASSERT_TRUE(outcome && outcome->ok);
    EXPECT_TRUE(has_arrived(outcome->read)) << outcome->read.tag;
  }
}

TEST_P(RangeReaderTest, a_range_started_ahead_goes_behind_those_that_are_waited_for) {
  READER_OR_SKIP(ranges, {.depth = 1, .piece_bytes = 4096});
  RangeRead ahead = range(0, 6 * 4096, 1);
  ahead.is_ahead = true;
  ranges->start(ahead);
  ranges->start(range(100 * 4096, 6 * 4096, 2));
  ahead = range(200 * 4096, 6 * 4096, 3);
  ahead.is_ahead = true;
  ranges->start(ahead);
  ranges->raise(3);
  std::vector<uint64_t> tags;
  while (const std::optional<RangeOutcome> outcome = ranges->next(true)) {
    EXPECT_TRUE(outcome->ok && has_arrived(outcome->read));
    tags.push_back(outcome->read.tag);
  }
  EXPECT_EQ(tags, (std::vector<uint64_t>{2, 3, 1}));
}

TEST_P(RangeReaderTest, no_more_than_the_stated_reads_are_under_way_ahead) {
  READER_OR_SKIP(ranges, {.depth = 8, .depth_ahead = 3, .piece_bytes = 4096});
  RangeRead ahead = range(0, 10 * 4096, 1);
  ahead.is_ahead = true;
  ranges->start(ahead);
  ranges->pump();
  EXPECT_EQ(ranges->num_reads(), 3);
  ranges->start(range(100 * 4096, 8 * 4096, 2));
  ranges->pump();
  EXPECT_EQ(ranges->num_reads(), 8);
  size_t count = 0;
  while (const std::optional<RangeOutcome> outcome = ranges->next(true)) {
    EXPECT_TRUE(outcome->ok && has_arrived(outcome->read));
    ++count;
  }
  EXPECT_EQ(count, 2u);
}

TEST_P(RangeReaderTest, what_is_given_up_is_read_no_further_and_has_its_outcome) {
  READER_OR_SKIP(ranges, {.depth = 8, .depth_ahead = 3, .piece_bytes = 4096});
  for (const uint64_t tag : {1, 2}) {
    RangeRead ahead = range(tag * 100 * 4096, 10 * 4096, tag);
    ahead.is_ahead = true;
    ranges->start(ahead);
  }
  ranges->pump();
  for (const uint64_t tag : {1, 2}) ranges->give_up(tag);
  std::set<uint64_t> tags;
  while (const std::optional<RangeOutcome> outcome = ranges->next(true)) {
    EXPECT_FALSE(outcome->ok);
    EXPECT_EQ(outcome->error, ECANCELED);
    EXPECT_EQ(outcome->num_found, outcome->read.tag == 1 ? 3 * 4096u : 0u);
    tags.insert(outcome->read.tag);
  }
  EXPECT_EQ(tags.size(), 2u);
  EXPECT_EQ(ranges->num_reads(), 3);
  ranges->start(range(300 * 4096 - 8192, 4096, 3));
  EXPECT_TRUE(ranges->next(true)->ok);
}

TEST_P(RangeReaderTest, can_be_destroyed_while_reads_are_under_way) {
  READER_OR_SKIP(ranges, {.depth = 8, .piece_bytes = 4096});
  for (uint64_t i = 0; i < 30; ++i) {
    RangeRead read = range(i * 10 * 4096, 9 * 4096, i);
    read.is_ahead = i % 3 == 0;
    ranges->start(read);
  }
  ranges->pump();
}

TEST_P(RangeReaderTest, nothing_under_way_is_not_waited_for) {
  READER_OR_SKIP(ranges, {});
  EXPECT_FALSE(ranges->next(true));
  EXPECT_FALSE(ranges->next(false));
}

INSTANTIATE_TEST_SUITE_P(Ways, RangeReaderTest,
                         testing::Values(Way{"uring_direct", ReadWay::kUring, true},
                                         Way{"uring_cached", ReadWay::kUring, false},
                                         Way{"threads_direct", ReadWay::kThreads, true},
                                         Way{"threads_cached", ReadWay::kThreads, false}),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace yeoul
