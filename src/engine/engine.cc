#include "engine/engine.h"

#include <utility>

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
                                               const Clock& clock) {
  return StepEngine::create(options, std::move(executor), clock);
}

}  // namespace yeoul
