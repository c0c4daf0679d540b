#include "engine/loaded_model.h"

#include "io/machine.h"

namespace yeoul {
Result<std::unique_ptr<LoadedModel>> LoadedModel::load(std::shared_ptr<const Checkpoint> checkpoint,
                                                       LoadOptions options) {
  auto model = std::unique_ptr<LoadedModel>(new LoadedModel());
  TRY_ASSIGN(model->plan_, plan_memory(*checkpoint, options.memory));
  TRY_ASSIGN(EngramHash hash,
             EngramHash::create(checkpoint->config(), std::move(options.engram_token_map)));
  model->engram_hash_ = std::make_unique<EngramHash>(std::move(hash));
  TRY_ASSIGN(model->identity_, checkpoint->identity());
  const ThreadPlacement placement =
      place_threads(usable_processors(), options.memory.num_threads, quota_cpus("/"), options.pin);
  // Before the first weight: tasks go to whichever thread is free, so no node is the right one.
  // Where the system forbids it memory stays where it is touched, which costs speed only.
  if (placement.interleave_memory) (void)interleave_memory();
  TRY_ASSIGN(model->weights_, Weights::load(checkpoint, model->plan_.weights, options.progress));
  const ModelConfig& config = model->config();
  const MemoryPlan& plan = model->plan_;
  model->pool_ = std::make_unique<ThreadPool>(options.memory.num_threads, placement);
  model->ops_ = make_cpu_ops(options.accumulate, *model->pool_,
                             Forward::ops_limits(config, plan.forward), options.isa);
  TRY_ASSIGN(model->kv_, KvStore::create(config, plan.kv));
  Ops* ops = model->ops_.get();
  if (options.profile != nullptr) {
    options.profile->reserve(config.num_hidden_layers);
    model->profiled_ops_ =
        std::make_unique<ProfiledOps>(*model->ops_, *options.profile, model->clock_);
    ops = model->profiled_ops_.get();
  }
  model->forward_ = std::make_unique<Forward>(*model->weights_, *model->engram_hash_, *ops,
                                              *model->kv_, plan.forward);
  model->forward_->set_profile(options.profile);
  return model;
}

}  // namespace yeoul
