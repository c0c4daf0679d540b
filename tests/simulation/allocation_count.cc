#include "allocation_count.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/counter_rng.h"
#include "counting_new.h"
#include "house.h"

namespace yeoul::simulation {

namespace {

Question mixed_question(uint64_t key) {
  const uint64_t bits = mix64(key);
  // Groups of prompts that begin alike.
  Question question =
      make_question((bits >> 40) % 3 == 0 ? key : key % 16, 1 + static_cast<int64_t>(bits % 60),
                    1 + static_cast<int64_t>((bits >> 8) % 40));
  question.num_choices = (bits >> 16) % 4 == 0 ? 3 : 1;
  if ((bits >> 20) % 3 == 0) question.stop_token_ids = {static_cast<TokenId>((bits >> 24) % 64)};
  if ((bits >> 32) % 4 == 0)
    question.constraints.assign(static_cast<size_t>(question.num_choices), {.end_after = 7});
  return question;
}

}  // namespace

AllocationCount count_allocations(int64_t num_steps) {
  HouseOptions options;
  options.engine.parallel = 8;
  options.engine.num_pages = 30;
  options.engine.stream_tokens_max = 16;
  options.engine.num_snapshots = 12;
  options.engine.snapshot_interval = 16;
  House house(options);
  std::vector<std::optional<RequestHandle>> handles;
  AllocationCount count;
  const auto ended = [&] {
    const EngineStats stats = house.engine->stats();
    return stats.requests_finished[0] + stats.requests_finished[1];
  };
  for (uint64_t turn = 0; count.steps < num_steps; ++turn) {
    const uint64_t bits = mix64(turn);
    if (bits % 4 == 0)
      if (auto handle =
              house.engine->submit(to_request(mixed_question(turn), house.constraints_alive)))
        handles.emplace_back(std::move(*handle));
    // A cancellation names its reason in a string; those steps are not counted.
    const bool cancels = (bits >> 8) % 40 == 0 && !handles.empty();
    if (cancels) handles[(bits >> 16) % handles.size()].reset();
    for (std::optional<RequestHandle>& handle : handles)
      while (handle && (bits >> 24) % 3 != 0 && handle->events().try_next()) {
      }
    const int64_t opened_before = house.log.slots_opened;
    const int64_t ended_before = ended();
    const int64_t before = num_allocations();
    const StepOutcome outcome = house.engine->step();
    const int64_t allocated = num_allocations() - before;
    const int64_t admitted = house.log.slots_opened - opened_before;
    if (outcome != StepOutcome::kProgressed) continue;
    ++count.steps;
    count.admissions += admitted;
    if (cancels) continue;
    if (admitted > 0) {
      count.beyond_admission += std::max<int64_t>(0, allocated - 2 * admitted);
      continue;
    }
    ++count.plain_steps;
    count.plain_steps_with_endings += ended() > ended_before ? 1 : 0;
    count.in_plain_steps += allocated;
  }
  count.prefix_hits = house.engine->stats().prefix_hits;
  count.preemptions = house.engine->stats().preemptions;
  count.snapshots_evicted = house.engine->stats().snapshots_evicted;
  return count;
}

}  // namespace yeoul::simulation
