#include "checkpoint/checkpoint_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"

namespace yeoul {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// Position of the shard of one tensor. A layer's Engram goes with its table to the end.
class Layout {
 public:
  explicit Layout(const ModelConfig& config) : config_(config) {}

  size_t num_shards() const { return first_engram() + config_.engram_layer_ids.size(); }

  size_t shard_of(const ExpectedTensor& tensor) const {
    switch (tensor.owner) {
      case TensorOwner::kEmbedHeadNorm:
        return tensor.name == "embed.weight" ? 0 : 1;
      case TensorOwner::kEncoder:
      case TensorOwner::kDecoder:
        return 2 + number_after_dot(tensor.name);
      case TensorOwner::kVision:
        return first_dspark() - 1;
      case TensorOwner::kDspark:
        return first_dspark() + number_after_dot(tensor.name);
      case TensorOwner::kEngramResident:
      case TensorOwner::kEngramTables:
        return first_engram() + engram_index(number_after_dot(tensor.name));
      case TensorOwner::kCount:
        break;
    }
    CHECK(false, "{} has no owner", tensor.name);
    return 0;
  }

 private:
  size_t first_dspark() const {
    return 2 + static_cast<size_t>(config_.num_hidden_layers) + (config_.vision ? 1 : 0);
  }
  size_t first_engram() const {
    return first_dspark() + static_cast<size_t>(config_.num_nextn_predict_layers);
  }
  // 7 of "layers.7.attn.wq_a.weight".
  static size_t number_after_dot(const std::string& name) {
    return std::stoul(name.substr(name.find('.') + 1));
  }
  size_t engram_index(size_t layer) const {
    for (size_t i = 0; i < config_.engram_layer_ids.size(); ++i) {
      if (static_cast<size_t>(config_.engram_layer_ids[i]) == layer) return i;
    }
    CHECK(false, "layer {} has no Engram", layer);
    return 0;
  }

  const ModelConfig& config_;
};

uint64_t num_bytes_of(const ExpectedTensor& tensor) {
  auto num_bytes = static_cast<uint64_t>(bytes_of(tensor.dtype));
  for (const int64_t extent : tensor.shape) num_bytes *= static_cast<uint64_t>(extent);
  return num_bytes;
}

uint64_t num_bytes_of(const PlannedShard& shard) {
  uint64_t total = 0;
  for (const ExpectedTensor& tensor : shard.tensors) total += num_bytes_of(tensor);
  return total;
}

tl::unexpected<Error> cannot_write(const std::string& path, int error_number) {
  return fail(ErrorCode::kUnavailable,
              fmt::format("{}: cannot write: {}", path, std::strerror(error_number)));
}

Result<void> write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return {};
  return cannot_write(path, errno);
}

// Length and JSON of a safetensors header, padded to 8 bytes.
std::string header_of(const PlannedShard& shard) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  uint64_t end = 0;
  for (const ExpectedTensor& tensor : shard.tensors) {
    const uint64_t begin = std::exchange(end, end + num_bytes_of(tensor));
    header +=
        fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", tensor.name,
                    to_string(tensor.dtype), fmt::join(tensor.shape, ","), begin, end);
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string start(8, '\0');
  for (size_t i = 0; i < 8; ++i) start[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return start + header;
}

// A file of known size that several threads write parts of. Closed on destruction.
class ShardFile {
 public:
  explicit ShardFile(std::string path)
      : path_(std::move(path)),
        descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}
  ~ShardFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  Result<void> resize(uint64_t num_bytes) {
    if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(num_bytes)) != 0) {
      return cannot_write(path_, errno);
    }
    return {};
  }

  Result<void> write_at(uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count =
          ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return cannot_write(path_, count == 0 ? ENOSPC : errno);
      offset += static_cast<uint64_t>(count);
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
    return {};
  }

 private:
  std::string path_;
  int descriptor_;
};

struct Piece {
  const ExpectedTensor* tensor;
  uint64_t offset;  // in the tensor
  uint64_t num_bytes;
  uint64_t file_offset;
};

std::vector<Piece> pieces_of(const PlannedShard& shard, uint64_t data_start) {
  std::vector<Piece> pieces;
  for (const ExpectedTensor& tensor : shard.tensors) {
    const uint64_t total = num_bytes_of(tensor);
    for (uint64_t offset = 0; offset < total; offset += kPieceBytes) {
      const uint64_t num_bytes = std::min(kPieceBytes, total - offset);
      pieces.push_back({&tensor, offset, num_bytes, data_start + offset});
    }
    data_start += total;
  }
  return pieces;
}

