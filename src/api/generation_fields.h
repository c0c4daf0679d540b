#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/field_reader.h"
#include "engine/request.h"
#include "text/conversation.h"

namespace yeoul {

inline constexpr int kMaxChoices = 16;
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 1024;

// What a parser must know about the server. Plain data.
struct ParseContext {
  int32_t vocab_size = 0;
  Thinking default_thinking;
  uint64_t random_seed = 0;  // used where the client names none; below 2^53
};

// Fields that chat and plain completions share, checked and in native types. Plain data.
struct GenerationFields {
  std::string model;                  // empty: not named
  SamplingParams sampling;            // seed always set
  bool is_seed_given = false;         // by the client
  std::optional<int64_t> max_tokens;  // output tokens per choice
  int num_choices = 1;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // usage in every chunk
  std::vector<std::string> ignored_fields;
};

// Reads the shared fields of the top-level object; faults go to the reader's findings.
void read_generation_fields(FieldReader& reader, const ParseContext& context,
                            FieldFindings& findings, GenerationFields& out);

}  // namespace yeoul
