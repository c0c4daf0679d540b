// Prefixes on disk, over the real model: what comes back after a restart, and what does not.

#include "engine/disk_tier.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_harness.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPromptLen = 600;
constexpr int64_t kMaxTokens = 4;

EngineHarnessOptions options_over(const std::string& folder) {
  return {.parallel = 4, .step_tokens_max = 256, .prefix_cache = true, .cache_folder = folder};
}

Outcome ask(EngineHarness& engine, uint64_t key, uint64_t salt = 0) {
  std::vector<GenerateRequest> one;
  one.push_back(make_request(key, kPromptLen, kMaxTokens));
  one.back().cache_salt = salt;
  return std::move(engine.answer(std::move(one))[0]);
}

// What a prompt leaves on disk, by a process that has ended.
Answer leave_on_disk(const std::string& folder, uint64_t key, uint64_t salt = 0) {
  EngineHarness engine(options_over(folder));
  return ask(engine, key, salt).answers[0];
}

TEST(DiskTier, a_restarted_engine_goes_on_from_what_the_last_one_knew_with_the_same_bits) {
  const TemporaryFolder folder;
  const Answer before = leave_on_disk(folder.path(), 1);
  EngineHarness engine(options_over(folder.path()));
  const Outcome after = ask(engine, 1);
  EXPECT_EQ(after.answers[0], before);
  EXPECT_EQ(after.reuse.cached_tokens, kPromptLen - 1);
  EXPECT_STREQ(after.reuse.tier, "disk");
  const DiskTierStats stats = engine.engine().stats().disk;
  EXPECT_EQ(stats.restores, 1);
  EXPECT_EQ(stats.restored_tokens, kPromptLen - 1);
  // What has come back is in memory from now on.
  EXPECT_STREQ(ask(engine, 1).reuse.tier, "ram");
  EXPECT_EQ(engine.engine().stats().disk.restores, 1);
}

TEST(DiskTier, prompts_that_want_the_same_prefix_at_once_share_one_restore) {
  const TemporaryFolder folder;
  const Answer before = leave_on_disk(folder.path(), 1);
  EngineHarness engine(options_over(folder.path()));
  std::vector<GenerateRequest> three;
  for (int i = 0; i < 3; ++i) three.push_back(make_request(1, kPromptLen, kMaxTokens));
  const std::vector<Outcome> outcomes = engine.answer(std::move(three));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.answers[0], before);
    EXPECT_EQ(outcome.reuse.cached_tokens, kPromptLen - 1);
  }
  EXPECT_EQ(engine.engine().stats().disk.restores, 1);
}

TEST(DiskTier, another_salt_finds_nothing) {
  const TemporaryFolder folder;
  leave_on_disk(folder.path(), 1, 7);
  EngineHarness engine(options_over(folder.path()));
  const Outcome other = ask(engine, 1, 8);
  EXPECT_EQ(other.reuse.cached_tokens, 0);
  EXPECT_STREQ(other.reuse.tier, "none");
  EXPECT_STREQ(ask(engine, 1, 7).reuse.tier, "disk");
}

// Overwrites the middle of every blob file.
void damage_blobs(const std::string& folder) {
  int count = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".blob") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (uintmax_t at = 0; at < entry.file_size(); at += 1024) {
      file.seekp(static_cast<std::streamoff>(at));
      file << "damaged";
    }
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(DiskTier, damaged_units_are_computed_again_counted_and_written_anew) {
  const TemporaryFolder folder;
  const Answer before = leave_on_disk(folder.path(), 1);
  {
    EngineHarness engine(options_over(folder.path()));
  }  // the log becomes blob files
  damage_blobs(folder.path());
  {
    EngineHarness engine(options_over(folder.path()));
    const Outcome after = ask(engine, 1);
    EXPECT_EQ(after.answers[0], before);
    EXPECT_STREQ(after.reuse.tier, "none");
    const DiskTierStats stats = engine.engine().stats().disk;
    EXPECT_EQ(stats.restores_failed, 1);
    EXPECT_GE(stats.store.units_corrupt + stats.store.read_errors, 1);
  }
  // Pages that nobody tried to read are still there and still damaged; each try finds one.
  for (int tries = 0; tries < 8; ++tries) {
    EngineHarness engine(options_over(folder.path()));
    const Outcome after = ask(engine, 1);
    EXPECT_EQ(after.answers[0], before);
    if (after.reuse.tier == std::string("disk")) return;
  }
  FAIL() << "the units were not written anew";
}

