#include "checkpoint/identity.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace yeoul {
namespace {

// Changes with what is hashed, so that identities of two schemes never meet.
constexpr std::string_view kScheme = "yeoul checkpoint identity 1";
constexpr uint64_t kPageBytes = 4096;
constexpr size_t kBatchPages = 1024;
// Sampling the release is 288,000 reads of 4 KiB: what counts is how many are in flight.
constexpr int kReadThreads = 16;

std::string to_hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

struct PlannedRead {
  const TensorEntry* entry;
  SampledPage page;
};

std::vector<PlannedRead> plan_reads(const Checkpoint& checkpoint) {
  std::vector<const TensorEntry*> by_name;
  for (const TensorEntry& entry : checkpoint.tensors()) by_name.push_back(&entry);
  std::sort(by_name.begin(), by_name.end(),
            [](const TensorEntry* a, const TensorEntry* b) { return a->name < b->name; });
  std::vector<PlannedRead> reads;
  for (const TensorEntry* entry : by_name) {
    for (const SampledPage& page : sampled_pages(entry->num_bytes)) reads.push_back({entry, page});
  }
  return reads;
}

}  // namespace

std::string digest_of(std::string_view bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::vector<SampledPage> sampled_pages(uint64_t num_bytes) {
  std::vector<SampledPage> pages;
  if (num_bytes > 3 * kPageBytes) {
    const uint64_t middle = num_bytes / 2 / kPageBytes * kPageBytes;
    return {{0, kPageBytes}, {middle, kPageBytes}, {num_bytes - kPageBytes, kPageBytes}};
  }
  for (uint64_t offset = 0; offset < num_bytes; offset += kPageBytes) {
    pages.push_back({offset, std::min(kPageBytes, num_bytes - offset)});
  }
  return pages;
}

Result<std::string> compute_identity(const Checkpoint& checkpoint,
                                     std::span<const std::string> stored_digests) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, kScheme.data(), kScheme.size());
  for (const std::string& digest : stored_digests) {
    XXH3_128bits_update(&state, digest.data(), digest.size());
  }
  const std::vector<PlannedRead> reads = plan_reads(checkpoint);
  std::vector<std::byte> buffer(kBatchPages * kPageBytes);
  std::vector<ReadRequest> requests;
  BatchReader reader(kReadThreads);
  for (size_t start = 0; start < reads.size(); start += kBatchPages) {
    const size_t num_reads = std::min(kBatchPages, reads.size() - start);
    requests.clear();
    for (size_t i = 0; i < num_reads; ++i) {
      const auto& [entry, page] = reads[start + i];
      requests.push_back({.file = &checkpoint.shards()[static_cast<size_t>(entry->shard)],
                          .offset = entry->offset + page.offset,
                          .into = std::span(buffer).subspan(i * kPageBytes, page.num_bytes),
                          .ok = false});
    }
    reader.read(requests);
    for (size_t i = 0; i < num_reads; ++i) {
      const std::string& name = reads[start + i].entry->name;
      if (!requests[i].ok) {
        return fail(
            ErrorCode::kUnavailable,
            fmt::format("{}: {}: cannot read {} bytes at offset {}", requests[i].file->path(), name,
                        requests[i].into.size(), requests[i].offset));
      }
      XXH3_128bits_update(&state, name.data(), name.size());
      XXH3_128bits_update(&state, requests[i].into.data(), requests[i].into.size());
    }
  }
  return to_hex(XXH3_128bits_digest(&state));
}

}  // namespace yeoul
