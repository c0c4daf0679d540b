#include <fmt/format.h>

#include <algorithm>
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
    model.forward().run(input);
    TRY(model.forward().outcomes()[0].status);
    for (int32_t row = 0; row < count; ++row) TRY(writer.append(model.forward().logits(row)));
    model.forward().commit(input, {&count, 1});
  }
  TRY(writer.close());
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
  command->add_option("--tokens", arguments->tokens, "Token ids, separated by commas")
      ->delimiter(',')
      ->required();
  command->add_option("--chunk", arguments->chunk, "Tokens of one step (default: up to 512)")
      ->check(CLI::PositiveNumber);
  command->add_option("--out", arguments->out, "Where to write float32 [tokens, vocab]")
      ->required()
      ->type_name("FILE.npy");
  command->callback([arguments, &exit_code] {
    const Result<void> written = write_logits(*arguments);
    exit_code = written ? 0 : report(written.error());
  });
}

}  // namespace yeoul
