// Prints the claims of the prefix index, one JSON line each.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/counter_rng.h"
#include "cache/prefix_index.h"
#include "house.h"
#include "prefix_oracle.h"
#include "scheduler/scheduler.h"

namespace {

using namespace yeoul;
using namespace yeoul::simulation;

void index_oracle() {
  constexpr uint64_t kSeeds = 100;
  constexpr int64_t kOperationsPerSeed = 10'000;
  int64_t operations = 0;
  int64_t wrong = 0;
  for (uint64_t seed = 1'000; seed < 1'000 + kSeeds; ++seed) {
    const PrefixOracleReport report = run_prefix_oracle(seed, kOperationsPerSeed);
    operations += report.operations;
    wrong += std::ssize(report.violations) + report.full_rereads;
    for (const std::string& what : report.violations) fmt::print("seed {}: {}\n", seed, what);
  }
  fmt::print(
      R"({{"name": "index_oracle", "value": {}, "unit": "violations and full re-reads in {} )"
      R"(operations, {} seeds", "goal": 0, "holds": {}}})"
      "\n",
      wrong, operations, kSeeds, wrong == 0 && operations >= 1'000'000);
}

// A tree of 100,000 nodes: chats of a few turns below shared beginnings, one of them very long.
// Times a lookup of that one, as admission does it.
void lookup_cost() {
  constexpr int32_t kSnapshots = 80'000;
  constexpr int32_t kTokensPerPage = 256;
  constexpr int64_t kLong = 100'000;
  const ResumeShape shape{.num_layers = 40, .last_source = 20, .reach = 127};
  PagePool pool(kSnapshots + 1000);
  PrefixIndex index(pool, {.shape = shape,
                           .tokens_per_page = kTokensPerPage,
                           .snapshots_max = kSnapshots,
                           .length_max = kLong + 1});
  const std::vector<int64_t> valid(40, 0);
  std::vector<TokenId> prompt;
  for (int64_t i = 0; i < kLong; ++i)
    prompt.push_back(static_cast<TokenId>(mix64(static_cast<uint64_t>(i)) % 129'280));
  PageTable whole(pool);
  // Shares the first `num_shared` pages of the long prompt.
  const auto keep = [&](const std::vector<TokenId>& units, size_t num_shared) {
    PageTable table(pool);
    table.share_prefix(whole, num_shared);
    while (std::ssize(table.pages()) < pages_for(std::ssize(units), kTokensPerPage))
      table.append(*pool.try_take());
    index.insert(*index.reserve_number(), 1, PrefixUnits(units), table, valid);
  };
  while (std::ssize(whole.pages()) < pages_for(kLong, kTokensPerPage))
    whole.append(*pool.try_take());
  keep(prompt, whole.size());
  // Branches all along the long prompt, many more near its beginning, and among the branches.
  std::vector<TokenId> units;
  for (uint64_t i = 0; index.num_snapshots() < kSnapshots; ++i) {
    const uint64_t fork = mix64(i) % (i < 2000 ? kLong : 200);
    units.assign(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(fork));
    for (uint64_t j = 0; j < 1 + mix64(i) % 40; ++j)
      units.push_back(static_cast<TokenId>(200'000 + mix64(i * 64 + j) % 100));
    keep(units, fork / kTokensPerPage);
  }
  prompt.push_back(1);
  std::vector<double> micros;
  for (int i = 0; i < 201; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const PrefixLookup found = index.lookup(1, PrefixUnits(prompt));
    micros.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
    CHECK(found.match.resume_len == kLong, "resumes at {}", found.match.resume_len);
  }
  std::ranges::sort(micros);
  const double median = micros[micros.size() / 2];
  fmt::print(
      R"({{"name": "lookup_cost", "value": {:.0f}, "unit": "us for a prompt of {} tokens in )"
      R"(a tree of {} nodes, median of {}, 99th percentile {:.0f}", "goal": "<= 1000", )"
      R"("holds": {}}})"
      "\n",
      median, kLong, index.num_nodes(), micros.size(), micros[micros.size() * 99 / 100],
      median <= 1000 && index.num_nodes() >= 100'000);
}

// What a step of 64 decoding sequences of 32,000 tokens costs outside the executor: plan, pages,
// commit.
void plan_cost() {
  constexpr int32_t kSequences = 64;
  constexpr int64_t kPrompt = 32'000;
  constexpr int kSteps = 200;
  constexpr SchedulerLimits kLimits = {.parallel = kSequences,
                                       .step_tokens_max = kSequences * kPrompt,
                                       .num_pages = kSequences * 128,
                                       .sequence_pages_max = 128,
                                       .tokens_per_page = 256,
                                       .num_layers = 40,
                                       .sequences_max = kSequences};
  PagePool pool(kLimits.num_pages);
  Scheduler scheduler(kLimits);
  const std::vector<TokenId> prompt(kPrompt, 1);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (uint64_t i = 0; i < kSequences; ++i) {
    sequences.push_back(std::make_unique<Sequence>(
        SequenceSpec{.arrival = i, .prompt = prompt, .output_max = kSteps + 2}, pool));
    CHECK(sequences.back()->reserve_memory(kLimits.tokens_per_page));
    scheduler.enqueue(*sequences.back());
  }
  while (Sequence* next = scheduler.next_admission()) scheduler.admit(*next);
  StepPlan plan;
  reserve_plan(kLimits, plan);
  std::vector<int32_t> storage;
  storage.reserve(static_cast<size_t>(kLimits.num_pages));
  std::vector<double> micros;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    scheduler.plan(step, plan);
    storage.resize(static_cast<size_t>(page_demand(plan)));
    auto pages = PageReservation::make(pool, storage);
    CHECK(pages);
    assign_pages(*pages, plan);
    for (size_t i = 0; i < plan.items.size(); ++i) {
      const StepItem& item = plan.items[i];
      Sequence& sequence = *scheduler.running()[i];
      const auto held = static_cast<int32_t>(sequence.page_table().size());
      sequence.commit(item.num_tokens, item.num_pages - held, *pages);
      sequence.append_output(1);
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    if (step > 1) micros.push_back(std::chrono::duration<double, std::micro>(took).count());
  }
  std::ranges::sort(micros);
  const double median = micros[micros.size() / 2];
  fmt::print(R"({{"name": "plan_cost", "value": {:.1f}, "unit": "us a step of {} sequences of {} )"
             R"(tokens for plan, reserve and commit, median of {}", "goal": "<= 50", "holds": {}}})"
             "\n",
             median, kSequences, kPrompt, micros.size(), median <= 50);
  for (const std::unique_ptr<Sequence>& sequence : sequences) scheduler.remove(*sequence);
}

