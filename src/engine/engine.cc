#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "cache/page_pool.h"
#include "engine/step_engine.h"

namespace yeoul {

RequestHandle::RequestHandle(uint64_t id, std::shared_ptr<EventStream> stream)
    : id_(id), stream_(std::move(stream)) {}

RequestHandle& RequestHandle::operator=(RequestHandle&& other) noexcept {
  if (this == &other) return *this;
  if (stream_) stream_->abandon();
  id_ = other.id_;
  stream_ = std::move(other.stream_);
  return *this;
}

RequestHandle::~RequestHandle() {
  if (stream_) stream_->abandon();
}

Result<std::unique_ptr<Engine>> Engine::create(EngineOptions options,
                                               std::unique_ptr<Executor> executor,
                                               const Clock& clock,
                                               std::unique_ptr<BlobStore> store) {
  return StepEngine::create(options, std::move(executor), clock, std::move(store));
}

EngineMemory engine_memory(const EngineOptions& options, const ModelShape& shape) {
  const int64_t context_max = options.context_max > 0 ? options.context_max : shape.context_max;
  const int64_t sequences_max = int64_t{options.parallel} + options.queue_max;
  // A stream has two places more than its tokens: for the end of the choice and of the request.
  const auto events_max = static_cast<int64_t>(options.stream_tokens_max) + 2;
  const int64_t pages_max =
      std::min<int64_t>(options.num_pages, pages_for(context_max, shape.tokens_per_page));
  const auto token_bytes = static_cast<int64_t>(sizeof(TokenId));
  const auto page_bytes = static_cast<int64_t>(sizeof(int32_t));
  return {.stream_bytes = sequences_max * events_max * static_cast<int64_t>(sizeof(RequestEvent)),
          .running_bytes = options.parallel * (context_max * token_bytes + pages_max * page_bytes),
          .prompt_bytes = sequences_max * context_max * token_bytes};
}

}  // namespace yeoul
