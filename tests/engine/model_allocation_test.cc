// Law 5: with the real model, a step that admits nobody allocates nothing.

#include <gtest/gtest.h>

#include "counting_new.h"
#include "engine/engine_harness.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

void expect_no_allocations(StepProfile* profile, const std::string& cache_folder = "") {
  EngineHarness harness({.parallel = 4,
                         .step_tokens_max = 32,
                         .num_threads = 2,
                         .profile = profile,
                         .prefix_cache = true,
                         .snapshot_interval = 16,
                         .cache_folder = cache_folder});
  std::vector<RequestHandle> handles;
  const auto submit = [&](uint64_t key, int64_t prompt_len) {
    auto handle = harness.engine().submit(make_request(key, prompt_len, 40));
    ASSERT_TRUE(handle.has_value());
    handles.push_back(std::move(*handle));
  };
  // The first requests bring every buffer to its size and every expert into memory.
  for (uint64_t key = 0; key < 4; ++key) submit(key, 60);
  while (harness.engine().step() == StepOutcome::kProgressed) {
  }
  for (uint64_t key = 4; key < 8; ++key) submit(key, 100);
  harness.engine().step();  // admits
  int64_t steps = 0;
  for (;;) {
    const int64_t before = simulation::num_allocations();
    const StepOutcome outcome = harness.engine().step();
    const int64_t allocated = simulation::num_allocations() - before;
    if (outcome != StepOutcome::kProgressed) break;
    ++steps;
    EXPECT_EQ(allocated, 0) << "step " << steps;
  }
  EXPECT_GE(steps, 40);
  if (!cache_folder.empty()) {
    EXPECT_GT(harness.engine().stats().disk.states_written, 20);
  }
}

TEST(ModelAllocation, steps_that_admit_nobody_do_not_allocate) {
  expect_no_allocations(nullptr);
}

TEST(ModelAllocation, steps_that_write_states_behind_do_not_allocate_either) {
  const TemporaryFolder folder;
  expect_no_allocations(nullptr, folder.path());
}

TEST(ModelAllocation, profiled_steps_do_not_allocate_either) {
  const SteadyClock clock;
  StepProfile profile(clock);
  expect_no_allocations(&profile);
  EXPECT_GE(profile.steps(StepKind::kDecode), 40);
  EXPECT_GE(profile.steps(StepKind::kPrefill), 4);
  // Every op of the model left its mark in a layer that runs it.
  const OpCost& attention = profile.cost(StepKind::kDecode, 3, OpKind::kAttention);
  EXPECT_EQ(attention.calls, profile.steps(StepKind::kDecode));
  EXPECT_GT(attention.operations, 0);
  EXPECT_GT(profile.seconds(StepKind::kDecode, 3), attention.seconds);
}

}  // namespace
}  // namespace yeoul
