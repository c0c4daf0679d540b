#include "engine/prefix_hits.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/check.h"
#include "cache/resume_rule.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

constexpr int64_t kMaxTokens = 4;
constexpr int64_t kBaseRest = 40;  // of the prompt that leaves the state

enum class Kind : uint8_t { kInterval, kAnchor, kBeforeTheEnd, kBehindTheAnswer };

const char* name(Kind kind) {
  switch (kind) {
    case Kind::kInterval:
      return "interval";
    case Kind::kAnchor:
      return "anchor";
    case Kind::kBeforeTheEnd:
      return "before the end";
    case Kind::kBehindTheAnswer:
      return "behind the answer";
  }
  return "?";
}

// 1, 2 and around the reach of each decoder layer from the last position.
std::set<int64_t> rests_around_bounds(const ResumeShape& shape, int64_t rest_max) {
  std::set<int64_t> rests = {1, 2};
  for (int64_t depth = 1; depth <= shape.num_layers - shape.last_source; ++depth)
    for (int64_t offset = 0; offset <= 2; ++offset) rests.insert(depth * shape.reach + offset);
  std::erase_if(rests, [&](int64_t rest) { return rest < 1 || rest > rest_max; });
  return rests;
}

enum class Tier : uint8_t { kRam, kDisk };

// The prompt that leaves a state, and what was answered.
struct Left {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;
};

class Comparison {
 public:
  Comparison(const PrefixHitModel& model, int64_t context_max)
      : options_{.parallel = 4,
                 .step_tokens_max = 96,
                 .context_max = context_max,
                 .checkpoint = model.checkpoint,
                 .engram_map = model.engram_map},
        cold_(options_) {
    options_.prefix_cache = true;
  }

  void compare(Kind kind, int64_t position, int64_t rest_max, PrefixHitReport& report);

 private:
  Outcome ask(EngineHarness& engine, GenerateRequest request) {
    std::vector<GenerateRequest> one;
    one.push_back(std::move(request));
    return std::move(engine.answer(std::move(one))[0]);
  }
  GenerateRequest base(Kind kind, int64_t position, int64_t rest) const;
  Left leave(EngineHarness& engine, Kind kind, int64_t position, int64_t rest);
  void compare_one(EngineHarness& warm, Tier tier, Kind kind, int64_t position, int64_t rest,
                   const Left& left, PrefixHitReport& report);

  EngineHarnessOptions options_;
  EngineHarness cold_;
  uint64_t next_key_ = 1;
};

// A prompt whose computation leaves a state of this kind at `position`; another one for each rest,
// because a prompt that cannot go on from it leaves a better one there.
GenerateRequest Comparison::base(Kind kind, int64_t position, int64_t rest) const {
  const auto key = static_cast<uint64_t>((position * 4 + static_cast<int64_t>(kind)) * 4096 + rest);
  if (kind == Kind::kBeforeTheEnd) return make_request(key, position + 1, kMaxTokens);
  if (kind == Kind::kBehindTheAnswer)
    return make_request(key, position - kMaxTokens + 1, kMaxTokens);
  GenerateRequest request = make_request(key, position + kBaseRest, kMaxTokens);
  if (kind == Kind::kAnchor) request.anchors = {position};
  return request;
}

Left Comparison::leave(EngineHarness& engine, Kind kind, int64_t position, int64_t rest) {
  return {base(kind, position, rest).prompt,
          ask(engine, base(kind, position, rest)).answers[0].tokens};
}

void Comparison::compare(Kind kind, int64_t position, int64_t rest_max, PrefixHitReport& report) {
  options_.snapshot_interval = kind == Kind::kInterval ? position : 0;
  options_.cache_folder.clear();
  EngineHarness warm(options_);
  const std::set<int64_t> rests = rests_around_bounds(warm.engine().shape().resume, rest_max);
  for (const int64_t rest : rests)
    compare_one(warm, Tier::kRam, kind, position, rest, leave(warm, kind, position, rest), report);
  // All over again by two processes that have only the folder in common.
  const TemporaryFolder folder;
  options_.cache_folder = folder.path();
  std::vector<Left> left;
  {
    EngineHarness first(options_);
    for (const int64_t rest : rests) left.push_back(leave(first, kind, position, rest));
  }
  EngineHarness second(options_);
  auto next = left.begin();
  for (const int64_t rest : rests)
    compare_one(second, Tier::kDisk, kind, position, rest, *next++, report);
}

void Comparison::compare_one(EngineHarness& warm, Tier tier, Kind kind, int64_t position,
                             int64_t rest, const Left& left, PrefixHitReport& report) {
  const std::vector<TokenId>& asked = left.prompt;
  const std::vector<TokenId>& answer = left.answer;
  std::vector<TokenId> beginning = asked;
  beginning.insert(beginning.end(), answer.begin(), answer.end());
  beginning.resize(static_cast<size_t>(position));
  // What the state holds of the decoder half follows from the prompt that left it.
  const ResumeShape shape = warm.engine().shape().resume;
  const int64_t cone_end = kind == Kind::kAnchor ? position : std::ssize(asked);
  std::vector<int64_t> valid;
  for (int32_t layer = 0; layer < shape.num_layers; ++layer)
    valid.push_back(std::min(position, resume_window_begin(shape, layer, position, cone_end)));
  GenerateRequest request = make_request(next_key_++, position + rest, kMaxTokens);
  std::copy(beginning.begin(), beginning.end(), request.prompt.begin());
  // The same token as in the base prompt would lengthen what is shared.
  if (asked.size() > beginning.size() &&
      request.prompt[beginning.size()] == asked[beginning.size()])
    request.prompt[beginning.size()] ^= 1;
  GenerateRequest same = make_request(0, 1, kMaxTokens);
  same.prompt = request.prompt;
  same.sampling = request.sampling;
  const bool may_resume = can_resume(shape, valid, position, position + rest);
  const Outcome hit = ask(warm, std::move(request));
  const Outcome miss = ask(cold_, std::move(same));
  ++report.prompts;
  const bool is_hit = hit.reuse.cached_tokens == position;
  report.hits += is_hit;
  report.disk_hits += is_hit && tier == Tier::kDisk;
  const std::string what = fmt::format("{} at {}, rest {}: resumed at {} ({})", name(kind),
                                       position, rest, hit.reuse.cached_tokens, hit.reuse.tier);
  if (is_hit != may_resume) report.violations.push_back(what + ", not where it should");
  if (is_hit && hit.reuse.tier != std::string_view(tier == Tier::kDisk ? "disk" : "ram"))
    report.violations.push_back(what + ", not from where it was");
  if (hit.answers != miss.answers || !hit.status->has_value())
    report.violations.push_back(what + ", other bits than a cold run");
}

}  // namespace

PrefixHitReport compare_hits(const PrefixHitModel& model, const std::vector<int64_t>& positions,
                             int64_t rest_max) {
  PrefixHitReport report;
  Comparison comparison(model, *std::ranges::max_element(positions) + rest_max + kBaseRest + 8);
  for (const int64_t position : positions)
    for (const Kind kind :
         {Kind::kInterval, Kind::kAnchor, Kind::kBeforeTheEnd, Kind::kBehindTheAnswer})
      comparison.compare(kind, position, rest_max, report);
  return report;
}

}  // namespace yeoul
