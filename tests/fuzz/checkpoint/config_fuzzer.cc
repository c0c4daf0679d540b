// config.json from hostile bytes: refused, or a config whose tensor table can be written down.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "checkpoint/config.h"
#include "checkpoint/expected_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto config = yeoul::parse_config(std::string(reinterpret_cast<const char*>(data), size));
  if (!config) {
    CHECK(!config.error().message.empty(), "a refusal without words");
    return 0;
  }
  for (int32_t layer = 0; layer < config->num_hidden_layers; ++layer) {
    const int32_t source = config->kv_source_of(layer);
    CHECK(source <= layer && source >= -1, "layer {} reads from {}", layer, source);
  }
  constexpr int32_t kExpertsMax = 4096;  // keeps one input short
  if (config->n_routed_experts > kExpertsMax / config->num_hidden_layers) return 0;
  if (config->dspark_n_routed_experts > kExpertsMax) return 0;
  config->engram_num_embeddings.resize(config->engram_layer_ids.size(), 1);
  for (const yeoul::ExpectedTensor& tensor : yeoul::expected_tensors(*config)) {
    for (const int64_t dim : tensor.shape) {
      CHECK(dim > 0, "{}: a dimension of {}", tensor.name, dim);
    }
  }
  return 0;
}
