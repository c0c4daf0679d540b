#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <vector>

#include "io/file.h"

// Counts allocations of this program while a test asks for it.
namespace {
std::atomic<int64_t> num_allocations = 0;
}  // namespace

// Not inlined: g++ would see free() take what new gave and call it a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  num_allocations.fetch_add(1);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t /*size*/) noexcept {
  std::free(memory);
}

namespace yeoul {
namespace {

constexpr size_t kRowBytes = 8;
constexpr size_t kNumRows = 4096;

// Row r holds the number r in every 16-bit place.
class BatchReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / "yeoul-rows-XXXXXX";
    const int descriptor = ::mkstemp(path_.data());
    ASSERT_GE(descriptor, 0);
    ::close(descriptor);
    std::vector<uint16_t> values;
    for (size_t row = 0; row < kNumRows; ++row) {
      values.insert(values.end(), kRowBytes / 2, static_cast<uint16_t>(row));
    }
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * 2));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_;
};

std::vector<ReadRequest> requests_for(const File& file, std::span<const size_t> rows,
                                      std::vector<std::byte>& into) {
  std::vector<ReadRequest> requests;
  for (size_t i = 0; i < rows.size(); ++i) {
    requests.push_back({.file = &file,
                        .offset = rows[i] * kRowBytes,
                        .into = std::span(into).subspan(i * kRowBytes, kRowBytes),
                        .ok = false});
  }
  return requests;
}

uint16_t first_value(const ReadRequest& request) {
  uint16_t value = 0;
  std::memcpy(&value, request.into.data(), sizeof(value));
  return value;
}

TEST_F(BatchReaderTest, every_request_gets_its_own_bytes_for_any_number_of_threads) {
  const auto file = File::open(path_);
  ASSERT_TRUE(file);
  for (const int num_threads : {1, 2, 7}) {
    BatchReader reader(num_threads);
    for (const size_t num_requests : {0, 1, 2, 3, 48, 1000}) {
      std::vector<size_t> rows;
      for (size_t i = 0; i < num_requests; ++i) rows.push_back(i * 2654435761u % kNumRows);
      std::vector<std::byte> into(num_requests * kRowBytes);
      std::vector<ReadRequest> requests = requests_for(*file, rows, into);
      reader.read(requests);
      for (size_t i = 0; i < num_requests; ++i) {
        ASSERT_TRUE(requests[i].ok);
        ASSERT_EQ(first_value(requests[i]), rows[i]) << num_threads << " threads, request " << i;
      }
    }
  }
}

TEST_F(BatchReaderTest, a_failed_read_leaves_its_neighbours_alone) {
  const auto file = File::open(path_);
  BatchReader reader(3);
  std::vector<size_t> rows(100);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i % 10 == 3 ? kNumRows + i : i;
  std::vector<std::byte> into(rows.size() * kRowBytes);
  std::vector<ReadRequest> requests = requests_for(*file, rows, into);
  reader.read(requests);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(requests[i].ok, i % 10 != 3) << i;
    if (requests[i].ok) {
      ASSERT_EQ(first_value(requests[i]), rows[i]);
    }
  }
}

TEST_F(BatchReaderTest, a_request_that_succeeded_before_can_be_read_again) {
  const auto file = File::open(path_);
  BatchReader reader(2);
  std::vector<std::byte> into(8 * kRowBytes);
  std::vector<ReadRequest> requests =
      requests_for(*file, std::vector<size_t>{1, 2, 3, 4, 5, 6, 7, 8}, into);
  reader.read(requests);
  requests[2].offset = kNumRows * kRowBytes;  // ok is still true from the first time
  reader.read(requests);
  EXPECT_FALSE(requests[2].ok);
  EXPECT_TRUE(requests[3].ok);
}

TEST_F(BatchReaderTest, repeated_batches_do_not_allocate) {
  const auto file = File::open(path_);
  BatchReader reader(3);
  std::vector<size_t> rows(64);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  std::vector<std::byte> into(rows.size() * kRowBytes);
  std::vector<ReadRequest> requests = requests_for(*file, rows, into);
  reader.read(requests);
  const int64_t before = num_allocations.load();
  for (int i = 0; i < 200; ++i) reader.read(requests);
  EXPECT_EQ(num_allocations.load(), before);
}

}  // namespace
}  // namespace yeoul
