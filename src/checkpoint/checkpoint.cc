#include "checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/check.h"
#include "checkpoint/expected_tensors.h"
#include "checkpoint/identity.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_index.h"

namespace yeoul {
namespace {

constexpr uint64_t kConfigBytesMax = 1 << 20;
constexpr uint64_t kIndexBytesMax = 100'000'000;

Result<std::string> read_text(const std::string& path, uint64_t bytes_max) {
  TRY_ASSIGN(const File file, File::open(path));
  if (file.size() > bytes_max) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: {} bytes at most expected, {} found", path,
                                                 bytes_max, file.size()));
  }
  std::string text(file.size(), '\0');
  TRY(file.read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

template <typename T>
Result<T> with_path(const std::string& path, Result<T> result) {
  if (!result) result.error().message = fmt::format("{}: {}", path, result.error().message);
  return result;
}

std::string format_geometry(Dtype dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", to_string(dtype), fmt::join(shape, ", "));
}

// A config without engram_num_embeddings leaves the number of rows to the table itself.
void take_engram_rows(const Checkpoint& checkpoint, ModelConfig& config) {
  if (!config.engram_num_embeddings.empty()) return;
  for (const int32_t layer : config.engram_layer_ids) {
    const auto table = checkpoint.find(fmt::format("layers.{}.engram.embed.weight", layer));
    const bool is_matrix = table && (*table)->shape.size() == 2;
    config.engram_num_embeddings.push_back(is_matrix ? (*table)->shape[0] : 0);
  }
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::string& directory) {
  const std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->directory_ = directory;

  const std::string config_path = directory + "/config.json";
  TRY_ASSIGN(const std::string config_json, read_text(config_path, kConfigBytesMax));
  TRY_ASSIGN(checkpoint->config_, with_path(directory, parse_config(config_json)));
  checkpoint->stored_digests_.push_back(digest_of(config_json));

  const std::string index_path = directory + "/model.safetensors.index.json";
  TRY_ASSIGN(const std::string index_json, read_text(index_path, kIndexBytesMax));
  TRY_ASSIGN(const ShardIndex index, with_path(index_path, parse_shard_index(index_json)));

  TRY(checkpoint->open_shards(index.shards));
  TRY(checkpoint->match_index(index));
  TRY(checkpoint->match_config());
  if (index.total_size && *index.total_size != checkpoint->totals_.num_bytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: metadata.total_size: {} (bytes of all tensors) expected, {} found",
                            index_path, checkpoint->totals_.num_bytes, *index.total_size));
  }
  return std::shared_ptr<const Checkpoint>(checkpoint);
}

// Opens every shard and lists its tensors. Missing files and names in two shards are all told.
Result<void> Checkpoint::open_shards(const std::vector<std::string>& names) {
  ProblemList missing;
  for (const std::string& name : names) {
    Result<File> file = File::open(fmt::format("{}/{}", directory_, name));
    if (!file) {
      missing.add(std::move(file.error().message));
      continue;
    }
    shards_.push_back(std::move(*file));
  }
  TRY(missing.status(ErrorCode::kNotFound,
                     fmt::format("{}: of {} shards named by the index", directory_, names.size())));

  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    TRY_ASSIGN(SafetensorsHeader header, read_header(shards_[shard]));
    stored_digests_.push_back(digest_of(header.json));
    for (HeaderTensor& tensor : header.tensors) {
      tensors_.push_back({.name = std::move(tensor.name),
                          .dtype = tensor.dtype,
                          .shape = std::move(tensor.shape),
                          .shard = static_cast<int32_t>(shard),
                          .offset = header.data_start + tensor.begin,
                          .num_bytes = tensor.end - tensor.begin});
    }
  }
  ProblemList repeated;
  by_name_.reserve(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto [entry, is_new] = by_name_.try_emplace(tensors_[i].name, i);
    if (!is_new) {
      repeated.add(fmt::format("{}: in {} and in {}", tensors_[i].name,
                               names[static_cast<size_t>(tensors_[entry->second].shard)],
                               names[static_cast<size_t>(tensors_[i].shard)]));
    }
  }
  return repeated.status(ErrorCode::kCorrupt, directory_ + ": tensors stored twice");
}

