#include "simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/counter_rng.h"
#include "base/fault.h"
#include "engine/step_engine.h"
#include "expected_answer.h"
#include "scripted_executor.h"

namespace yeoul::simulation {

namespace {

// Draws in sequence from one seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : key_(mix64(seed)) {}
  uint64_t bits() { return counter_bits(key_, next_++); }
  int64_t between(int64_t min, int64_t max) {  // both included
    return min + static_cast<int64_t>(bits() % static_cast<uint64_t>(max - min + 1));
  }
  bool chance(double probability) { return unit_interval(bits()) < probability; }

 private:
  uint64_t key_;
  uint64_t next_ = 0;
};

enum class ReaderKind : uint8_t { kEager, kSteady, kStalls, kLeaves };

// A request under way, and how its reader behaves.
struct Client {
  RequestHandle handle;
  AnswerCheck check;
  ReaderKind reader = ReaderKind::kEager;
  bool may_be_cancelled = false;  // it has a deadline, or its reader may fall behind
  int64_t leaves_at_turn = 0;
  int64_t stalls_after_tokens = 0;
};

struct World {
  EngineOptions options;
  ModelShape shape;
  Script script;
  double arrival_chance = 0;
  double admission_fault_rate = 0;
  double preemption_rate = 0;    // of a request in a step, besides those for want of pages
  double common_chance = 0;      // of a prompt that begins like an earlier one
  bool destroys_engine = false;  // in the middle of things, instead of draining
};

World draw_world(Dice& dice) {
  World world;
  constexpr int32_t kTokensPerPage[] = {1, 2, 4, 8, 16};
  world.shape.num_layers = static_cast<int32_t>(dice.between(1, 40));
  world.shape.tokens_per_page = kTokensPerPage[dice.between(0, 4)];
  world.shape.bytes_per_page = 1;
  world.shape.context_max = dice.between(24, 160);
  world.shape.vocab_size = 64;
  world.options.parallel = static_cast<int32_t>(dice.between(1, 8));
  world.options.queue_max = static_cast<int32_t>(dice.between(0, 24));
  world.options.step_tokens_max =
      world.options.parallel + static_cast<int32_t>(dice.between(0, 40));
  world.options.num_pages =
      static_cast<int32_t>(dice.between(24, 400) / world.shape.tokens_per_page + 1);
  world.options.stream_tokens_max = static_cast<size_t>(dice.between(1, 24));
  world.options.slow_reader_max = std::chrono::milliseconds(dice.between(20, 400));
  world.options.itl_target = std::chrono::microseconds(500 * dice.between(0, 6));
  world.script.vocab_size = world.shape.vocab_size;
  world.script.fault_seed = dice.bits();
  world.script.fault_rate = dice.chance(0.5) ? 0.002 : 0.0;
  world.shape.resume = {
      .num_layers = world.shape.num_layers,
      .last_source = static_cast<int32_t>(dice.between(0, world.shape.num_layers)),
      .reach = static_cast<int32_t>(dice.between(1, 7))};
  if (dice.chance(0.75)) {
    world.options.num_snapshots = static_cast<int32_t>(dice.between(1, 24));
    world.options.snapshot_interval = dice.between(0, 20);
    world.common_chance = 0.8;
  }
  world.arrival_chance = dice.chance(0.5) ? 0.05 : 0.4;
  world.admission_fault_rate = dice.chance(0.3) ? 0.05 : 0.0;
  if (dice.chance(0.1)) world.script.lose_at_launch = static_cast<uint64_t>(dice.between(1, 400));
  if (dice.chance(0.1)) world.script.lose_at_collect = static_cast<uint64_t>(dice.between(1, 400));
  world.destroys_engine = dice.chance(0.15);
  world.preemption_rate = dice.chance(0.3) ? 0.05 : 0.0;
  return world;
}

class Simulation {
 public:
  Simulation(uint64_t seed, int64_t num_steps);
  SimulationReport run();

 private:
  void submit();
  Question draw_question();
  void borrow_beginning(std::vector<TokenId>& prompt);
  void remember(const Client& client);
  void turn();
  void read(Client& client);
  void take_all(Client& client);
  void check_invariants();
  void check_end();
  void violation(std::string what) { report_.violations.push_back(std::move(what)); }
  bool admission_fails(uint64_t request_id) const {
    return unit_interval(counter_bits(report_.seed, request_id)) < world_.admission_fault_rate;
  }
  OutsideCauses causes_for(const Client& client) const;