// Fills the pieces of one shard from the calling thread and some more.
class ShardFilling {
 public:
  ShardFilling(ShardFile& file, std::vector<Piece> pieces, const WriteOptions& options)
      : file_(file), pieces_(std::move(pieces)), options_(options) {}

  Result<void> run(uint64_t done_before, uint64_t total) {
    std::vector<std::jthread> others;
    for (int i = 1; i < options_.num_threads; ++i) others.emplace_back([this] { work({}); });
    work([&] {
      if (options_.on_progress) options_.on_progress(done_before + done_.load(), total);
    });
    others.clear();
    return outcome_;
  }

 private:
  void work(const std::function<void()>& after_piece) {
    std::vector<std::byte> buffer(kPieceBytes);
    for (size_t i = next_.fetch_add(1); i < pieces_.size(); i = next_.fetch_add(1)) {
      const Piece& piece = pieces_[i];
      const std::span<std::byte> bytes(buffer.data(), piece.num_bytes);
      options_.fill(*piece.tensor, piece.offset, bytes);
      if (auto written = file_.write_at(piece.file_offset, bytes); !written) {
        const std::lock_guard lock(mutex_);
        outcome_ = std::move(written);
        next_ = pieces_.size();
        return;
      }
      done_.fetch_add(piece.num_bytes);
      if (after_piece) after_piece();
    }
  }

  ShardFile& file_;
  const std::vector<Piece> pieces_;
  const WriteOptions& options_;
  std::atomic<size_t> next_ = 0;
  std::atomic<uint64_t> done_ = 0;
  std::mutex mutex_;
  Result<void> outcome_;
};

std::string index_json(const CheckpointPlan& plan) {
  std::string weight_map;
  for (const PlannedShard& shard : plan.shards) {
    for (const ExpectedTensor& tensor : shard.tensors) {
      weight_map += fmt::format("{}\n    \"{}\": \"{}\"", weight_map.empty() ? "" : ",",
                                tensor.name, shard.file_name);
    }
  }
  return fmt::format(
      "{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{{}\n  }}\n}}\n",
      plan.num_bytes(), weight_map);
}

}  // namespace

uint64_t CheckpointPlan::num_bytes() const {
  uint64_t total = 0;
  for (const PlannedShard& shard : shards) total += num_bytes_of(shard);
  return total;
}

CheckpointPlan plan_checkpoint(const ModelConfig& config) {
  const Layout layout(config);
  CheckpointPlan plan;
  plan.config_json = format_config(config);
  plan.shards.resize(layout.num_shards());
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    plan.shards[i].file_name =
        fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, plan.shards.size());
  }
  for (ExpectedTensor& tensor : expected_tensors(config)) {
    plan.shards[layout.shard_of(tensor)].tensors.push_back(std::move(tensor));
  }
  return plan;
}

Result<void> write_checkpoint(const CheckpointPlan& plan, const std::string& directory,
                              const WriteOptions& options) {
  CHECK(options.num_threads >= 1);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return cannot_write(directory, error.value());
  const std::string config_path = directory + "/config.json";
  if (std::filesystem::exists(config_path, error)) {
    return fail(ErrorCode::kInvalidArgument,
                directory + ": holds a checkpoint already (config.json); name another folder");
  }
  const uint64_t total = plan.num_bytes();
  uint64_t done = 0;
  for (const PlannedShard& shard : plan.shards) {
    const std::string header = header_of(shard);
    ShardFile file(directory + "/" + shard.file_name);
    TRY(file.resize(header.size() + num_bytes_of(shard)));
    TRY(file.write_at(0, std::as_bytes(std::span(header))));
    if (options.fill) {
      TRY(ShardFilling(file, pieces_of(shard, header.size()), options).run(done, total));
    }
    done += num_bytes_of(shard);
  }
  TRY(write_text(directory + "/model.safetensors.index.json", index_json(plan)));
  if (!plan.tokenizer_json.empty()) {
    TRY(write_text(directory + "/tokenizer.json", plan.tokenizer_json));
  }
  return write_text(config_path, plan.config_json);
}

}  // namespace yeoul
