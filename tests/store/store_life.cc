#include "store/store_life.h"

#include <fmt/format.h>
#include <rocksdb/env.h>
#include <rocksdb/system_clock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "store/fault_file_system.h"
#include "store/made_units.h"

namespace yeoul {

namespace {

namespace fs = std::filesystem;

// Operations after which the power is certain to be gone: opening takes about 30, a unit one or
// two, a sync one, writing out a buffer about 20.
constexpr uint64_t kOperationsMax = 500;
constexpr int kPutsMax = 400;

BlobStoreOptions options_of(const std::string& folder, uint64_t seed) {
  BlobStoreOptions options = {.folder = folder,
                              .budget_bytes = 64 << 20,
                              .unit_bytes_max = kMadeUnitBytesMax,
                              .queue_max = 4,
                              .sync_interval = std::chrono::milliseconds(1000),
                              .retry_after = std::chrono::milliseconds(2)};
  const bool is_tight = mix64(seed) % 4 == 0;
  if (is_tight) options.budget_bytes = BlobStore::budget_min(kMadeUnitBytesMax);
  if (mix64(seed) % 3 == 0) options.sync_interval = std::chrono::milliseconds(1);
  return options;
}

// Every unit that a store has is right, and those that must be there are.
void check_store(BlobStore& store, const std::set<uint64_t>& expected, LifeOutcome& outcome) {
  std::vector<BlobKey> keys;
  std::vector<uint64_t> numbers;
  store.for_each([&](const BlobKey& key, std::span<const uint8_t> note) {
    keys.push_back(key);
    numbers.push_back(note.size() == kMadeNoteBytes ? number_of(note.data()) : 0);
  });
  std::vector<uint8_t> scratch;
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool is_expected = expected.contains(numbers[i]);
    if (made_key(numbers[i]) != keys[i]) ++outcome.wrong_units;
    // A unit that is torn and said to be so is lost, not wrong.
    std::vector<uint8_t> unit;
    if (!store.get(keys[i], scratch)) {
      outcome.lost_units += is_expected;
      continue;
    }
    make_unit(numbers[i], unit);
    if (scratch != unit) ++outcome.wrong_units;
    ++outcome.checked_units;
  }
  const std::set<uint64_t> found(numbers.begin(), numbers.end());
  for (const uint64_t number : expected) outcome.lost_units += !found.contains(number);
  outcome.durable_units += std::ssize(expected);
}

// RocksDB pauses for a second after a background job has failed; here nobody waits for that.
class HastyClock final : public rocksdb::SystemClockWrapper {
 public:
  HastyClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
  const char* Name() const override { return "HastyClock"; }
  void SleepForMicroseconds(int micros) override {
    SystemClockWrapper::SleepForMicroseconds(std::min(micros, 1000));
  }
};

class FaultEnv final : public rocksdb::EnvWrapper {
 public:
  explicit FaultEnv(const std::shared_ptr<rocksdb::FileSystem>& files) : EnvWrapper(Default()) {
    file_system_ = files;
    system_clock_ = std::make_shared<HastyClock>();
  }
  static const char* kClassName() { return "FaultEnv"; }
  const char* Name() const override { return kClassName(); }
};

// What was put, in order, and which of it must survive.
class Load {
 public:
  explicit Load(CaseRng& rng) : rng_(rng) {}

  void run(BlobStore& store, const FaultFileSystem& files) {
    for (int puts = 0; puts < kPutsMax && !files.is_cut(); ++puts) {
      put_made(store, next_++);
      const uint64_t choice = rng_.below(40);
      if (choice < 4 && store.sync()) note_durable(next_);
      if (choice == 5) erase(store);
      if (choice > 30) store.touch(made_key(rng_.below(next_)));
    }
  }
  // Those durable that the store has not evicted: what must be found again.
  std::set<uint64_t> expected(const BlobStore& store) const {
    std::set<uint64_t> numbers;
    for (const uint64_t number : durable_)
      if (store.contains(made_key(number))) numbers.insert(number);
    return numbers;
  }
  // What was found is the new beginning.
  void restart(const BlobStore& store) {
    durable_.clear();
    store.for_each([&](const BlobKey&, std::span<const uint8_t> note) {
      durable_.insert(number_of(note.data()));
    });
    begin_ = next_;
  }

 private:
  void note_durable(uint64_t end) {
    for (; begin_ < end; ++begin_) durable_.insert(begin_);
  }
  void erase(BlobStore& store) {
    const uint64_t number = rng_.below(next_);
    durable_.erase(number);
    store.erase(made_key(number));
  }

  CaseRng& rng_;
  uint64_t next_ = 1;
  uint64_t begin_ = 1;
  std::set<uint64_t> durable_;
};

// One time open, until the power goes. The expected units, or nothing when it went during opening.
void live_once(const BlobStoreOptions& wanted, const std::shared_ptr<FaultFileSystem>& files,
               CaseRng& rng, Load& load, std::set<uint64_t>& expected) {
  FaultEnv env(files);
  files->cut_power_at(rng.below(kOperationsMax));
  if (rng.below(4) == 0) {
    const uint64_t begin = rng.below(kOperationsMax);
    files->fail_between(begin, begin + 1 + rng.below(3),
                        rng.below(2) == 0 ? rocksdb::IOStatus::NoSpace("made up")
                                          : rocksdb::IOStatus::IOError("made up"));
  }
  BlobStoreOptions options = wanted;
  options.env = &env;
  if (Result<std::unique_ptr<BlobStore>> store = BlobStore::open(options)) {
    load.run(**store, *files);
    files->cut_power_now();
    expected = load.expected(**store);
  }
  files->lose_unsynced(rng);
}

}  // namespace

LifeOutcome& LifeOutcome::operator+=(const LifeOutcome& other) {
  points += other.points;
  wrong_units += other.wrong_units;
  lost_units += other.lost_units;
  failed_opens += other.failed_opens;
  checked_units += other.checked_units;
  durable_units += other.durable_units;
  return *this;
}

LifeOutcome live_through_power_cuts(const std::string& scratch, uint64_t seed, int cuts,
                                    Disk disk) {
  LifeOutcome outcome;
  CaseRng rng(seed);
  Load load(rng);
  const BlobStoreOptions options = options_of(scratch + "/store", seed);
  std::set<uint64_t> expected;
  for (int cut = 0; cut < cuts; ++cut) {
    fs::create_directory(scratch + "/trash");
    const auto files = std::make_shared<FaultFileSystem>(scratch + "/trash");
    if (disk == Disk::kForgetsSyncs) files->forget_syncs();
    live_once(options, files, rng, load, expected);
    fs::remove_all(scratch + "/trash");
    ++outcome.points;
    Result<std::unique_ptr<BlobStore>> found = BlobStore::open(options);
    if (!found) {
      fmt::print(stderr, "seed {}, cut {}: {}\n", seed, cut, found.error().message);
      ++outcome.failed_opens;
      return outcome;
    }
    const int64_t before = outcome.violations();
    check_store(**found, expected, outcome);
    if (outcome.violations() != before)
      fmt::print(stderr, "seed {}, cut {}: {} wrong, {} lost of {}\n", seed, cut,
                 outcome.wrong_units, outcome.lost_units, expected.size());
    load.restart(**found);
    expected = load.expected(**found);
  }
  return outcome;
}

}  // namespace yeoul
