// The engine on its own thread, with real time and readers on others. Made for ThreadSanitizer;
// shows nothing else that the simulation does not show.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/counter_rng.h"
#include "house.h"

namespace yeoul::simulation {
namespace {

using std::chrono::milliseconds;

// An engine that runs in its own thread until the object ends.
class RunningHouse {
 public:
  explicit RunningHouse(const HouseOptions& options) : options_(options) {
    auto executor = std::make_unique<ScriptedExecutor>(
        ScriptedExecutor::Options{.shape = options.shape,
                                  .num_slots = options.engine.parallel,
                                  .num_pages = options.engine.num_pages,
                                  .num_snapshots = options.engine.num_snapshots,
                                  .script = options.script},
        nullptr, log_);
    engine_ = std::move(*Engine::create(options.engine, std::move(executor), clock_));
    thread_ = std::jthread([this](std::stop_token stop) { engine_->run(stop); });
  }
  void stop() {
    thread_.request_stop();
    thread_.join();
  }
  Engine& engine() { return *engine_; }
  const HouseOptions& options() const { return options_; }
  const ExecutorLog& log() const { return log_; }  // once stopped

 private:
  const HouseOptions options_;
  SteadyClock clock_;
  ExecutorLog log_;
  std::unique_ptr<Engine> engine_;
  std::jthread thread_;
};

// Reads to the end as a server does. -> whether the answer is the script's.
bool reads_its_script(const Script& script, const Question& question, RequestHandle& handle) {
  AnswerCheck check(script, HouseOptions().shape.resume, question);
  while (!check.has_ended()) {
    const std::optional<RequestEvent> event = handle.events().next(milliseconds(20'000));
    if (!event) return false;
    check.take(*event);
  }
  check.check_ending({});
  return check.violations().empty() && !check.error();
}

TEST(EngineThreads, many_clients_submit_read_and_leave_at_once) {
  HouseOptions options;
  options.engine.parallel = 4;
  options.engine.queue_max = 60;
  options.engine.stream_tokens_max = 3;  // readers and engine wait for each other all the time
  RunningHouse house(options);
  constexpr uint64_t kClients = 6;
  constexpr uint64_t kRequests = 25;
  std::atomic<int> num_good = 0;
  std::atomic<int64_t> num_notified = 0;
  std::vector<std::jthread> clients;
  for (uint64_t client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (uint64_t i = 0; i < kRequests; ++i) {
        const uint64_t key = client * kRequests + i;
        Question question = make_question(key, 1 + static_cast<int64_t>(mix64(key) % 30), 12);
        question.num_choices = key % 5 == 0 ? 2 : 1;
        int64_t unused = 0;
        Result<RequestHandle> handle = house.engine().submit(to_request(question, unused));
        ASSERT_TRUE(handle) << handle.error().message;
        handle->events().set_notifier([&num_notified] { ++num_notified; });
        if (key % 4 == 3) {  // leaves after the first event
          handle->events().next(milliseconds(20'000));
          continue;
        }
        num_good += reads_its_script(options.script, question, *handle) ? 1 : 0;
        (void)house.engine().stats();
      }
    });
  }
  clients.clear();
  EXPECT_EQ(num_good, kClients * kRequests * 3 / 4 + 1);
  EXPECT_GT(num_notified, num_good);
  house.engine().drain();
  while (!house.engine().idle()) std::this_thread::sleep_for(milliseconds(1));
  const EngineStats stats = house.engine().stats();
  EXPECT_EQ(stats.requests_admitted, static_cast<int64_t>(kClients * kRequests));
  EXPECT_EQ(stats.pages_used, 0);
  house.stop();
  EXPECT_TRUE(house.log().violations.empty()) << house.log().violations.front();
  EXPECT_EQ(house.log().slots_open, 0);
}

TEST(EngineThreads, stopping_the_engine_ends_every_request_that_clients_still_wait_for) {
  HouseOptions options;
  options.engine.parallel = 2;
  options.engine.queue_max = 1000;
  options.engine.stream_tokens_max = 2;
  RunningHouse house(options);
  std::atomic<int> num_endings = 0;
  std::atomic<int> num_submitted = 0;
  std::vector<std::jthread> clients;
  for (uint64_t client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (uint64_t i = 0;; ++i) {
        int64_t unused = 0;
        Result<RequestHandle> handle =
            house.engine().submit(to_request(make_question(client * 1000 + i, 10, 50), unused));
        if (!handle) {
          EXPECT_EQ(handle.error().code, ErrorCode::kUnavailable);
          return;
        }
        ++num_submitted;
        while (const auto event = handle->events().next(milliseconds(20'000)))
          if (std::holds_alternative<RequestFinished>(*event)) {
            ++num_endings;
            break;
          }
      }
    });
  }
  while (num_submitted < 20) std::this_thread::sleep_for(milliseconds(1));
  house.stop();
  clients.clear();
  EXPECT_EQ(num_endings, num_submitted);
}

TEST(EngineThreads, the_cache_is_described_while_requests_run_and_accounts_for_every_page_then) {
  HouseOptions options;
  options.engine.parallel = 4;
  options.engine.queue_max = 60;
  options.engine.num_snapshots = 12;
  RunningHouse house(options);
  std::vector<std::jthread> clients;
  for (uint64_t client = 0; client < 3; ++client) {
    clients.emplace_back([&, client] {
      for (uint64_t i = 0; i < 40; ++i) {
        const Question question =
            follow(make_question(i % 5, 40, 3), 20 + static_cast<int64_t>(i % 7), client, 15);
        int64_t unused = 0;
        Result<RequestHandle> handle = house.engine().submit(to_request(question, unused));
        ASSERT_TRUE(handle) << handle.error().message;
        EXPECT_TRUE(reads_its_script(options.script, question, *handle));
      }
    });
  }
  int num_seen_running = 0;
  while (house.engine().stats().requests_admitted < 110) {
    const std::optional<CacheReport> report = house.engine().cache_report(8);
    ASSERT_TRUE(report);
    EXPECT_LE(report->nodes.size(), 8u);
    EXPECT_LE(report->pages_kept, report->pages_used);
    num_seen_running += report->running.empty() ? 0 : 1;
  }
  clients.clear();
  EXPECT_GT(num_seen_running, 0);
  while (!house.engine().idle()) std::this_thread::sleep_for(milliseconds(1));
  const std::optional<CacheReport> report = house.engine().cache_report(1000);
  ASSERT_TRUE(report);
  EXPECT_GT(report->states_used, 0);
  EXPECT_EQ(report->pages_kept, report->pages_used);
  EXPECT_EQ(std::ssize(report->states), report->states_used);
  EXPECT_EQ(std::ssize(report->nodes), report->num_nodes);
  EXPECT_TRUE(report->running.empty());
  for (size_t n = 1; n < report->nodes.size(); ++n)
    EXPECT_LE(report->nodes[n].depth, report->nodes[n - 1].depth + 1);
  for (const CacheReport::State& state : report->states) {
    EXPECT_GE(state.least_rest, 1);
    EXPECT_LE(state.pages_alone, state.pages);
  }
}

TEST(EngineThreads, an_idle_engine_sleeps_and_wakes_for_a_request_or_a_deadline) {
  HouseOptions options;
  options.engine.stream_tokens_max = 2;
  RunningHouse house(options);
  std::this_thread::sleep_for(milliseconds(20));
  const Question question = make_question(1, 4, 2);
  int64_t unused = 0;
  RequestHandle handle = std::move(*house.engine().submit(to_request(question, unused)));
  EXPECT_TRUE(reads_its_script(options.script, question, handle));
  // Paused for its reader, the engine sleeps; the deadline wakes it.
  GenerateRequest request = to_request(make_question(2, 4, 50), unused);
  request.deadline = milliseconds(50);
  RequestHandle late = std::move(*house.engine().submit(std::move(request)));
  for (int i = 0; i < 1000 && !house.engine().idle(); ++i)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(house.engine().idle());
  const Answer answer = read(late);
  ASSERT_TRUE(answer.ending && !answer.ending->status);
  EXPECT_EQ(answer.ending->status.error().code, ErrorCode::kCancelled);
  EXPECT_LT(house.engine().stats().steps, 20);
}

}  // namespace
}  // namespace yeoul::simulation
