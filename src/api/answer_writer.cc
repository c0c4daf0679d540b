#include "api/answer_writer.h"

#include "api/sse.h"

namespace yeoul {

AnswerWriter::AnswerWriter(AnswerSetup setup)
    : setup_(std::move(setup)),
      tracker_(setup_.rules, setup_.num_requests, setup_.choices_per_request) {
  tracker_.set_prompt_tokens(setup_.prompt_tokens);
}

void AnswerWriter::push(int request_index, const RequestEvent& event, std::string& out) {
  if (ended()) return;
  if (const ChoiceUpdate* update = tracker_.push(request_index, event)) write(*update, out);
  if (ended() && setup_.stream) append_closing(out);
}

Json AnswerWriter::envelope(const char* object) const {
  Json out;
  out["id"] = setup_.header.id;
  out["object"] = object;
  out["created"] = setup_.header.created;
  out["model"] = setup_.header.model;
  out["system_fingerprint"] = setup_.header.system_fingerprint;
  return out;
}

Json AnswerWriter::first_yeoul_block() const {
  return Json{{"seed", setup_.seed}, {"ignored_fields", setup_.ignored_fields}};
}

Json AnswerWriter::timings_block() const {
  const RequestTimings& timings = tracker_.timings();
  return Json{{"queue_s", timings.queue_s},
              {"prefill_s", timings.prefill_s},
              {"decode_s", timings.decode_s}};
}

Json AnswerWriter::prefix_block() const {
  const PrefixReuse& reuse = tracker_.reuse();
  Json out{{"shared_tokens", reuse.shared_tokens},
           {"candidate_tokens", reuse.candidate_tokens},
           {"cached_tokens", reuse.cached_tokens},
           {"tier", reuse.tier},
           {"seconds_saved", reuse.seconds_saved}};
  if (*reuse.reason != '\0') out["reason"] = reuse.reason;
  return out;
}

void AnswerWriter::append_chunk(Json chunk, std::string& out) {
  if (setup_.continuous_usage) {
    chunk["usage"] = to_json(tracker_.usage());
  } else if (setup_.include_usage) {
    chunk["usage"] = nullptr;
  }
  if (!wrote_chunk_) chunk["yeoul"].update(first_yeoul_block());
  wrote_chunk_ = true;
  append_sse_data(dump_compact(chunk), out);
}

void AnswerWriter::append_closing(std::string& out) {
  if (error()) {
    append_sse_data(format_error(*error()), out);
    return;
  }
  if (setup_.include_usage) {
    Json chunk = envelope(chunk_object());
    chunk["choices"] = Json::array();
    chunk["usage"] = to_json(tracker_.usage());
    chunk["yeoul"] = Json{{"timings", timings_block()}, {"prefix", prefix_block()}};
    append_sse_data(dump_compact(chunk), out);
  }
  append_sse_done(out);
}

}  // namespace yeoul
