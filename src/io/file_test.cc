#include "io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "io/read_fully.h"

namespace yeoul {
namespace {

using testing::HasSubstr;

// A file of given bytes for one test.
class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / "yeoul-file-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::string folder_;
};

std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(FileTest, reads_the_bytes_at_a_position_and_knows_its_size) {
  const auto file = File::open(write("a", "0123456789"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 10u);
  std::array<std::byte, 4> into{};
  ASSERT_TRUE(file->read_at(6, into));
  EXPECT_EQ(to_text(into), "6789");
  EXPECT_TRUE(file->read_at(10, {}));
}

TEST_F(FileTest, a_read_over_the_end_says_where_and_how_much) {
  const std::string path = write("a", "0123456789");
  const auto file = File::open(path);
  std::array<std::byte, 4> into{};
  const auto outcome = file->read_at(7, into);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(outcome.error().message,
            path + ": read at offset 7: 4 bytes expected, 3 found (file size 10)");
  EXPECT_FALSE(file->read_at(~0ull - 1, into));
  EXPECT_FALSE(file->read_at(11, into));
}

TEST_F(FileTest, a_file_shortened_after_open_is_an_error_not_a_half_filled_buffer) {
  const std::string path = write("a", "0123456789");
  const auto file = File::open(path);
  ASSERT_EQ(::truncate(path.c_str(), 5), 0);
  std::array<std::byte, 4> into{};
  const auto outcome = file->read_at(3, into);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message,
            path + ": read at offset 3: 4 bytes expected, 2 found (the file was shortened)");
}

TEST_F(FileTest, what_is_missing_or_no_regular_file_is_refused) {
  const auto missing = File::open(folder_ + "/missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));

  const auto folder = File::open(folder_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, folder_ + ": not a regular file");

  // A FIFO without a writer must not block.
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(File::open(fifo));
}

TEST_F(FileTest, a_path_through_a_file_is_unavailable) {
  const auto file = File::open(write("a", "x") + "/b");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kUnavailable);
}

TEST_F(FileTest, moving_hands_the_open_file_over) {
  auto a = File::open(write("a", "aaaa"));
  auto b = File::open(write("b", "bb"));
  *a = std::move(*b);
  const File moved = std::move(*a);
  EXPECT_EQ(moved.size(), 2u);
  std::array<std::byte, 2> into{};
  ASSERT_TRUE(moved.read_at(0, into));
  EXPECT_EQ(to_text(into), "bb");
}

// pread(2) as the kernel may behave: each entry a count of bytes to deliver, or minus an errno.
class ScriptedPread {
 public:
  explicit ScriptedPread(std::vector<ssize_t> script) : script_(std::move(script)) {}

  ssize_t operator()(void* buffer, size_t count, off_t offset) {
    offsets.push_back(offset);
    const ssize_t entry = script_.at(next_++);
    if (entry < 0) {
      errno = static_cast<int>(-entry);
      return -1;
    }
    const size_t num_bytes = std::min(static_cast<size_t>(entry), count);
    std::fill_n(static_cast<char*>(buffer), num_bytes, static_cast<char>('a' + next_ - 1));
    return static_cast<ssize_t>(num_bytes);
  }

  std::vector<off_t> offsets;

 private:
  std::vector<ssize_t> script_;
  size_t next_ = 0;
};

TEST(ReadFully, joins_short_and_interrupted_reads) {
  ScriptedPread pread({3, -EINTR, 2, -EINTR, -EINTR, 100});
  std::array<std::byte, 8> into{};
  const ReadOutcome outcome = read_fully(pread, 100, into);
  EXPECT_EQ(outcome.num_bytes, 8u);
  EXPECT_EQ(outcome.error, 0);
  EXPECT_EQ(to_text(into), "aaaccfff");
  EXPECT_EQ(pread.offsets, (std::vector<off_t>{100, 103, 103, 105, 105, 105}));
}

TEST(ReadFully, stops_at_the_end_and_at_an_error_with_what_arrived) {
  std::array<std::byte, 8> into{};
  ScriptedPread ending({3, 0});
  EXPECT_EQ(read_fully(ending, 0, into).num_bytes, 3u);
  ScriptedPread failing({5, -EIO});
  const ReadOutcome outcome = read_fully(failing, 0, into);
  EXPECT_EQ(outcome.num_bytes, 5u);
  EXPECT_EQ(outcome.error, EIO);
}

}  // namespace
}  // namespace yeoul
