// A fault ends the sequence it belongs to and changes no bit of the fifteen beside it.

#include "base/fault.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "support/random_models.h"
#include "support/temporary_folder.h"
#include "test_models.h"

namespace yeoul::parity {
namespace {

constexpr int32_t kSequences = 16;
constexpr size_t kSteps = 12, kFaultStep = 4;

ModelHarness::Options options_for(const TestModel& tested) {
  ModelHarness::Options options = tested.options;
  options.slots = kSequences;
  options.context_max = 256;
  options.page_seed = 6;
  return options;
}

// 16 sequences decode together; what each step used and gave.
struct CrowdRun {
  struct Step {
    std::vector<Logits> logits;          // by sequence
    std::vector<Result<void>> outcomes;  // by sequence
    // Experts as layer << 32 | expert, and rows of the Engram tables: used by which sequences.
    std::map<uint64_t, std::set<int32_t>> expert_users, row_users;
  };
  std::vector<Step> steps;
};

std::vector<std::vector<TokenId>> prompts_of(const ModelHarness& model) {
  std::vector<std::vector<TokenId>> prompts;
  for (int32_t i = 0; i < kSequences; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    prompts.push_back(random_tokens(model.config(), 500 + seed, 10 + 3 * seed));
  }
  return prompts;
}

// `before_step` may arm faults; a sequence that failed is not fed any more.
CrowdRun run_crowd(ModelHarness& model,
                   const std::function<std::unique_ptr<ScopedFault>(size_t)>& fault_of_step) {
  const std::vector<std::vector<TokenId>> prompts = prompts_of(model);
  std::vector<TokenId> next(kSequences);
  for (int32_t i = 0; i < kSequences; ++i) {
    model.reset(i);
    next[static_cast<size_t>(i)] = argmax(model.prefill(i, prompts[static_cast<size_t>(i)]).back());
  }
  std::vector<bool> is_alive(kSequences, true);
  CrowdRun run;
  for (size_t s = 0; s < kSteps; ++s) {
    const std::unique_ptr<ScopedFault> fault = fault_of_step(s);
    std::vector<ModelHarness::Feed> feeds;
    for (int32_t i = 0; i < kSequences; ++i) {
      const auto at = static_cast<size_t>(i);
      if (is_alive[at]) feeds.push_back({.slot = i, .tokens = {next[at]}});
    }
    CrowdRun::Step& step = run.steps.emplace_back();
    step.logits.resize(kSequences);
    step.outcomes.resize(kSequences);
    const Trace trace{
        [&](const Trace::Tensor& tensor) {
          const bool is_experts = tensor.name == "experts";
          if (!is_experts && tensor.name != "engram_rows") return;
          const auto width = static_cast<size_t>(tensor.shape[1]);
          for (size_t v = 0; v < tensor.values.size(); ++v) {
            const auto value = static_cast<uint64_t>(tensor.values[v]);
            const int32_t user = feeds[v / width].slot;
            if (is_experts) {
              step.expert_users[static_cast<uint64_t>(tensor.layer) << 32 | value].insert(user);
            } else {
              step.row_users[value].insert(user);
            }
          }
        },
        {}};
    auto logits = model.step(feeds, s == kFaultStep ? &trace : nullptr);
    for (size_t f = 0; f < feeds.size(); ++f) {
      const auto at = static_cast<size_t>(feeds[f].slot);
      step.logits[at] = std::move(logits[f][0]);
      step.outcomes[at] = model.outcome(f).status;
      is_alive[at] = step.outcomes[at].has_value();
      next[at] = argmax(step.logits[at]);
    }
  }
  return run;
}

const auto kNoFault = [](size_t) { return std::unique_ptr<ScopedFault>(); };

// The victim fails with `code` in the fault step and is gone; all others equal the clean run.
void expect_only_victim_fails(const CrowdRun& clean, const CrowdRun& faulty, int32_t victim,
                              ErrorCode code) {
  for (size_t s = 0; s < kSteps; ++s) {
    for (int32_t i = 0; i < kSequences; ++i) {
      const auto at = static_cast<size_t>(i);
      SCOPED_TRACE(testing::Message() << "step " << s << ", sequence " << i);
      if (i != victim || s < kFaultStep) {
        EXPECT_TRUE(faulty.steps[s].outcomes[at]);
        EXPECT_TRUE(same_bits(faulty.steps[s].logits[at], clean.steps[s].logits[at]));
      } else if (s == kFaultStep) {
        ASSERT_FALSE(faulty.steps[s].outcomes[at]);
        EXPECT_EQ(faulty.steps[s].outcomes[at].error().code, code);
        EXPECT_FALSE(faulty.steps[s].outcomes[at].error().message.empty());
      } else {
        EXPECT_TRUE(faulty.steps[s].logits[at].empty());
      }
    }
  }
}

// A key that exactly one sequence used.
std::pair<uint64_t, int32_t> only_user(const std::map<uint64_t, std::set<int32_t>>& users) {
  for (const auto& [key, sequences] : users) {
    if (sequences.size() == 1) return {key, *sequences.begin()};
  }
  ADD_FAILURE() << "nothing is used by one sequence alone";
  return {0, -1};
}

auto fault_at(FaultPoint point, uint64_t key) {
  return [point, key](size_t step) -> std::unique_ptr<ScopedFault> {
    if (step != kFaultStep) return nullptr;
    return std::make_unique<ScopedFault>(point, [key](uint64_t asked) { return asked == key; });
  };
}

class Faults : public testing::TestWithParam<TestModel (*)()> {
 protected:
  void SetUp() override {
    model_ = std::make_unique<ModelHarness>(options_for(GetParam()()));
    clean_ = run_crowd(*model_, kNoFault);
  }
  std::unique_ptr<ModelHarness> model_;
  CrowdRun clean_;
};

TEST_P(Faults, not_a_number_ends_its_own_sequence) {
  const int32_t victim = 5;
  const int64_t position = 10 + 3 * victim + int64_t{kFaultStep};
  const uint64_t key = static_cast<uint64_t>(victim) << 32 | static_cast<uint64_t>(position);
  const CrowdRun faulty = run_crowd(*model_, fault_at(FaultPoint::kNonFiniteRow, key));
  expect_only_victim_fails(clean_, faulty, victim, ErrorCode::kInternal);
}

TEST_P(Faults, an_expert_that_cannot_be_read_ends_the_sequence_that_chose_it) {
  const auto [key, victim] = only_user(clean_.steps[kFaultStep].expert_users);
  const CrowdRun faulty = run_crowd(*model_, fault_at(FaultPoint::kWeightRead, key));
  expect_only_victim_fails(clean_, faulty, victim, ErrorCode::kUnavailable);
}

TEST_P(Faults, an_engram_row_that_cannot_be_read_ends_the_sequence_that_needs_it) {
  const auto [key, victim] = only_user(clean_.steps[kFaultStep].row_users);
  const CrowdRun faulty = run_crowd(*model_, fault_at(FaultPoint::kEngramRead, key));
  expect_only_victim_fails(clean_, faulty, victim, ErrorCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(Models, Faults, testing::ValuesIn(models_for_all()),
                         [](const auto& tested) { return tested.param().name; });

// A shard that loses its end after the model was loaded: an expert not read before is gone.
class TruncatedShard : public testing::Test {
 protected:
  static constexpr int32_t kLayer = 6, kExpert = 0;

  void SetUp() override {
    const auto written = write_random_model(random_model_config(), folder_.path(), 20261130);
    ASSERT_TRUE(written) << written.error().message;
    options_ = {.checkpoint = folder_.path(),
                .engram_map = folder_.path() + "/engram_map.json",
                .slots = kSequences,
                .context_max = 256};
  }

  // One token of each of 16 sequences.
  static std::vector<ModelHarness::Feed> feeds_of(const ModelHarness& model) {
    const std::vector<TokenId> tokens = random_tokens(model.config(), 8, kSequences);
    std::vector<ModelHarness::Feed> feeds;
    for (int32_t i = 0; i < kSequences; ++i) {
      feeds.push_back({.slot = i, .tokens = {tokens[static_cast<size_t>(i)]}});
    }
    return feeds;
  }

  TemporaryFolder folder_;
  ModelHarness::Options options_;
};

TEST_F(TruncatedShard, fails_the_rows_that_need_the_lost_expert_and_no_others) {
  std::set<size_t> users;  // sequences whose row chose the expert
  ModelHarness whole(options_);
  const Trace trace{[&](const Trace::Tensor& tensor) {
                      if (tensor.name != "experts" || tensor.layer != kLayer) return;
                      const auto width = static_cast<size_t>(tensor.shape[1]);
                      for (size_t v = 0; v < tensor.values.size(); ++v) {
                        if (tensor.values[v] == kExpert) users.insert(v / width);
                      }
                    },
                    {}};
  const auto expected = whole.step(feeds_of(whole), &trace);
  ASSERT_GE(users.size(), 1u);
  ASSERT_LE(users.size(), size_t{kSequences - 2});

  ModelHarness model(options_);
  const Checkpoint& checkpoint = model.weights().checkpoint();
  const auto entry =
      checkpoint.find(fmt::format("layers.{}.ffn.experts.{}.w1.weight", kLayer, kExpert));
  ASSERT_TRUE(entry);
  // Layers are written backwards: behind the first matrix of expert 0 stand only tensors that were
  // loaded at the start.
  const std::string path = checkpoint.shards()[static_cast<size_t>((*entry)->shard)].path();
  std::filesystem::resize_file(path, (*entry)->offset + (*entry)->num_bytes - 10);

  const auto logits = model.step(feeds_of(model));
  for (size_t i = 0; i < kSequences; ++i) {
    const Result<void>& status = model.outcome(i).status;
    if (users.contains(i)) {
      ASSERT_FALSE(status) << "sequence " << i;
      EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
      EXPECT_NE(status.error().message.find("expert 0"), std::string::npos)
          << status.error().message;
    } else {
      EXPECT_TRUE(status) << "sequence " << i;
      EXPECT_TRUE(same_bits(logits[i][0], expected[i][0])) << "sequence " << i;
    }
  }
}

}  // namespace
}  // namespace yeoul::parity
