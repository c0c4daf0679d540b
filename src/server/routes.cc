#include "server/routes.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "api/chat_writer.h"
#include "api/completion_writer.h"
#include "api/tokenize.h"
#include "server/api_keys.h"
#include "server/cache_page.h"
#include "server/generation_exchange.h"

namespace yeoul {
namespace {

constexpr size_t kLoggedFieldsMax = 1000;
constexpr int64_t kRetryAfterMaxSeconds = 30;
constexpr size_t kShownNodesMax = 5000;  // of the prefix index, about half a megabyte of JSON

uint64_t random_word() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

int64_t seconds_since_1970() {
  return static_cast<int64_t>(std::time(nullptr));
}

}  // namespace

struct Routes::Call {
  HttpRequest request;
  std::string id;          // 128 random bits in hex, or the client's own x-request-id
  std::string_view route;  // its path in the table
  std::string_view tail;   // of a route that ends in '/'
  TimePoint received;
};

struct Routes::Route {
  const char* method;
  const char* path;  // one that ends in '/' also matches longer paths
  HttpAnswer (Routes::*answer)(const Call&);
};

const Routes::Route Routes::kRoutes[] = {
    {"POST", "/v1/chat/completions", &Routes::chat},
    {"POST", "/chat/completions", &Routes::chat},
    {"POST", "/v1/completions", &Routes::completions},
    {"POST", "/completions", &Routes::completions},
    {"GET", "/v1/models", &Routes::models},
    {"GET", "/models", &Routes::models},
    {"GET", "/v1/models/", &Routes::model},
    {"GET", "/models/", &Routes::model},
    {"POST", "/tokenize", &Routes::tokenize_text},
    {"POST", "/detokenize", &Routes::detokenize_tokens},
    {"GET", "/health", &Routes::health},
    {"GET", "/metrics", &Routes::metrics},
    {"GET", "/debug/cache", &Routes::cache},
    {"GET", "/", &Routes::root},
};

HttpReply error_reply(const ApiError& error) {
  HttpReply reply;
  reply.status = http_status(error);
  reply.body = format_error(error);
  return reply;
}

Routes::Routes(const ServerOptions& options, Engine& engine,
               std::shared_ptr<const Tokenizer> tokenizer, const Clock& clock)
    : options_(options),
      engine_(engine),
      tokenizer_(std::move(tokenizer)),
      clock_(clock),
      served_{options.model_names, seconds_since_1970(), context_max()},
      metrics_(engine) {}

int64_t Routes::context_max() const {
  const int64_t model_max = engine_.shape().context_max;
  const int64_t configured = engine_.options().context_max;
  return configured > 0 ? std::min(configured, model_max) : model_max;
}

ParseContext Routes::parse_context() const {
  ParseContext context;
  context.vocab_size = engine_.shape().vocab_size;
  context.default_thinking = options_.default_thinking;
  context.random_seed = random_word() >> 11;  // 53 bits: JavaScript clients keep them
  return context;
}

// --- dispatch ---

std::optional<HttpReply> Routes::screen(const HttpRequest& head) {
  if (head.path == "/health" || is_authorized(options_.api_keys, head)) return std::nullopt;
  HttpReply reply = error_reply({ErrorCode::kInvalidArgument,
                                 "API key missing or unknown; send \"Authorization: Bearer KEY\"",
                                 "", "invalid_api_key"});
  reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  metrics_.count_reply("screen", reply.status);
  return reply;
}

HttpAnswer Routes::answer(HttpRequest request) {
  Call call{std::move(request), "", {}, {}, clock_.now()};
  const std::string_view given_id = call.request.header("x-request-id");
  const bool is_id_fine =
      !given_id.empty() && given_id.size() <= 128 &&
      std::ranges::all_of(given_id, [](char c) { return c > ' ' && c < '\x7f'; });
  call.id = is_id_fine ? std::string(given_id)
                       : fmt::format("{:016x}{:016x}", random_word(), random_word());
  // HEAD is GET without the body, which the connection leaves out.
  std::string_view method = call.request.method;
  if (method == "HEAD") method = "GET";
  std::string allowed;
  for (const Route& route : kRoutes) {
    const std::string_view path = route.path;
    const bool is_prefix = path.size() > 1 && path.ends_with('/');
    const bool matches =
        is_prefix ? call.request.path.starts_with(path) : call.request.path == path;
    if (!matches) continue;
    if (method != route.method) {
      allowed = route.method;
      continue;
    }
    call.route = path;
    call.tail =
        is_prefix ? std::string_view(call.request.path).substr(path.size()) : std::string_view();
    HttpAnswer answer = (this->*route.answer)(call);
    auto* reply = std::get_if<HttpReply>(&answer);
    if (reply != nullptr) {  // an exchange counts itself when it ends
      metrics_.count_reply(path, reply->status);
      reply->headers.emplace_back("X-Request-Id", call.id);
    }
    return answer;
  }
  HttpReply reply = allowed.empty()
                        ? error_reply({ErrorCode::kNotFound,
                                       fmt::format("no route {} {}", call.request.method,
                                                   call.request.path.substr(0, 200)),
                                       "", "route_not_found"})
                        : error_reply({ErrorCode::kInvalidArgument,
                                       fmt::format("{}: expected method {}, found {}",
                                                   call.request.path.substr(0, 200), allowed,
                                                   call.request.method),
                                       "", "method_not_allowed"});
  if (!allowed.empty()) reply.headers.emplace_back("Allow", allowed);
  metrics_.count_reply("none", reply.status);
  return reply;
}

HttpReply Routes::refuse(const ApiError& error) {
  HttpReply reply = error_reply(error);
  metrics_.count_reply("none", reply.status);
  return reply;
}

HttpReply Routes::failure(ApiError error) const {
  HttpReply reply = error_reply(error);
  if (reply.status == 429 || reply.status == 503) {
    const EngineStats stats = engine_.stats();
    const int64_t rounds = 1 + stats.waiting / std::max<int64_t>(1, engine_.options().parallel);
    reply.headers.emplace_back("Retry-After",
                               std::to_string(std::min(rounds, kRetryAfterMaxSeconds)));
  }
  return reply;
}

// --- generation ---

HttpAnswer Routes::chat(const Call& call) {
  auto body = parse_json(call.request.body);
  if (!body) {
    return failure({ErrorCode::kInvalidArgument, body.error().message, "", "invalid_json"});
  }
  auto request = parse_chat_request(*body, parse_context());
  if (!request) return failure(std::move(request.error()));
  if (auto checked = check_fields(request->fields); !checked) return failure(checked.error());
  auto prompt = encode_conversation(request->conversation, *tokenizer_);
  if (!prompt) return failure(std::move(prompt.error()));
  AnswerRules rules = chat_rules(*request, *prompt, tokenizer_);
  std::vector<std::vector<TokenId>> prompts;
  prompts.push_back(std::move(prompt->tokens));
  return submit(call, std::move(request->fields), std::move(rules), std::move(prompts), true);
}

HttpAnswer Routes::completions(const Call& call) {
  auto body = parse_json(call.request.body);
  if (!body) {
    return failure({ErrorCode::kInvalidArgument, body.error().message, "", "invalid_json"});
  }
  auto request = parse_completion_request(*body, parse_context());
  if (!request) return failure(std::move(request.error()));
  if (auto checked = check_fields(request->fields); !checked) return failure(checked.error());
  std::vector<std::vector<TokenId>> prompts;
  for (const CompletionPrompt& prompt : request->prompts) {
    prompts.push_back(encode_completion_prompt(prompt, *tokenizer_));
  }
  AnswerRules rules = completion_rules(request->fields, tokenizer_);
  return submit(call, std::move(request->fields), std::move(rules), std::move(prompts), false);
}

// What can be said before the prompt is encoded.
ApiResult<void> Routes::check_fields(const GenerationFields& fields) {
  log_ignored(fields.ignored_fields);
  if (!fields.model.empty()) {
    if (auto known = check_model(served_, fields.model); !known) return known;
  }
  if (!engine_.healthy()) {
    return yeoul::refuse({ErrorCode::kUnavailable, "the engine is not ready", "", "not_ready"});
  }
  return {};
}

AnswerSetup Routes::setup_of(const GenerationFields& fields, AnswerRules rules,
                             std::string id) const {
  AnswerSetup setup;
  setup.header = {std::move(id), seconds_since_1970(), options_.model_names.front(),
                  options_.system_fingerprint};
  setup.rules = std::move(rules);
  setup.choices_per_request = fields.num_choices;
  setup.stream = fields.stream;
  setup.include_usage = fields.include_usage;
  setup.continuous_usage = fields.continuous_usage;
  setup.with_logprobs = fields.sampling.num_top_logprobs >= 0;
  setup.seed = static_cast<int64_t>(fields.sampling.seed);
  setup.ignored_fields = fields.ignored_fields;
  return setup;
}

HttpAnswer Routes::submit(const Call& call, GenerationFields fields, AnswerRules rules,
                          std::vector<std::vector<TokenId>> prompts, bool is_chat) {
  if (options_.seed_from_prompt && !fields.is_seed_given) {
    fields.sampling.seed = seed_from_prompts(prompts);
  }
  AnswerSetup setup = setup_of(fields, rules,
                               fmt::format("{}-{:016x}{:016x}", is_chat ? "chatcmpl" : "cmpl",
                                           random_word(), random_word()));
  setup.num_requests = static_cast<int>(prompts.size());
  for (const std::vector<TokenId>& prompt : prompts) {
    const auto length = static_cast<int64_t>(prompt.size());
    auto fits =
        check_context(length, fields.max_tokens, context_max(), is_chat ? "messages" : "prompt");
    if (!fits) return failure(std::move(fits.error()));
    setup.prompt_tokens += length;
    metrics_.observe_prompt(static_cast<double>(length));
  }
  std::vector<RequestHandle> handles;  // destroying them cancels: all prompts run, or none
  for (std::vector<TokenId>& prompt : prompts) {
    auto handle =
        engine_.submit(make_generate_request(fields, rules, std::move(prompt), setup.header.id));
    if (!handle) {
      metrics_.count_outcome("refused");
      return failure(explain_refusal(std::move(handle.error())));
    }
    handles.push_back(std::move(*handle));
  }
  std::unique_ptr<AnswerWriter> writer;
  if (is_chat) {
    writer = std::make_unique<ChatWriter>(std::move(setup));
  } else {
    writer = std::make_unique<CompletionWriter>(std::move(setup));
  }
  return std::make_unique<GenerationExchange>(
      std::move(handles), std::move(writer), metrics_,
      GenerationExchange::Setup{
          call.route, call.received, options_.progress_interval, {{"X-Request-Id", call.id}}});
}

ApiError Routes::explain_refusal(Error error) const {
  ApiError out(std::move(error));
  if (out.code == ErrorCode::kResourceExhausted) out.reason = "queue_full";
  if (out.code == ErrorCode::kUnavailable)
    out.reason = engine_.healthy() ? "draining" : "not_ready";
  return out;
}

void Routes::log_ignored(const std::vector<std::string>& fields) {
  const std::lock_guard lock(mutex_);
  for (const std::string& field : fields) {
    if (logged_fields_.size() >= kLoggedFieldsMax) return;
    if (logged_fields_.insert(field).second) {
      spdlog::info("request field \"{}\" is unknown and ignored (logged once)", field);
    }
  }
}

// --- everything else ---

HttpAnswer Routes::models(const Call& /*call*/) {
  HttpReply reply;
  reply.body = format_models(served_);
  return reply;
}

HttpAnswer Routes::model(const Call& call) {
  auto found = format_model(served_, call.tail);
  if (!found) return failure(std::move(found.error()));
  HttpReply reply;
  reply.body = std::move(*found);
  return reply;
}

HttpAnswer Routes::tokenize_text(const Call& call) {
  auto body = parse_json(call.request.body);
  if (!body) {
    return failure({ErrorCode::kInvalidArgument, body.error().message, "", "invalid_json"});
  }
  auto tokens = tokenize(*body, *tokenizer_, parse_context(), context_max());
  if (!tokens) return failure(std::move(tokens.error()));
  HttpReply reply;
  reply.body = std::move(*tokens);
  return reply;
}

HttpAnswer Routes::detokenize_tokens(const Call& call) {
  auto body = parse_json(call.request.body);
  if (!body) {
    return failure({ErrorCode::kInvalidArgument, body.error().message, "", "invalid_json"});
  }
  auto text = detokenize(*body, *tokenizer_, parse_context());
  if (!text) return failure(std::move(text.error()));
  HttpReply reply;
  reply.body = std::move(*text);
  return reply;
}

HttpAnswer Routes::health(const Call& /*call*/) {
  if (!engine_.healthy()) {
    return failure({ErrorCode::kUnavailable, "the engine is not ready", "", "not_ready"});
  }
  HttpReply reply;
  reply.body = R"({"status":"ok"})";
  return reply;
}

HttpAnswer Routes::metrics(const Call& /*call*/) {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = metrics_.render();
  return reply;
}

HttpAnswer Routes::cache(const Call& call) {
  const std::optional<CacheReport> report = engine_.cache_report(kShownNodesMax);
  if (!report) {
    return failure({ErrorCode::kUnavailable, "the engine does not answer", "", "not_ready"});
  }
  HttpReply reply;
  if (call.request.header("accept").find("json") != std::string_view::npos) {
    reply.body = format_cache(*report);
  } else {
    reply.content_type = "text/plain; charset=utf-8";
    reply.body = draw_cache(*report);
  }
  return reply;
}

HttpAnswer Routes::root(const Call& /*call*/) {
  HttpReply reply;
  reply.content_type = "text/plain; charset=utf-8";
  reply.body = "yeoul serves " + options_.model_names.front() + " under /v1\n";
  return reply;
}

}  // namespace yeoul
