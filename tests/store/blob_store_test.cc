#include "store/blob_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "store/made_units.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

BlobStoreOptions options_in(const std::string& folder) {
  return {.folder = folder,
          .budget_bytes = 64 << 20,
          .unit_bytes_max = kMadeUnitBytesMax,
          .queue_max = 4};
}

std::unique_ptr<BlobStore> open_in(const std::string& folder) {
  Result<std::unique_ptr<BlobStore>> store = BlobStore::open(options_in(folder));
  EXPECT_TRUE(store) << (store ? "" : store.error().message);
  return store ? std::move(*store) : nullptr;
}

TEST(BlobStore, units_their_notes_and_their_order_of_use_survive_a_restart) {
  const TemporaryFolder folder;
  {
    const std::unique_ptr<BlobStore> store = open_in(folder.path());
    for (uint64_t number = 1; number <= 50; ++number) put_made(*store, number);
    ASSERT_TRUE(store->sync());
    EXPECT_TRUE(store->touch(made_key(3)));
  }
  const std::unique_ptr<BlobStore> store = open_in(folder.path());
  EXPECT_EQ(store->stats().units, 50);
  std::vector<uint64_t> order;
  store->for_each([&](const BlobKey&, std::span<const uint8_t> note) {
    order.push_back(number_of(note.data()));
  });
  ASSERT_EQ(order.size(), 50u);
  EXPECT_EQ(order[0], 3u);
  EXPECT_EQ(order[1], 50u);
  EXPECT_EQ(order[49], 1u);
  std::vector<uint8_t> scratch;
  for (uint64_t number = 1; number <= 50; ++number)
    EXPECT_TRUE(has_made(*store, number, scratch)) << number;
}

TEST(BlobStore, an_erased_unit_is_gone_at_once_and_after_a_restart) {
  const TemporaryFolder folder;
  std::vector<uint8_t> unit;
  {
    const std::unique_ptr<BlobStore> store = open_in(folder.path());
    put_made(*store, 1);
    put_made(*store, 2);
    ASSERT_TRUE(store->sync());
    store->erase(made_key(1));
    EXPECT_EQ(store->get(made_key(1), unit).error().code, ErrorCode::kNotFound);
    ASSERT_TRUE(store->sync());
  }
  const std::unique_ptr<BlobStore> store = open_in(folder.path());
  EXPECT_FALSE(store->contains(made_key(1)));
  EXPECT_TRUE(has_made(*store, 2, unit));
}

TEST(BlobStore, a_full_queue_drops_and_counts_and_a_second_put_of_a_key_writes_nothing) {
  const TemporaryFolder folder;
  const std::unique_ptr<BlobStore> store = open_in(folder.path());
  std::vector<std::vector<uint8_t>> taken;
  while (std::optional<std::vector<uint8_t>> buffer = store->try_buffer())
    taken.push_back(std::move(*buffer));
  EXPECT_EQ(taken.size(), 5u);
  EXPECT_EQ(store->stats().units_dropped_full, 1);
  for (std::vector<uint8_t>& buffer : taken) {
    make_unit(7, buffer);
    store->put(made_key(7), kMadeNoteBytes, std::move(buffer));
  }
  ASSERT_TRUE(store->sync());
  EXPECT_EQ(store->stats().units_written, 1);
}

TEST(BlobStore, under_constant_puts_units_become_durable_at_the_interval_without_being_asked) {
  const TemporaryFolder folder;
  BlobStoreOptions options = options_in(folder.path());
  options.sync_interval = std::chrono::milliseconds(1);
  const Result<std::unique_ptr<BlobStore>> store = BlobStore::open(options);
  ASSERT_TRUE(store);
  int64_t durable = 0;
  int64_t times = 0;
  for (uint64_t number = 1; times < 5 && number < 100'000; ++number) {
    put_made(**store, number);
    const int64_t now = (*store)->stats().units_durable;
    times += now > durable;
    durable = now;
  }
  EXPECT_EQ(times, 5);
}

TEST(BlobStore, a_folder_serves_one_store_at_a_time) {
  const TemporaryFolder folder;
  const std::unique_ptr<BlobStore> store = open_in(folder.path());
  const Result<std::unique_ptr<BlobStore>> second = BlobStore::open(options_in(folder.path()));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr("in use by another process"));
}