// A tier by itself, without an engine that steps.
struct LoneTier {
  explicit LoneTier(const std::string& folder)
      : executor(make_tiny_executor(options_over(folder))),
        pool(16),
        index(pool, {.shape = executor->shape().resume,
                     .tokens_per_page = executor->shape().tokens_per_page,
                     .snapshots_max = 4,
                     .length_max = executor->shape().context_max}),
        tier({.pool = pool, .index = index, .executor = *executor},
             open_tiny_store(folder, *executor), [] {}) {}

  DiskTier::Start begin(uint64_t key, double seconds_a_token = 0) {
    prompt = make_request(key, kPromptLen, kMaxTokens).prompt;
    return tier.begin_restore(
        {.request_id = key, .prompt = prompt, .seconds_a_token = seconds_a_token});
  }
  RestoreEnd finish() {
    std::optional<RestoreEnd> end;
    while (!(end = tier.advance())) std::this_thread::yield();
    return *end;
  }

  std::unique_ptr<ModelExecutor> executor;
  PagePool pool;
  PrefixIndex index;
  DiskTier tier;
  std::vector<TokenId> prompt;
};

TEST(DiskTier, when_computing_is_faster_nothing_is_brought_back) {
  const TemporaryFolder folder;
  leave_on_disk(folder.path(), 1);
  leave_on_disk(folder.path(), 2);
  LoneTier at(folder.path());
  // Nothing is known of the disk yet, so that it is tried.
  ASSERT_EQ(at.begin(1, 1e-12), DiskTier::Start::kBegun);
  EXPECT_EQ(at.finish().length, kPromptLen - 1);
  EXPECT_EQ(at.begin(2, 1e-12), DiskTier::Start::kNothing);
  EXPECT_EQ(at.tier.stats().fetches_declined, 1);
  EXPECT_EQ(at.begin(2, 1e3), DiskTier::Start::kBegun);
}

TEST(DiskTier, pages_on_their_way_back_give_way_and_the_prompt_is_computed) {
  const TemporaryFolder folder;
  leave_on_disk(folder.path(), 1);
  LoneTier at(folder.path());
  ASSERT_EQ(at.begin(1), DiskTier::Start::kBegun);
  while (at.tier.pages().size() == 0) ASSERT_FALSE(at.tier.advance(1));
  EXPECT_EQ(at.pool.num_used(), 1);
  EXPECT_TRUE(at.tier.drop_restore());
  EXPECT_EQ(at.pool.num_used(), 0);
  EXPECT_FALSE(at.tier.drop_restore());
  EXPECT_TRUE(at.tier.is_ready());
  EXPECT_EQ(at.finish().length, 0);
  EXPECT_EQ(at.tier.stats().restores_dropped, 1);
}

TEST(DiskTier, where_no_page_is_free_nothing_comes_back_and_nothing_is_kept) {
  const TemporaryFolder folder;
  leave_on_disk(folder.path(), 1);
  LoneTier at(folder.path());
  while (at.pool.num_free() > 1) at.pool.try_take();
  ASSERT_EQ(at.begin(1), DiskTier::Start::kBegun);
  EXPECT_EQ(at.finish().length, 0);
  EXPECT_EQ(at.pool.num_free(), 1);
  EXPECT_EQ(at.index.num_snapshots(), 0);
}

}  // namespace
}  // namespace yeoul
