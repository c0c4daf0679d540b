#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "api/answer_writer.h"
#include "api/completion_request.h"
#include "api/generation.h"
#include "api/models.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/server.h"

namespace yeoul {

// The routes of the server: from a parsed HTTP request to its answer. Internally synchronized:
// shares the tokenizer, the options and the engine's submit() with the other http threads.
class Routes final : public HttpHandler {
 public:
  Routes(const ServerOptions& options, Engine& engine, std::shared_ptr<const Tokenizer> tokenizer,
         const Clock& clock);

  std::optional<HttpReply> screen(const HttpRequest& head) override;
  HttpAnswer answer(HttpRequest request) override;
  HttpReply refuse(const ApiError& error) override;

 private:
  struct Route;
  struct Call;  // one request with what its handler needs
  static const Route kRoutes[];

  HttpAnswer chat(const Call& call);
  HttpAnswer completions(const Call& call);
  HttpAnswer models(const Call& call);
  HttpAnswer model(const Call& call);
  HttpAnswer tokenize_text(const Call& call);
  HttpAnswer detokenize_tokens(const Call& call);
  HttpAnswer health(const Call& call);
  HttpAnswer metrics(const Call& call);
  HttpAnswer cache(const Call& call);
  HttpAnswer root(const Call& call);

  ParseContext parse_context() const;
  int64_t context_max() const;
  ApiResult<void> check_fields(const GenerationFields& fields);
  AnswerSetup setup_of(const GenerationFields& fields, AnswerRules rules, std::string id) const;
  HttpAnswer submit(const Call& call, GenerationFields fields, AnswerRules rules,
                    std::vector<std::vector<TokenId>> prompts, bool is_chat);
  ApiError explain_refusal(Error error) const;
  HttpReply failure(ApiError error) const;
  void log_ignored(const std::vector<std::string>& fields);

  const ServerOptions& options_;
  Engine& engine_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const Clock& clock_;
  const ServedModel served_;
  Metrics metrics_;
  std::mutex mutex_;
  std::unordered_set<std::string> logged_fields_;
};

}  // namespace yeoul