  const int64_t num_steps_;
  Dice dice_;
  const World world_;
  VirtualClock clock_;
  ExecutorLog log_;
  int64_t constraints_alive_ = 0;
  int64_t num_turns_ = 0;
  bool is_destroyed_ = false;
  SimulationReport report_;
  std::unique_ptr<StepEngine> engine_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::vector<TokenId>> conversations_;  // prompts and what was answered to them
};

Simulation::Simulation(uint64_t seed, int64_t num_steps)
    : num_steps_(num_steps), dice_(seed), world_(draw_world(dice_)) {
  report_.seed = seed;
  auto executor = std::make_unique<ScriptedExecutor>(
      ScriptedExecutor::Options{.shape = world_.shape,
                                .num_slots = world_.options.parallel,
                                .num_pages = world_.options.num_pages,
                                .num_snapshots = world_.options.num_snapshots,
                                .script = world_.script},
      &clock_, log_);
  engine_ = std::move(*StepEngine::create(world_.options, std::move(executor), clock_));
}

// As conversations go on: all of an earlier one or a part of it, then something else.
void Simulation::borrow_beginning(std::vector<TokenId>& prompt) {
  if (conversations_.empty()) return;
  const std::vector<TokenId>& earlier =
      conversations_[static_cast<size_t>(dice_.between(0, std::ssize(conversations_) - 1))];
  const int64_t length = std::min(std::ssize(prompt), std::ssize(earlier));
  const int64_t common = dice_.chance(0.5) ? length : dice_.between(0, length);
  std::copy_n(earlier.begin(), common, prompt.begin());
}

void Simulation::remember(const Client& client) {
  constexpr size_t kConversations = 12;
  std::vector<TokenId> conversation = client.check.question().prompt;
  const std::vector<TokenId>& answer = client.check.expected_tokens(0);
  conversation.insert(conversation.end(), answer.begin(), answer.end());
  if (conversations_.size() < kConversations)
    conversations_.push_back(std::move(conversation));
  else
    conversations_[static_cast<size_t>(dice_.between(0, kConversations - 1))] =
        std::move(conversation);
}

Question Simulation::draw_question() {
  Question question;
  const int64_t kv_positions = int64_t{world_.options.num_pages} * world_.shape.tokens_per_page;
  const int64_t total_max = std::min(world_.shape.context_max, kv_positions + 1);
  const int64_t prompt_len =
      dice_.chance(0.2) ? dice_.between(1, total_max - 1) : dice_.between(1, total_max / 4);
  for (int64_t i = 0; i < prompt_len; ++i)
    question.prompt.push_back(static_cast<TokenId>(dice_.between(0, world_.shape.vocab_size - 1)));
  if (dice_.chance(world_.common_chance)) borrow_beginning(question.prompt);
  if (dice_.chance(0.5))
    for (int64_t i = dice_.between(1, 3); i > 0; --i)
      question.anchors.push_back(dice_.between(0, prompt_len));
  question.seed = dice_.bits();
  question.num_choices =
      dice_.chance(0.2) ? static_cast<int32_t>(dice_.between(
                              1, std::min(4, world_.options.parallel + world_.options.queue_max)))
                        : 1;
  // 0 stands for "as many as fit", which the engine has to work out itself.
  question.output_max = total_max - prompt_len;
  if (!dice_.chance(0.1))
    question.output_max = dice_.between(1, std::min<int64_t>(question.output_max, 40));
  for (int64_t i = dice_.between(0, 2); i > 0; --i)
    question.stop_token_ids.push_back(
        static_cast<TokenId>(dice_.between(0, world_.shape.vocab_size - 1)));
  if (dice_.chance(0.1))
    for (int32_t choice = 0; choice < question.num_choices; ++choice)
      question.constraints.push_back(
          {.end_after = dice_.between(0, 8), .broken_after = dice_.between(0, 8)});
  return question;
}

void Simulation::submit() {
  Question question = draw_question();
  GenerateRequest request;
  request.prompt = question.prompt;
  request.sampling.seed = question.seed;
  request.num_choices = question.num_choices;
  const int64_t kv_positions = int64_t{world_.options.num_pages} * world_.shape.tokens_per_page;
  const bool takes_all =
      question.output_max ==
      std::min(world_.shape.context_max, kv_positions + 1) - std::ssize(question.prompt);
  request.max_tokens = takes_all ? 0 : question.output_max;
  request.stop_token_ids = question.stop_token_ids;
  request.anchors = question.anchors;
  request.priority = static_cast<int>(dice_.between(-1, 1));
  if (dice_.chance(0.08)) request.deadline = std::chrono::milliseconds(dice_.between(1, 200));
  const bool has_deadline = request.deadline > Duration::zero();
  for (const CountingConstraint::Limits& limits : question.constraints)
    request.constraints.push_back(std::make_unique<CountingConstraint>(limits, constraints_alive_));
  Result<RequestHandle> handle = engine_->submit(std::move(request));
  if (!handle) {
    ++report_.refused;
    const bool is_full = handle.error().code == ErrorCode::kResourceExhausted;
    const bool is_lost = handle.error().code == ErrorCode::kUnavailable && log_.device_lost;
    if (!is_full && !is_lost) violation("refused: " + handle.error().message);
    return;
  }
  ++report_.requests;
  auto client = std::make_unique<Client>(
      Client{.handle = std::move(*handle),
             .check = AnswerCheck(world_.script, world_.shape.resume, question)});
  client->reader = static_cast<ReaderKind>(dice_.chance(0.6) ? 0 : dice_.between(1, 3));
  client->may_be_cancelled = has_deadline || client->reader == ReaderKind::kSteady ||
                             client->reader == ReaderKind::kStalls;
  client->leaves_at_turn = num_turns_ + dice_.between(0, 60);
  client->stalls_after_tokens = dice_.between(0, 10);
  remember(*client);
  clients_.push_back(std::move(client));
}

void Simulation::take_all(Client& client) {
  while (std::optional<RequestEvent> event = client.handle.events().try_next())
    client.check.take(*event);
}

void Simulation::read(Client& client) {
  switch (client.reader) {
    case ReaderKind::kEager:
    case ReaderKind::kLeaves:
      return take_all(client);
    case ReaderKind::kSteady:
      if (dice_.chance(0.5))
        if (std::optional<RequestEvent> event = client.handle.events().try_next())
          client.check.take(*event);
      return;
    case ReaderKind::kStalls:
      if (client.check.num_tokens() < client.stalls_after_tokens)
        if (std::optional<RequestEvent> event = client.handle.events().try_next())
          client.check.take(*event);
      return;
  }
}

OutsideCauses Simulation::causes_for(const Client& client) const {
  return {.may_cancel = client.may_be_cancelled,
          .device_lost = log_.device_lost,
          .admission_fails = admission_fails(client.handle.id()),
          .shut_down = is_destroyed_};
}

void Simulation::turn() {
  ++num_turns_;
  const StepOutcome outcome = engine_->step();
  if (outcome == StepOutcome::kProgressed)
    ++report_.steps;
  else
    clock_.advance(std::chrono::milliseconds(3));
  if ((outcome == StepOutcome::kFailed) != log_.device_lost) violation("outcome and loss differ");
  if (engine_->healthy() == log_.device_lost) violation("health and loss differ");
  check_invariants();
  for (std::unique_ptr<Client>& client : clients_) {
    read(*client);
    const bool leaves =
        client->reader == ReaderKind::kLeaves && num_turns_ >= client->leaves_at_turn;
    if (!client->check.has_ended() && !leaves) continue;
    if (client->check.has_ended()) {
      take_all(*client);
      client->check.check_ending(causes_for(*client));
      report_.ending_violations += client->check.num_endings() != 1;
    }
    report_.tokens += client->check.num_tokens();
    for (const std::string& what : client->check.violations()) violation(what);
    client.reset();  // destroys the handle: cancels what still runs
  }
  std::erase(clients_, nullptr);
}

void Simulation::check_invariants() {
  const EngineSnapshot snapshot = engine_->snapshot();
  if (const Result<void> ok = check_pages(snapshot.cache); !ok) violation(ok.error().message);
  if (const Result<void> ok = check_scheduler(snapshot.scheduler); !ok)
    violation(ok.error().message);
  if (const Result<void> ok = engine_->prefix_index().check(); !ok) violation(ok.error().message);
}

void Simulation::check_end() {
  const EngineSnapshot snapshot = engine_->snapshot();
  const EngineStats stats = engine_->stats();
  // What is still used belongs to kept prefixes: check_invariants has counted it.
  if (stats.snapshots_used == 0 &&
      std::ssize(snapshot.cache.free_pages) != world_.options.num_pages)
    violation(fmt::format("{} of {} pages are free at the end", snapshot.cache.free_pages.size(),
                          world_.options.num_pages));
  report_.cached_tokens = stats.cached_tokens;
  report_.prefix_hits = stats.prefix_hits;
  report_.snapshots_evicted = stats.snapshots_evicted;
  report_.preemptions = stats.preemptions;
  if (stats.bound_breaches != 0) violation("a bound on waiting was passed");
  if (stats.prefix_hits != log_.slots_resumed) violation("hits and resumed slots differ");
  int64_t num_finished = 0;
  for (size_t i = 0; i < std::size(report_.endings); ++i) {
    report_.endings[i] = stats.requests_finished[i];
    num_finished += stats.requests_finished[i];
  }
  report_.ending_violations += std::abs(num_finished - report_.requests);
  if (num_finished != report_.requests || stats.requests_admitted != report_.requests)
    violation(fmt::format("{} requests, {} admitted, {} finished", report_.requests,
                          stats.requests_admitted, num_finished));
  if (stats.running != 0 || stats.waiting != 0 || stats.pages_used != 0)
    violation("gauges are not zero at the end");
  if (!log_.device_lost && log_.slots_open != 0) violation("open slots at the end");
}

SimulationReport Simulation::run() {
  const ScopedFault fault(FaultPoint::kAdmissionMemory,
                          [this](uint64_t id) { return admission_fails(id); });
  uint64_t draws = 0;
  const ScopedFault preemption(FaultPoint::kPreemption, [&](uint64_t) {
    return unit_interval(counter_bits(mix64(~report_.seed), ++draws)) < world_.preemption_rate;
  });
  while (report_.steps < num_steps_ && num_turns_ < 4 * num_steps_) {
    if (dice_.chance(world_.arrival_chance))
      for (int64_t burst = dice_.between(1, 4); burst > 0; --burst) submit();
    turn();
  }
  if (world_.destroys_engine) {
    is_destroyed_ = true;
    engine_.reset();
    for (const std::unique_ptr<Client>& client : clients_) {
      take_all(*client);
      client->check.check_ending(causes_for(*client));
      report_.ending_violations += client->check.num_endings() != 1;
      for (const std::string& what : client->check.violations()) violation(what);
    }
    if (!log_.device_lost && log_.slots_open != 0) violation("open slots after destruction");
  } else {
    engine_->drain();
    const int64_t turns_max = num_turns_ + 100'000;
    while ((!engine_->idle() || !clients_.empty()) && num_turns_ < turns_max) {
      for (const std::unique_ptr<Client>& client : clients_)
        if (engine_->idle()) client->reader = ReaderKind::kEager;  // fetch the endings
      turn();
    }
    if (!engine_->idle() || !clients_.empty()) violation("does not come to rest");
    check_end();
  }
  if (constraints_alive_ != 0) violation("constraints outlive their requests");
  report_.device_lost = log_.device_lost;
  for (const std::string& what : log_.violations) violation(what);
  return report_;
}

}  // namespace

SimulationReport simulate(uint64_t seed, int64_t num_steps) {
  return Simulation(seed, num_steps).run();
}

std::string describe(const SimulationReport& report) {
  std::string text = fmt::format(
      "seed {:#x}: {} steps, {} requests ({} stop, {} length, {} cancelled, {} error), {} refused, "
      "{} tokens, {} hits of {} tokens, {} evicted, {} preempted{}, {} violations",
      report.seed, report.steps, report.requests, report.endings[0], report.endings[1],
      report.endings[2], report.endings[3], report.refused, report.tokens, report.prefix_hits,
      report.cached_tokens, report.snapshots_evicted, report.preemptions,
      report.device_lost ? ", device lost" : "", report.violations.size());
  for (size_t i = 0; i < std::min<size_t>(report.violations.size(), 5); ++i)
    text += "\n  " + report.violations[i];
  return text;
}

}  // namespace yeoul::simulation