TEST(BlobStore, a_folder_of_something_else_is_refused_and_left_as_it_was) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/letters.txt") << "dear";
  const Result<std::unique_ptr<BlobStore>> store = BlobStore::open(options_in(folder.path()));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(store.error().message, HasSubstr("\"letters.txt\" found"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(BlobStore, a_store_of_a_newer_format_is_refused_and_left_as_it_was) {
  const TemporaryFolder folder;
  open_in(folder.path()).reset();
  std::ofstream(folder.path() + "/YEOUL_STORE") << "yeoul store\nformat 2\n";
  const Result<std::unique_ptr<BlobStore>> store = BlobStore::open(options_in(folder.path()));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kUnsupported);
}

TEST(BlobStore, a_budget_too_small_for_a_few_units_is_refused_with_what_would_do) {
  const TemporaryFolder folder;
  BlobStoreOptions options = options_in(folder.path());
  options.budget_bytes = 1000;
  const Result<std::unique_ptr<BlobStore>> store = BlobStore::open(options);
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message,
              HasSubstr(std::to_string(BlobStore::budget_min(kMadeUnitBytesMax))));
}

// Overwrites the middle of every file whose name ends so.
int damage_files(const std::string& folder, const std::string& ending) {
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.path().string().ends_with(ending) || entry.file_size() == 0) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file << "these bytes were not here before";
    ++count;
  }
  return count;
}

TEST(BlobStore, damaged_bytes_cost_the_units_they_are_in_and_are_never_returned) {
  const TemporaryFolder folder;
  {
    const std::unique_ptr<BlobStore> store = open_in(folder.path());
    for (uint64_t number = 1; number <= 200; ++number) put_made(*store, number);
  }
  open_in(folder.path()).reset();  // what was in the log is in blob files now
  ASSERT_GT(damage_files(folder.path() + "/units", ".blob"), 0);
  const std::unique_ptr<BlobStore> store = open_in(folder.path());
  int64_t right = 0;
  std::vector<uint8_t> unit;
  for (uint64_t number = 1; number <= 200; ++number) right += has_made(*store, number, unit);
  const BlobStoreStats stats = store->stats();
  EXPECT_GT(stats.units_corrupt, 0);
  EXPECT_EQ(right, 200 - stats.units_corrupt);
  EXPECT_EQ(stats.units, right) << "a damaged unit is not offered again";
}

TEST(BlobStore, a_store_whose_own_files_are_damaged_is_refused_with_a_message) {
  const TemporaryFolder folder;
  open_in(folder.path()).reset();
  std::ofstream(folder.path() + "/units/CURRENT") << "MANIFEST-999999\n";
  const Result<std::unique_ptr<BlobStore>> store = BlobStore::open(options_in(folder.path()));
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message, HasSubstr(folder.path()));
}

int64_t bytes_in(const std::string& folder) {
  int64_t sum = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, error)) {
    const uintmax_t size = entry.file_size(error);
    if (!error) sum += static_cast<int64_t>(size);
  }
  return sum;
}

// docs/store.md states the margin: a sixteenth of the budget and four write buffers.
TEST(BlobStore, under_constant_puts_the_folder_stays_within_the_budget_and_the_stated_margin) {
  const TemporaryFolder folder;
  BlobStoreOptions options = options_in(folder.path());
  options.budget_bytes = 16 << 20;
  const int64_t margin = options.budget_bytes / 16 + 4 * (options.budget_bytes / 64);
  const Result<std::unique_ptr<BlobStore>> store = BlobStore::open(options);
  ASSERT_TRUE(store);
  int64_t largest = 0;
  constexpr uint64_t kHot = 40;  // used again and again, so that old files keep live units
  for (uint64_t number = 1; number <= 10'000; ++number) {
    put_made(**store, number);
    if (number > kHot) (*store)->touch(made_key(1 + number % kHot));
    if (number % 16 == 0) largest = std::max(largest, bytes_in(folder.path()));
  }
  ASSERT_TRUE((*store)->sync());
  const BlobStoreStats stats = (*store)->stats();
  EXPECT_LE(largest, options.budget_bytes + margin);
  EXPECT_EQ(stats.units_dropped_space, 0);
  EXPECT_GT(stats.bytes_written, 5 * options.budget_bytes);
  EXPECT_GT(stats.unit_bytes, options.budget_bytes / 2) << "most of the budget is in use";
  std::vector<uint8_t> unit;
  for (uint64_t number = 1; number <= kHot; ++number)
    EXPECT_TRUE(has_made(**store, number, unit)) << number;
  for (uint64_t number = kHot + 1; number < 1000; ++number)
    EXPECT_FALSE((*store)->contains(made_key(number))) << number;
}

}  // namespace
}  // namespace yeoul
