#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace yeoul {
namespace {

std::shared_ptr<const Checkpoint> tiny() {
  static const auto checkpoint = Checkpoint::open("models/tiny-random");
  EXPECT_TRUE(checkpoint.has_value());
  return *checkpoint;
}

constexpr int64_t kMiB = int64_t{1} << 20;

const MemoryRow& row_of(const MemoryPlan& plan, const char* name) {
  return *std::ranges::find(plan.rows, name, &MemoryRow::name);
}

int64_t slot_bytes(const MemoryPlan& plan) {
  return row_of(plan, "routed experts").num_bytes / plan.weights.experts.num_slots;
}

// Of a plan made with much memory: what it takes without KV pages and known prefixes, with so many
// slots for experts and without Engram rows and scales.
int64_t bytes_with(const MemoryPlan& plan, int64_t slots) {
  int64_t prefixes = 0;
  for (const MemoryRow& row : plan.rows)
    if (row.name == "prefix index" || row.name == "snapshots") prefixes += row.num_bytes;
  return plan.total_bytes - plan.rows.back().num_bytes -
         (plan.weights.experts.num_slots - slots) * slot_bytes(plan) -
         row_of(plan, "Engram tables").num_bytes +
         EngramRows::bytes(tiny()->config(), {.rows_max = 512}) - prefixes;
}

TEST(MemoryPlan, rows_add_up_and_stay_within_the_budget) {
  const Result<MemoryPlan> plan = plan_memory(*tiny(), {.memory_bytes = 400 * kMiB});
  ASSERT_TRUE(plan.has_value());
  const int64_t sum =
      std::accumulate(plan->rows.begin(), plan->rows.end(), int64_t{0},
                      [](int64_t total, const MemoryRow& row) { return total + row.num_bytes; });
  EXPECT_EQ(sum, plan->total_bytes);
  EXPECT_LE(plan->total_bytes, plan->budget_bytes);
  EXPECT_EQ(plan->context_max, 4096);
}

TEST(MemoryPlan, pages_stop_at_what_all_sequences_can_use) {
  const Result<MemoryPlan> plan =
      plan_memory(*tiny(), {.memory_bytes = 4096 * kMiB, .parallel = 3, .context_max = 1000});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->kv.num_pages, 3 * 4);  // 1,000 tokens are 4 pages
}

TEST(MemoryPlan, the_context_advised_in_a_refusal_does_fit) {
  const Result<MemoryPlan> whole =
      plan_memory(*tiny(), {.memory_bytes = 400 * kMiB, .parallel = 1});
  ASSERT_TRUE(whole.has_value());
  // Room for the fixed part, the experts of a token and 5 of the 16 pages of a full sequence.
  const int64_t page_bytes = whole->rows.back().num_bytes / whole->kv.num_pages;
  const int64_t budget = bytes_with(*whole, tiny()->config().num_experts_per_tok) + 5 * page_bytes;
  const Result<MemoryPlan> refused = plan_memory(*tiny(), {.memory_bytes = budget, .parallel = 1});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("--context 1280"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(plan_memory(*tiny(), {.memory_bytes = budget, .parallel = 1, .context_max = 1280}));
}

TEST(MemoryPlan, the_memory_advised_in_a_refusal_does_fit) {
  const Result<MemoryPlan> refused = plan_memory(*tiny(), {.memory_bytes = 10 * kMiB});
  ASSERT_FALSE(refused.has_value());
  const std::string& message = refused.error().message;
  const size_t at = message.find("--memory ");
  ASSERT_NE(at, std::string::npos) << message;
  const int64_t advised = std::stoll(message.substr(at + 9)) * kMiB;
  EXPECT_TRUE(plan_memory(*tiny(), {.memory_bytes = advised}));
  EXPECT_FALSE(plan_memory(*tiny(), {.memory_bytes = advised - 8 * kMiB}));
}

TEST(MemoryPlan, with_room_for_everything_everything_is_in_memory) {
  const Result<MemoryPlan> plan =
      plan_memory(*tiny(), {.memory_bytes = 4096 * kMiB, .parallel = 2});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->weights.experts.num_slots,
            10 * 12 + 3 * tiny()->config().dspark_n_routed_experts);
  EXPECT_TRUE(plan->weights.engram.scales_resident);
  const std::vector<int64_t>& rows = tiny()->config().engram_num_embeddings;
  EXPECT_EQ(plan->weights.engram.num_cached, std::reduce(rows.begin(), rows.end()));
}

