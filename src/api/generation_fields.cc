#include "api/generation_fields.h"

#include <fmt/format.h>

#include <cfloat>
#include <charconv>

namespace yeoul {
namespace {

// Larger than any context; keeps sums of token counts far from overflow.
constexpr int64_t kMaxTokensAccepted = int64_t{1} << 40;

void read_token_limit(FieldReader& reader, GenerationFields& out) {
  const auto old_name = reader.integer("max_tokens", 1, kMaxTokensAccepted);
  const auto new_name = reader.integer("max_completion_tokens", 1, kMaxTokensAccepted);
  out.max_tokens = new_name ? new_name : old_name;
}

void read_sampling(FieldReader& reader, SamplingParams& out) {
  const auto assign = [&reader](const char* name, double min, double max, float& target) {
    if (const auto value = reader.number(name, min, max)) target = static_cast<float>(*value);
  };
  assign("temperature", 0, 2, out.temperature);
  assign("top_p", 0, 1, out.top_p);
  if (out.top_p <= 0) {
    reader.mismatch("top_p", "a number above 0 and up to 1", *reader.find("top_p"));
  }
  assign("min_p", 0, 1, out.min_p);
  assign("presence_penalty", -2, 2, out.presence_penalty);
  assign("frequency_penalty", -2, 2, out.frequency_penalty);
  assign("repetition_penalty", FLT_MIN, 100, out.repetition_penalty);
  // -1 is how some clients spell "off".
  if (const auto top_k = reader.integer("top_k", -1, INT32_MAX)) {
    out.top_k = *top_k <= 0 ? 0 : static_cast<int>(*top_k);
  }
}

void read_seed(FieldReader& reader, const ParseContext& context, GenerationFields& out) {
  const auto seed = reader.integer("seed", INT64_MIN, INT64_MAX);
  out.is_seed_given = seed.has_value();
  out.sampling.seed = seed ? static_cast<uint64_t>(*seed) : context.random_seed;
}

void read_logit_bias(FieldReader& reader, const ParseContext& context, SamplingParams& out) {
  const Json* bias = reader.object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& [key, value] : bias->items()) {
    TokenId token = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token);
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == key.data() + key.size();
    if (!is_number || token < 0 || token >= context.vocab_size) {
      reader.mismatch("logit_bias",
                      fmt::format("token ids from 0 to {} as keys", context.vocab_size - 1),
                      Json(key));
      return;
    }
    if (!value.is_number() || value.get<double>() < -100 || value.get<double>() > 100) {
      reader.mismatch(fmt::format("logit_bias.{}", token), "a number from -100 to 100", value);
      return;
    }
    out.logit_bias.emplace_back(token, static_cast<float>(value.get<double>()));
  }
}

void read_stop(FieldReader& reader, const ParseContext& context, GenerationFields& out) {
  if (const Json* stop = reader.find("stop")) {
    const std::string expected =
        fmt::format("a string or an array of at most {} strings, each of 1 to {} bytes",
                    kMaxStopStrings, kMaxStopBytes);
    const Json list = stop->is_array() ? *stop : Json::array({*stop});
    if (list.size() > kMaxStopStrings) reader.mismatch("stop", expected, *stop);
    for (const Json& entry : list) {
      const std::string* text = entry.get_ptr<const std::string*>();
      if (text == nullptr || text->empty() || text->size() > kMaxStopBytes) {
        reader.mismatch("stop", expected, entry);
        return;
      }
      out.stop.push_back(*text);
    }
  }
  const Json* ids = reader.array("stop_token_ids");
  if (ids == nullptr) return;
  for (const Json& id : *ids) {
    if (!id.is_number_integer() || id < 0 || id >= context.vocab_size) {
      reader.mismatch("stop_token_ids",
                      fmt::format("token ids from 0 to {}", context.vocab_size - 1), id);
      return;
    }
    out.stop_token_ids.push_back(id.get<TokenId>());
  }
}

void read_streaming(FieldReader& reader, FieldFindings& findings, GenerationFields& out) {
  out.stream = reader.boolean("stream").value_or(false);
  const Json* options = reader.object("stream_options");
  if (options == nullptr) return;
  FieldReader inner(*options, "stream_options", findings);
  out.include_usage = inner.boolean("include_usage").value_or(false);
  out.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false);
  inner.accept_without_effect({"include_obfuscation"});
  inner.ignore_rest();
}

// Fields other servers honour and this one does not. Accepting them silently would return an
// answer that looks as if they had been honoured.
void refuse_known_fields(FieldReader& reader) {
  constexpr const char* kNeedsGrammar = "constrained decoding is not built in yet";
  for (const char* name : {"guided_json", "guided_regex", "guided_choice", "guided_grammar",
                           "structured_outputs", "grammar", "json_schema"}) {
    reader.unsupported_unless(name, nullptr, kNeedsGrammar);
  }
  reader.unsupported_unless("min_tokens", 0, "end tokens cannot be held back");
  reader.unsupported_unless("best_of", 1, "use n and choose at the client");
  reader.unsupported_unless("use_beam_search", false, "only sampling and greedy decoding");
  reader.unsupported_unless("prompt_logprobs", nullptr, "logprobs cover output tokens only");
  reader.unsupported_unless("return_token_ids", false, "use POST /tokenize");
  reader.unsupported_unless("thinking_budget", nullptr, "reasoning cannot be cut; use max_tokens");
  reader.unsupported_unless("bad_words", Json::array(), "use logit_bias");
}

}  // namespace

void read_generation_fields(FieldReader& reader, const ParseContext& context,
                            FieldFindings& findings, GenerationFields& out) {
  out.model = reader.text("model").value_or("");
  read_token_limit(reader, out);
  read_sampling(reader, out.sampling);
  read_seed(reader, context, out);
  read_logit_bias(reader, context, out.sampling);
  read_stop(reader, context, out);
  read_streaming(reader, findings, out);
  out.num_choices = static_cast<int>(reader.integer("n", 1, kMaxChoices).value_or(1));
  out.ignore_eos = reader.boolean("ignore_eos").value_or(false);
  reader.accept_without_effect({"user", "metadata", "store", "service_tier", "prompt_cache_key",
                                "safety_identifier", "prompt_cache_retention"});
  refuse_known_fields(reader);
}

}  // namespace yeoul