// What 16 prompts of a common beginning and as many ends cost to compute, in tokens times layers.
class Sharing {
 public:
  static constexpr int64_t kShared = 10'037;
  static constexpr int64_t kOwn = 1'500;
  static constexpr int64_t kPrompts = 16;
  static constexpr int64_t kInterval = 4'096;
  static constexpr ResumeShape kShape{.num_layers = 40, .last_source = 20, .reach = 127};

  // Every token once, and for each prompt the cone of its end; what of the cones lies before the
  // fork is the same for all.
  static int64_t unique_layer_tokens() {
    int64_t sum = int64_t{kShape.last_source} * (kShared + kPrompts * kOwn);
    for (int32_t layer = kShape.last_source; layer < kShape.num_layers; ++layer) {
      const int64_t rows = 1 + int64_t{kShape.reach} * (kShape.num_layers - 1 - layer);
      sum += kPrompts * std::min(rows, kOwn) + std::max<int64_t>(0, rows - kOwn);
    }
    return sum;
  }
  static int64_t anchor_layer_tokens() {
    int64_t sum = 0;
    for (int32_t layer = kShape.last_source; layer < kShape.num_layers; ++layer)
      sum += 1 + int64_t{kShape.reach} * (kShape.num_layers - 1 - layer);
    return sum;
  }

  // Computed layer-tokens of one order of arrival. With `spread` the prompts arrive while the
  // common part is computed. Adds what each follower computed of the common part.
  int64_t run(uint64_t seed, bool spread) {
    HouseOptions options;
    options.engine = {.parallel = 16,
                      .queue_max = 16,
                      .step_tokens_max = 512,
                      .num_pages = 16 * 46,
                      .num_snapshots = 128,
                      .snapshot_interval = kInterval};
    options.shape = {.num_layers = 40,
                     .vocab_size = 64,
                     .context_max = kShared + kOwn + 1,
                     .tokens_per_page = 256,
                     .bytes_per_page = 1,
                     .resume = kShape};
    House house(options);
    const Question common = make_question(seed, kShared, 1);
    std::vector<int64_t> arrivals(kPrompts, 0);  // in tokens computed until then
    for (size_t i = 1; spread && i < arrivals.size(); ++i)
      arrivals[i] = static_cast<int64_t>(mix64(seed * 16 + i) % kShared);
    std::ranges::sort(arrivals);
    std::vector<RequestHandle> handles;
    while (handles.size() < arrivals.size() || !house.engine->idle()) {
      while (handles.size() < arrivals.size() &&
             house.log.tokens_computed >= arrivals[handles.size()]) {
        Question question = follow(common, kShared, mix64(seed) + handles.size(), kOwn);
        question.output_max = 1;
        question.prompt[kShared] = static_cast<TokenId>(mix64(seed) % 64 + handles.size()) % 64;
        handles.push_back(house.submit(question));
      }
      house.engine->step();
    }
    for (RequestHandle& handle : handles) {
      const Answer answer = read(handle);
      const int64_t cached = answer.ending->reuse.cached_tokens;
      if (&handle != &handles.front())
        recomputed_.push_back(std::max<int64_t>(0, kShared - cached));
    }
    violations_ += std::ssize(house.log.violations);
    return house.log.layer_tokens_computed;
  }

  void claim(const char* name, uint64_t orders, bool spread, double bound) {
    recomputed_.clear();
    violations_ = 0;
    const auto unique = static_cast<double>(unique_layer_tokens());
    double worst = 0;
    for (uint64_t seed = 1; seed <= orders; ++seed)
      worst = std::max(worst, static_cast<double>(run(seed, spread)) / unique);
    std::ranges::sort(recomputed_);
    const int64_t median = recomputed_[recomputed_.size() / 2];
    const double limit = bound + static_cast<double>(anchor_layer_tokens()) / unique;
    const bool holds = worst <= limit && violations_ == 0 && median <= kInterval + 2541;
    fmt::print(
        R"({{"name": "{}", "value": {:.4f}, "unit": "of the layer-tokens of the unique tokens, )"
        R"(worst of {} orders; a follower computes {} shared tokens again in the median", )"
        R"("goal": "<= {:.4f}", "holds": {}}})"
        "\n",
        name, worst, orders, median, limit, holds);
  }

 private:
  std::vector<int64_t> recomputed_;
  int64_t violations_ = 0;
};

}  // namespace

int main() {
  index_oracle();
  lookup_cost();
  plan_cost();
  Sharing().claim("share_at_once", 1000, false, 1.02);
  Sharing().claim("share_staggered", 1000, true, 1.05);
  return 0;
}
