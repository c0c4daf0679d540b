#include "gate_forecast.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/counter_rng.h"

namespace yeoul::speed {
namespace {

class Measurement {
 public:
  Measurement(ModelHarness& model, size_t num_tokens)
      : model_(model), config_(model.config()), pool_(1) {
    const ForwardLimits limits{.rows_max = static_cast<int32_t>(num_tokens)};
    ops_ = make_cpu_ops(Accumulate::kFloat, pool_, Forward::ops_limits(config_, limits));
    rows_.resize(num_tokens);
    std::iota(rows_.begin(), rows_.end(), 0);
    is_image_.resize(num_tokens);
    near_.resize(static_cast<size_t>(config_.num_hidden_layers) + 1);
    far_.resize(near_.size());
  }

  GateForecast run() {
    std::vector<TokenId> tokens;
    for (size_t i = 0; i < rows_.size(); ++i) {
      tokens.push_back(static_cast<TokenId>(counter_bits(23, i) %
                                            static_cast<uint64_t>(config_.image_token_id)));
    }
    const Trace trace{[this](const Trace::Tensor& tensor) { compare(tensor); },
                      [this](int32_t layer, Bf16* streams, float* pre) {
                        const auto at = static_cast<size_t>(layer);
                        foretell(layer, streams, pre, near_[at]);
                        if (layer + 1 < config_.num_hidden_layers) {
                          foretell(layer + 1, streams, pre, far_[at + 1]);
                        }
                      }};
    model_.step({{.slot = 0, .tokens = tokens, .logits = LogitRows::kNone}}, &trace);
    const auto share = [](double found, double of) { return of > 0 ? found / of : 0; };
    return {share(near_found_, uses_), share(far_found_, far_uses_), share(last_found_, last_uses_),
            share(config_.num_experts_per_tok, config_.n_routed_experts)};
  }

 private:
  // What the gate of `layer` would choose for the residual as it is.
  void foretell(int32_t layer, const Bf16* streams, const float* pre, std::vector<int32_t>& out) {
    const LayerWeights& w = model_.weights().layers[static_cast<size_t>(layer)];
    const auto n = static_cast<int64_t>(rows_.size());
    std::vector<Bf16> hidden(static_cast<size_t>(n * config_.hidden_size));
    ops_->collapse({streams, pre, rows_, config_.hidden_size, config_.hc_mult, hidden.data()});
    ops_->rms_norm({hidden.data(), w.ffn_norm, n, config_.hidden_size,
                    static_cast<float>(config_.rms_norm_eps), hidden.data()});
    out.resize(static_cast<size_t>(n * config_.num_experts_per_tok));
    std::vector<float> weights(out.size());
    ops_->route({w.gate.weight, w.gate_bias, w.gate_bias_vl, config_.gate_temp, hidden.data(), n,
                 rows_, is_image_.data(), config_.num_experts_per_tok, config_.norm_topk_prob,
                 config_.routed_scaling_factor, out.data(), weights.data(), nullptr});
  }

  void compare(const Trace::Tensor& tensor) {
    if (tensor.name != "experts") return;
    const auto chosen = static_cast<size_t>(config_.num_experts_per_tok);
    const auto at = static_cast<size_t>(tensor.layer);
    for (size_t v = 0; v < tensor.values.size(); ++v) {
      const auto row = static_cast<int64_t>(v / chosen);
      const auto expert = static_cast<int32_t>(tensor.values[v]);
      const auto is_in = [&](const auto& list, int64_t of_row) {
        const auto begin = list.begin() + of_row * static_cast<int64_t>(chosen);
        return std::find(begin, begin + static_cast<int64_t>(chosen), expert) !=
               begin + static_cast<int64_t>(chosen);
      };
      ++uses_;
      near_found_ += is_in(near_[at], row) ? 1 : 0;
      if (!far_[at].empty()) ++far_uses_, far_found_ += is_in(far_[at], row) ? 1 : 0;
      if (row > 0) ++last_uses_, last_found_ += is_in(tensor.values, row - 1) ? 1 : 0;
    }
  }

  ModelHarness& model_;
  const ModelConfig& config_;
  ThreadPool pool_;
  std::unique_ptr<Ops> ops_;
  std::vector<int32_t> rows_;
  std::vector<uint8_t> is_image_;
  std::vector<std::vector<int32_t>> near_, far_;  // by layer: [rows, K]
  double uses_ = 0, near_found_ = 0, far_uses_ = 0, far_found_ = 0, last_uses_ = 0, last_found_ = 0;
};

}  // namespace

GateForecast measure_gate_forecast(ModelHarness& model, size_t num_tokens) {
  return Measurement(model, num_tokens).run();
}

}  // namespace yeoul::speed
