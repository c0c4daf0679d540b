#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "api/answer_decoder.h"
#include "commands.h"
#include "engine/engine.h"
#include "engine/model_executor.h"
#include "text/chat_format.h"

namespace yeoul {
namespace {

struct RunArguments {
  ModelArguments model;
  std::string prompt;
  std::string system;
  std::string thinking = "off";
  bool is_raw = false;
  SamplingParams sampling;
  int64_t max_tokens = 256;
};

Result<Thinking> parse_thinking(const std::string& text) {
  if (text == "off") return Thinking{false};
  if (text == "low") return Thinking{true, 50};
  if (text == "high") return Thinking{true, 75};
  if (text == "max") return Thinking{true, 100};
  int effort = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), effort);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && effort >= 1 &&
      effort <= 100) {
    return Thinking{true, effort};
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("--thinking: off, low, high, max or 1 to 100 expected, {} found", text));
}

Result<std::vector<TokenId>> encode_prompt(const RunArguments& arguments,
                                           const Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  if (arguments.is_raw) {
    tokenizer.encode_text(arguments.prompt, tokens);
    return tokens;
  }
  Conversation conversation;
  TRY_ASSIGN(conversation.thinking, parse_thinking(arguments.thinking));
  const auto add = [&](Role role, const std::string& text) {
    Message message;
    message.role = role;
    message.content.emplace_back(TextPart{text});
    conversation.messages.push_back(std::move(message));
  };
  if (!arguments.system.empty()) add(Role::kSystem, arguments.system);
  add(Role::kUser, arguments.prompt);
  TRY_ASSIGN(const RenderedChat chat, render_chat(conversation));
  return encode_chat(chat, tokenizer);
}

// Writes the answer to stdout: reasoning between <think> and </think>, then the text.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(const AnswerRules& rules) : decoder_(rules) {}

  void push(TokenId token) {
    decoder_.push(token, events_);
    print();
  }
  void finish() {
    decoder_.finish(events_);
    print();
    close_reasoning();
    fmt::print("\n");
  }

 private:
  void print() {
    for (const OutputEvent& event : events_) {
      if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
        fmt::print("{}{}", in_reasoning_ ? "" : "<think>\n", reasoning->text);
        in_reasoning_ = true;
      } else if (const auto* content = std::get_if<ContentDelta>(&event)) {
        close_reasoning();
        fmt::print("{}", content->text);
      }
    }
    events_.clear();
    std::fflush(stdout);
  }
  void close_reasoning() {
    if (in_reasoning_) fmt::print("\n</think>\n");
    in_reasoning_ = false;
  }

  AnswerDecoder decoder_;
  std::vector<OutputEvent> events_;
  bool in_reasoning_ = false;
};

// Prints the answer as it comes; returns when the request has ended.
Result<void> print_answer(EventStream& events, const AnswerRules& rules) {
  AnswerPrinter printer(rules);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  ProgressLine line("prompt");
  double first_token_s = 0;
  int64_t tokens = 0;
  for (;;) {
    const std::optional<RequestEvent> event = events.next(std::chrono::milliseconds(200));
    if (!event) continue;
    if (const auto* progress = std::get_if<ProgressEvent>(&*event)) {
      line.show(static_cast<uint64_t>(progress->processed_tokens),
                static_cast<uint64_t>(progress->prompt_tokens));
    } else if (const auto* token = std::get_if<TokenEvent>(&*event)) {
      if (tokens++ == 0) {
        first_token_s = seconds();
        line.show(1, 1);
      }
      printer.push(token->token);
    } else if (const auto* finished = std::get_if<RequestFinished>(&*event)) {
      printer.finish();
      TRY(finished->status);
      const double decode_s = seconds() - first_token_s;
      fmt::print(stderr, "[{} prompt tokens, {} output tokens, TTFT {:.3f} s, {:.1f} tok/s]\n",
                 finished->prompt_tokens, tokens, first_token_s,
                 tokens > 1 ? static_cast<double>(tokens - 1) / decode_s : 0.0);
      return {};
    }
  }
}

Result<void> run(RunArguments arguments) {
  TRY_ASSIGN(OpenedModel opened, open_model(arguments.model, false));
  GenerateRequest request;
  TRY_ASSIGN(request.prompt, encode_prompt(arguments, *opened.tokenizer));
  AnswerRules rules{.tokenizer = opened.tokenizer, .plain_text = arguments.is_raw};
  rules.parser.starts_in_reasoning = arguments.thinking != "off";
  rules.parser.parse_tool_calls = false;  // no tools are offered here
  rules.stop_token_ids = {opened.model->config().eos_token_id};
  request.sampling = arguments.sampling;
  request.max_tokens = arguments.max_tokens;
  request.stop_token_ids = rules.stop_token_ids;
  EngineOptions options{.parallel = 1,
                        .queue_max = 0,
                        .step_tokens_max = arguments.model.step_tokens_max,
                        .num_pages = opened.model->plan().kv.num_pages,
                        .context_max = opened.model->plan().context_max,
                        .num_snapshots = opened.model->plan().kv.snapshots};
  const SteadyClock clock;
  TRY_ASSIGN(
      const std::unique_ptr<Engine> engine,
      Engine::create(options, std::make_unique<ModelExecutor>(std::move(opened.model)), clock));
  TRY_ASSIGN(RequestHandle handle, engine->submit(std::move(request)));
  std::jthread stepping([&](const std::stop_token& stop) { engine->run(stop); });
  const Result<void> answered = print_answer(handle.events(), rules);
  stepping.request_stop();
  stepping.join();
  print_profile(opened.profile.get());
  return answered;
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<RunArguments>();
  arguments->sampling.seed = std::random_device{}();
  CLI::App* command = app.add_subcommand("run", "Answer one prompt on the terminal");
  add_model_arguments(*command, arguments->model);
  add_profile_option(*command, arguments->model);
  command->add_option("PROMPT", arguments->prompt, "What the user says")->required();
  command->add_option("--system", arguments->system, "System message");
  command->add_option("--thinking", arguments->thinking, "off, low, high, max or 1 to 100")
      ->capture_default_str();
  command->add_flag("--raw", arguments->is_raw, "Continue the text as it is, without chat format");
  command->add_option("--temperature", arguments->sampling.temperature, "0 is greedy")
      ->capture_default_str();
  command->add_option("--top-p", arguments->sampling.top_p)->capture_default_str();
  command->add_option("--seed", arguments->sampling.seed, "Default: a random one");
  command->add_option("--max-tokens", arguments->max_tokens)->capture_default_str();
  command->callback([arguments, &exit_code] {
    const Result<void> answered = run(*arguments);
    exit_code = answered ? 0 : report(answered.error());
  });
}

}  // namespace yeoul