TEST(MemoryPlan, experts_that_do_not_fit_take_turns_in_what_is_left) {
  const Result<MemoryPlan> whole =
      plan_memory(*tiny(), {.memory_bytes = 4096 * kMiB, .parallel = 2});
  ASSERT_TRUE(whole.has_value());
  const int32_t all = whole->weights.experts.num_slots;
  // Half of the experts and one full sequence.
  const int64_t budget = bytes_with(*whole, all / 2) + whole->rows.back().num_bytes / 2;
  const Result<MemoryPlan> half = plan_memory(*tiny(), {.memory_bytes = budget, .parallel = 2});
  ASSERT_TRUE(half.has_value());
  EXPECT_LE(half->total_bytes, budget);
  EXPECT_LE(half->weights.experts.num_slots, all / 2);
  EXPECT_GE(half->weights.experts.num_slots, all / 2 * 8 / 10);
  EXPECT_GE(half->kv.num_pages, 16);
  EXPECT_FALSE(half->weights.engram.scales_resident);
  EXPECT_NE(row_of(*half, "routed experts").note.find("at a time"), std::string::npos);
}

TEST(MemoryPlan, what_cannot_hold_the_experts_of_a_step_is_refused) {
  const Result<MemoryPlan> whole =
      plan_memory(*tiny(), {.memory_bytes = 4096 * kMiB, .parallel = 2});
  ASSERT_TRUE(whole.has_value());
  // Two sequences may choose 6 experts at a layer; beside them one sequence's pages.
  const int64_t least = bytes_with(*whole, 6) + whole->rows.back().num_bytes / 2;
  EXPECT_TRUE(plan_memory(*tiny(), {.memory_bytes = least, .parallel = 2}));
  const Result<MemoryPlan> refused =
      plan_memory(*tiny(), {.memory_bytes = least - 1, .parallel = 2});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("--memory"), std::string::npos);
}

TEST(MemoryPlan, snapshots_follow_the_pages_and_give_way_to_what_must_fit) {
  const auto plan = [](int64_t bytes, bool prefix_cache) {
    return *plan_memory(
        *tiny(),
        {.memory_bytes = bytes, .parallel = 2, .context_max = 4096, .prefix_cache = prefix_cache});
  };
  const MemoryPlan whole = plan(4096 * kMiB, true);
  EXPECT_EQ(whole.kv.num_pages, 32);
  EXPECT_EQ(whole.kv.snapshots, 32 / kPagesPerSnapshot + 2 * kSnapshotsPerSequence);
  EXPECT_EQ(plan(4096 * kMiB, false).kv.snapshots, 0);
  EXPECT_EQ(row_of(whole, "snapshots").num_bytes,
            whole.kv.snapshots * KvStore::snapshot_bytes(tiny()->config()));
  // Room for what a step must have, and hardly more.
  const MemoryPlan bare = plan(4096 * kMiB, false);
  const MemoryPlan tight = plan(bytes_with(bare, 6) + bare.rows.back().num_bytes / 2, true);
  EXPECT_EQ(tight.kv.num_pages, 16);
  EXPECT_EQ(tight.kv.snapshots, 0);
  EXPECT_LE(tight.total_bytes, tight.budget_bytes);
}

TEST(MemoryPlan, options_out_of_range_name_the_range) {
  const auto message = [](const MemoryOptions& options) {
    const Result<MemoryPlan> plan = plan_memory(*tiny(), options);
    return plan ? "accepted" : plan.error().message;
  };
  EXPECT_EQ(message({.context_max = 5000}), "context: 0 to 4096 expected, 5000 found");
  EXPECT_EQ(message({.parallel = 0}), "parallel: 1 to 4096 expected, 0 found");
  EXPECT_EQ(message({.parallel = 16, .step_tokens_max = 8}),
            "step tokens: 16 to 65536 expected, 8 found");
}

TEST(MemoryPlan, the_buffers_of_a_step_are_what_was_planned) {
  const Result<MemoryPlan> plan = plan_memory(*tiny(), {.memory_bytes = 400 * kMiB});
  ASSERT_TRUE(plan.has_value());
  const ForwardBuffers buffers(tiny()->config(), plan->forward);
  EXPECT_EQ(buffers.num_bytes(), Forward::buffer_bytes(tiny()->config(), plan->forward));
}

TEST(MemoryPlan, bytes_read_well) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(227840), "222.5 KiB");
  EXPECT_EQ(format_bytes(510286023000), "475.24 GiB");
}

}  // namespace
}  // namespace yeoul