// The index and the headers must tell the same story, in both directions.
Result<void> Checkpoint::match_index(const ShardIndex& index) const {
  ProblemList problems;
  std::vector<bool> is_indexed(tensors_.size(), false);
  for (const ShardIndex::Entry& entry : index.entries) {
    const std::string& shard_name = index.shards[static_cast<size_t>(entry.shard)];
    const auto found = by_name_.find(entry.name);
    if (found == by_name_.end()) {
      problems.add(
          fmt::format("{}: the index names {}, no shard holds it", entry.name, shard_name));
      continue;
    }
    const int32_t shard = tensors_[found->second].shard;
    is_indexed[found->second] = true;
    if (shard != entry.shard) {
      problems.add(fmt::format("{}: the index names {}, found in {}", entry.name, shard_name,
                               index.shards[static_cast<size_t>(shard)]));
    }
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (is_indexed[i]) continue;
    problems.add(fmt::format("{}: in {}, not in the index", tensors_[i].name,
                             index.shards[static_cast<size_t>(tensors_[i].shard)]));
  }
  return problems.status(ErrorCode::kCorrupt, directory_ + ": model.safetensors.index.json");
}

// Compares what is there with what the config calls for, and adds up the totals by owner.
Result<void> Checkpoint::match_config() {
  take_engram_rows(*this, config_);
  ProblemList problems;
  std::vector<bool> is_expected(tensors_.size(), false);
  for (const ExpectedTensor& expected : expected_tensors(config_)) {
    const auto found = by_name_.find(expected.name);
    if (found == by_name_.end()) {
      problems.add(fmt::format("{}: {} expected, not found in {} shards", expected.name,
                               format_geometry(expected.dtype, expected.shape), shards_.size()));
      continue;
    }
    const TensorEntry& entry = tensors_[found->second];
    is_expected[found->second] = true;
    if (entry.dtype != expected.dtype || entry.shape != expected.shape) {
      problems.add(fmt::format("{}: {} expected, {} found in {}", entry.name,
                               format_geometry(expected.dtype, expected.shape),
                               format_geometry(entry.dtype, entry.shape),
                               shards_[static_cast<size_t>(entry.shard)].path()));
    }
    const std::string owner(to_string(expected.owner));
    totals_.bytes_by_owner[owner] += entry.num_bytes;
    totals_.tensors_by_owner[owner] += 1;
    totals_.bytes_by_dtype[std::string(to_string(entry.dtype))] += entry.num_bytes;
    totals_.num_bytes += entry.num_bytes;
    totals_.num_tensors += 1;
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (is_expected[i]) continue;
    problems.add(fmt::format("{}: {} in {}, unknown to this config", tensors_[i].name,
                             format_geometry(tensors_[i].dtype, tensors_[i].shape),
                             shards_[static_cast<size_t>(tensors_[i].shard)].path()));
  }
  return problems.status(ErrorCode::kCorrupt, directory_ + ": tensors against config.json");
}

Result<const TensorEntry*> Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return &tensors_[found->second];
  return fail(ErrorCode::kNotFound,
              fmt::format("{}: not in {} shards of {}", name, shards_.size(), directory_));
}

Result<void> Checkpoint::read(const TensorEntry& entry, std::span<std::byte> into) const {
  CHECK(into.size() == entry.num_bytes, "{}: {} bytes into a buffer of {}", entry.name,
        entry.num_bytes, into.size());
  return read_at(entry, 0, into);
}

Result<void> Checkpoint::read_at(const TensorEntry& entry, uint64_t offset,
                                 std::span<std::byte> into) const {
  CHECK(offset <= entry.num_bytes && into.size() <= entry.num_bytes - offset,
        "{}: bytes {}..{} of {}", entry.name, offset, offset + into.size(), entry.num_bytes);
  Result<void> outcome =
      shards_[static_cast<size_t>(entry.shard)].read_at(entry.offset + offset, into);
  if (!outcome)
    outcome.error().message = fmt::format("{}: {}", entry.name, outcome.error().message);
  return outcome;
}

Result<std::string> Checkpoint::identity() const {
  const std::lock_guard lock(identity_mutex_);
  if (!identity_) {
    TRY_ASSIGN(identity_, compute_identity(*this, stored_digests_));
  }
  return *identity_;
}

}  // namespace yeoul
