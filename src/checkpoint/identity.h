#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace yeoul {

// 32 hex digits of XXH3-128.
std::string digest_of(std::string_view bytes);

// A part of a tensor that identity reads.
struct SampledPage {
  uint64_t offset = 0;  // from the tensor's first byte
  uint64_t num_bytes = 0;
};

// All of a tensor of up to 12 KiB; of a larger one the first, the middle and the last 4 KiB.
std::vector<SampledPage> sampled_pages(uint64_t num_bytes);

// The digest over `stored_digests`, then name and sampled pages of every tensor in ascending order
// of names. A changed byte outside the sampled pages goes unseen.
Result<std::string> compute_identity(const Checkpoint& checkpoint,
                                     std::span<const std::string> stored_digests);

}  // namespace yeoul
