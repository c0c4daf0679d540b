#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <memory>
#include <vector>

#include "store/blob_store.h"
#include "store/fault_file_system.h"
#include "store/made_units.h"
#include "store/store_life.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

TEST(StoreFaults, power_cuts_at_random_operations_never_leave_a_wrong_unit_or_lose_a_durable_one) {
  LifeOutcome all;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const TemporaryFolder folder;
    all += live_through_power_cuts(folder.path(), seed, 3);
  }
  EXPECT_EQ(all.violations(), 0);
  EXPECT_GT(all.durable_units, 1000) << "the cuts come too early to show anything";
}

TEST(StoreFaults, a_disk_that_lies_about_syncing_is_found_out_by_the_same_check) {
  LifeOutcome all;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const TemporaryFolder folder;
    all += live_through_power_cuts(folder.path(), seed, 1, Disk::kForgetsSyncs);
  }
  EXPECT_EQ(all.wrong_units, 0);
  EXPECT_GT(all.lost_units + all.failed_opens, 0);
}

// A store over files that fail.
struct FaultyStore {
  TemporaryFolder folder;
  TemporaryFolder trash;
  std::shared_ptr<FaultFileSystem> files = std::make_shared<FaultFileSystem>(trash.path());
  std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
  std::unique_ptr<BlobStore> store;

  explicit FaultyStore(std::chrono::milliseconds retry_after) {
    Result<std::unique_ptr<BlobStore>> opened =
        BlobStore::open({.folder = folder.path() + "/store",
                         .budget_bytes = 64 << 20,
                         .unit_bytes_max = kMadeUnitBytesMax,
                         .queue_max = 4,
                         .retry_after = retry_after,
                         .env = env.get()});
    EXPECT_TRUE(opened);
    if (opened) store = std::move(*opened);
  }
  void fail_from_now(rocksdb::IOStatus status) {
    files->fail_between(files->num_operations(), UINT64_MAX, std::move(status));
  }
  void work_again() { files->fail_between(UINT64_MAX, UINT64_MAX, rocksdb::IOStatus::OK()); }
};

class Failures : public testing::TestWithParam<rocksdb::IOStatus> {};

TEST_P(Failures, while_nothing_can_be_written_units_are_dropped_and_counted_and_old_ones_served) {
  FaultyStore at(std::chrono::hours(1));
  put_made(*at.store, 1);
  ASSERT_TRUE(at.store->sync());
  at.fail_from_now(GetParam());
  put_made(*at.store, 2);
  EXPECT_FALSE(at.store->sync());
  put_made(*at.store, 3);
  EXPECT_FALSE(at.store->sync());
  const BlobStoreStats stats = at.store->stats();
  EXPECT_GE(stats.write_errors, 1);
  EXPECT_EQ(stats.units_dropped_error, 2);
  std::vector<uint8_t> unit;
  EXPECT_TRUE(has_made(*at.store, 1, unit));
  EXPECT_FALSE(at.store->contains(made_key(2)));
}

TEST_P(Failures, writing_goes_on_by_itself_once_it_can) {
  FaultyStore at(std::chrono::milliseconds(1));
  put_made(*at.store, 1);
  ASSERT_TRUE(at.store->sync());
  at.fail_from_now(GetParam());
  put_made(*at.store, 2);
  EXPECT_FALSE(at.store->sync());
  at.work_again();
  while (!at.store->sync()) std::this_thread::yield();
  put_made(*at.store, 3);
  ASSERT_TRUE(at.store->sync());
  std::vector<uint8_t> unit;
  EXPECT_TRUE(has_made(*at.store, 1, unit));
  EXPECT_TRUE(has_made(*at.store, 3, unit));
  EXPECT_EQ(at.store->stats().units_lost, 0);
}

INSTANTIATE_TEST_SUITE_P(StoreFaults, Failures,
                         testing::Values(rocksdb::IOStatus::NoSpace("made up"),
                                         rocksdb::IOStatus::IOError("made up")),
                         [](const auto& at) { return at.param.IsNoSpace() ? "ENOSPC" : "EIO"; });

}  // namespace
}  // namespace yeoul
