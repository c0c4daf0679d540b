#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "commands.h"
#include "io/npy.h"

namespace yeoul {
namespace {

struct LogitsArguments {
  ModelArguments model;
  std::vector<TokenId> tokens;
  int32_t chunk = 0;
  std::string out;
  std::string routing;  // empty: not recorded
};

// Writes which experts the tokens of a step chose: position, layer, experts; a line each.
class RoutingRecorder {
 public:
  static Result<RoutingRecorder> create(const std::string& path) {
    RoutingRecorder recorder;
    if (path.empty()) return recorder;
    recorder.file_.open(path, std::ios::trunc);
    if (!recorder.file_) return fail(ErrorCode::kUnavailable, path + ": cannot write");
    return recorder;
  }

  // What a step that starts at `position` is to be run with.
  Trace trace(int64_t position) {
    if (!file_.is_open()) return {};
    return {[this, position](const Trace::Tensor& tensor) {
              if (tensor.name != "experts") return;
              const auto chosen = static_cast<size_t>(tensor.shape[1]);
              for (size_t v = 0; v < tensor.values.size(); ++v) {
                if (v % chosen == 0) {
                  file_ << position + static_cast<int64_t>(v / chosen) << ' ' << tensor.layer;
                }
                file_ << ' ' << static_cast<int32_t>(tensor.values[v]);
                if (v % chosen == chosen - 1) file_ << '\n';
              }
            },
            {}};
  }

  Result<void> close() {
    if (!file_.is_open()) return {};
    file_.close();
    if (file_) return {};
    return fail(ErrorCode::kUnavailable, "the routing trace could not be written");
  }

 private:
  std::ofstream file_;
};

Result<void> write_logits(const LogitsArguments& arguments) {
  const auto length = static_cast<int64_t>(arguments.tokens.size());
  ModelArguments model_arguments = arguments.model;
  const int64_t chunk = arguments.chunk > 0 ? std::min<int64_t>(arguments.chunk, length)
                                            : std::min<int64_t>(length, 512);
  model_arguments.parallel = 1;
  model_arguments.step_tokens_max = static_cast<int32_t>(chunk);
  model_arguments.logit_rows_max = static_cast<int32_t>(chunk);
  TRY_ASSIGN(OpenedModel opened, open_model(model_arguments, false));
  LoadedModel& model = *opened.model;
  const int32_t vocab_size = model.config().vocab_size;
  if (length > model.plan().context_max) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("at most {} tokens expected, {} found",
                                                         model.plan().context_max, length));
  }
  for (const TokenId token : arguments.tokens) {
    if (token >= 0 && token < vocab_size) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("token ids 0 to {} expected, {} found", vocab_size - 1, token));
  }
  TRY_ASSIGN(RoutingRecorder routing, RoutingRecorder::create(arguments.routing));
  TRY_ASSIGN(NpyWriter writer, NpyWriter::create(arguments.out, length, vocab_size));
  std::vector<int32_t> pages(static_cast<size_t>(model.kv().limits().num_pages));
  std::iota(pages.begin(), pages.end(), 0);
  model.kv().open_slot(0);
  for (int64_t at = 0; at < length; at += chunk) {
    const auto count = static_cast<int32_t>(std::min(chunk, length - at));
    const ItemInput item{.position = at,
                         .num_rows = count,
                         .pages = pages.data(),
                         .layer_end = model.config().num_hidden_layers,
                         .logits = LogitRows::kEvery};
    const StepInput input{
        {&item, 1},
        std::span(arguments.tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count))};
    const Trace trace = routing.trace(at);
    model.forward().run(input, arguments.routing.empty() ? nullptr : &trace);
    TRY(model.forward().outcomes()[0].status);
    for (int32_t row = 0; row < count; ++row) TRY(writer.append(model.forward().logits(row)));
    model.forward().commit(input, {&count, 1});
  }
  TRY(writer.close());
  TRY(routing.close());
  print_profile(opened.profile.get());
  fmt::print(stderr, "{}: float32 [{}, {}], {}\n", arguments.out, length, vocab_size,
             model.numerics_id());
  return {};
}

}  // namespace

void add_logits_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<LogitsArguments>();
  CLI::App* command =
      app.add_subcommand("logits", "Write the logits of every position of a token sequence");
  add_model_arguments(*command, arguments->model);
  add_profile_option(*command, arguments->model);
  command->add_option("--tokens", arguments->tokens, "Token ids, separated by commas")
      ->delimiter(',')
      ->required();
  command->add_option("--chunk", arguments->chunk, "Tokens of one step (default: up to 512)")
      ->check(CLI::PositiveNumber);
  command->add_option("--out", arguments->out, "Where to write float32 [tokens, vocab]")
      ->required()
      ->type_name("FILE.npy");
  command
      ->add_option("--routing-trace", arguments->routing,
                   "Write the experts each token chose: position, layer, experts; a line each")
      ->type_name("FILE");
  command->callback([arguments, &exit_code] {
    const Result<void> written = write_logits(*arguments);
    exit_code = written ? 0 : report(written.error());
  });
}

}  // namespace yeoul
