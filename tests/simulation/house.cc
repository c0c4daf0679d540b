#include "house.h"

#include <algorithm>
#include <utility>

#include "base/counter_rng.h"

namespace yeoul::simulation {

House::House(const HouseOptions& house_options) : options(house_options) {
  auto executor = std::make_unique<ScriptedExecutor>(
      ScriptedExecutor::Options{.shape = options.shape,
                                .num_slots = options.engine.parallel,
                                .num_pages = options.engine.num_pages,
                                .num_snapshots = options.engine.num_snapshots,
                                .script = options.script,
                                .restores_wrongly = options.restores_wrongly,
                                .step_latency = options.step_latency,
                                .token_latency = options.token_latency,
                                .row_latency = options.row_latency,
                                .jitter = options.jitter},
      &clock, log);
  engine = std::move(*StepEngine::create(options.engine, std::move(executor), clock));
}

RequestHandle House::submit(const Question& question) {
  return std::move(*engine->submit(to_request(question, constraints_alive)));
}

StepOutcome House::settle(int steps_max) {
  StepOutcome outcome = StepOutcome::kProgressed;
  for (int i = 0; i < steps_max && outcome == StepOutcome::kProgressed; ++i)
    outcome = engine->step();
  return outcome;
}

GenerateRequest to_request(const Question& question, int64_t& constraints_alive) {
  GenerateRequest request;
  request.prompt = question.prompt;
  request.sampling.seed = question.seed;
  request.num_choices = question.num_choices;
  request.max_tokens = question.output_max;
  request.stop_token_ids = question.stop_token_ids;
  request.anchors = question.anchors;
  for (const CountingConstraint::Limits& limits : question.constraints)
    request.constraints.push_back(std::make_unique<CountingConstraint>(limits, constraints_alive));
  return request;
}

Question make_question(uint64_t key, int64_t prompt_len, int64_t output_max) {
  Question question;
  for (int64_t i = 0; i < prompt_len; ++i)
    question.prompt.push_back(
        static_cast<TokenId>(counter_bits(mix64(key), static_cast<uint64_t>(i)) % 64));
  question.seed = mix64(key);
  question.output_max = output_max;
  return question;
}

Question follow(const Question& other, size_t keep, uint64_t key, int64_t more) {
  Question next = make_question(key, static_cast<int64_t>(keep) + more, 5);
  std::copy_n(other.prompt.begin(), keep, next.prompt.begin());
  // The same token by chance would lengthen what they share.
  if (keep < other.prompt.size() && next.prompt[keep] == other.prompt[keep])
    next.prompt[keep] = (next.prompt[keep] + 1) % 64;
  return next;
}

std::vector<TokenId> script_tokens(const House& house, const Question& question, int32_t choice) {
  return expected_choice(house.options.script, house.options.shape.resume, question, choice).tokens;
}

void read_into(Answer& answer, RequestHandle& handle) {
  const auto at = [](auto& list, int32_t choice) -> auto& {
    const auto index = static_cast<size_t>(choice);
    if (list.size() <= index) list.resize(index + 1);
    return list[index];
  };
  while (std::optional<RequestEvent> event = handle.events().try_next()) {
    if (const auto* token = std::get_if<TokenEvent>(&*event))
      at(answer.tokens, token->choice).push_back(token->token);
    else if (const auto* finished = std::get_if<ChoiceFinished>(&*event))
      at(answer.finished, finished->choice) = finished->reason;
    else if (const auto* progress = std::get_if<ProgressEvent>(&*event))
      answer.progress.push_back(*progress);
    else
      answer.ending = std::get<RequestFinished>(std::move(*event));
  }
}

Answer read(RequestHandle& handle) {
  Answer answer;
  read_into(answer, handle);
  return answer;
}

}  // namespace yeoul::simulation
