#include "model/engram_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/fault.h"

namespace yeoul {
namespace {

// Reads between start and outcome, and the room of each: a row may lie across two blocks.
constexpr int32_t kBuffers = 256;
constexpr uint64_t kBufferBytes = 2 * kReadAlignment;

int64_t columns_of(const ModelConfig& config) {
  return int64_t{config.engram_max_ngram_size - 1} * config.engram_n_heads;
}

int64_t lookups_max(const ModelConfig& config, int32_t rows_max) {
  return static_cast<int64_t>(config.engram_layer_ids.size()) * rows_max * columns_of(config);
}

uint64_t key_of(const EngramRows::Lookup& lookup) {
  return static_cast<uint64_t>(lookup.table) << 48 | static_cast<uint64_t>(lookup.row);
}

}  // namespace

int64_t EngramRows::bytes_per_row(const ModelConfig& config) {
  return config.engram_head_dim + config.engram_head_dim / 32;
}

int64_t EngramRows::scale_bytes(const ModelConfig& config) {
  int64_t rows = 0;
  for (const int64_t table_rows : config.engram_num_embeddings) rows += table_rows;
  return rows * (config.engram_head_dim / 32);
}

int64_t EngramRows::bytes(const ModelConfig& config, const EngramRowsOptions& options) {
  if (config.engram_layer_ids.empty()) return 0;
  const int64_t lookups = lookups_max(config, options.rows_max);
  return lookups * static_cast<int64_t>(sizeof(Lookup) + sizeof(Row) + 2 * sizeof(Read)) +
         int64_t{kBuffers} * kBufferBytes +
         options.num_cached * (bytes_per_row(config) + EngramRowCache::bytes_per_place()) +
         (options.scales_resident ? scale_bytes(config) : 0);
}

Result<std::unique_ptr<EngramRows>> EngramRows::create(std::shared_ptr<const Checkpoint> checkpoint,
                                                       const EngramRowsOptions& options) {
  auto rows = std::unique_ptr<EngramRows>(new EngramRows(std::move(checkpoint), options));
  if (!rows->checkpoint_->config().engram_layer_ids.empty()) TRY(rows->open(options));
  return rows;
}

EngramRows::EngramRows(std::shared_ptr<const Checkpoint> checkpoint,
                       const EngramRowsOptions& options)
    : checkpoint_(std::move(checkpoint)), cache_(options.num_cached) {}

Result<void> EngramRows::open(const EngramRowsOptions& options) {
  const ModelConfig& config = checkpoint_->config();
  width_ = static_cast<size_t>(config.engram_head_dim);
  scales_width_ = width_ / 32;
  CHECK(width_ <= kReadAlignment, "Engram rows of {} bytes", width_);
  for (const int32_t layer : config.engram_layer_ids) {
    Table& table = tables_.emplace_back();
    const std::string name = fmt::format("layers.{}.engram.embed.", layer);
    TRY_ASSIGN(table.codes, checkpoint_->find(name + "weight"));
    TRY_ASSIGN(table.scales, checkpoint_->find(name + "scale"));
  }
  const auto lookups = static_cast<size_t>(lookups_max(config, options.rows_max));
  lookups_.reserve(lookups);
  rows_.reserve(lookups);
  reads_.reserve(2 * lookups);
  free_buffers_.resize(kBuffers);
  TRY_ASSIGN(kept_, AnonymousMemory::reserve(static_cast<uint64_t>(cache_.num_places()) *
                                             (width_ + scales_width_)));
  TRY_ASSIGN(buffers_, AnonymousMemory::reserve(kBuffers * kBufferBytes));
  TRY_ASSIGN(reader_, RangeReader::open(checkpoint_->shards(),
                                        {.way = options.way,
                                         .allow_direct = options.allow_direct,
                                         .ranges_max = kBuffers,
                                         .depth = kBuffers / 2,
                                         .memory = {buffers_.data(), buffers_.size()}}));
  return options.scales_resident ? load_scales() : Result<void>();
}

Result<void> EngramRows::load_scales() {
  uint64_t num_bytes = 0;
  const auto range_of_table = [](const Table& table) {
    return covering(table.scales->offset, table.scales->num_bytes);
  };
  for (const Table& table : tables_) num_bytes += range_of_table(table).num_bytes;
  TRY_ASSIGN(scales_memory_, AnonymousMemory::reserve(num_bytes));
  std::byte* next = scales_memory_.data();
  for (Table& table : tables_) {
    const AlignedRange range = range_of_table(table);
    reader_->start({table.scales->shard,
                    range.offset,
                    {next, range.num_bytes},
                    range.inner + table.scales->num_bytes,
                    0});
    table.resident_scales = reinterpret_cast<const uint8_t*>(next + range.inner);
    next += range.num_bytes;
  }
  while (const std::optional<RangeOutcome> outcome = reader_->next(true)) {
    if (!outcome->ok) return fail(ErrorCode::kUnavailable, reader_->explain(*outcome));
  }
  return {};
}

void EngramRows::begin() {
  if (!reader_) return;
  // What nobody waited for, and the other parts of rows that have failed.
  for (size_t t = 0; t < tables_.size(); ++t) wait(static_cast<int32_t>(t));
  while (const std::optional<RangeOutcome> outcome = reader_->next(true)) settle(*outcome);
  lookups_.clear();
  rows_.clear();
  reads_.clear();
  failures_.clear();
  next_read_ = 0;
  for (int32_t b = 0; b < static_cast<int32_t>(free_buffers_.size()); ++b) {
    free_buffers_[static_cast<size_t>(b)] = b;
  }
}

void EngramRows::want(const Lookup& lookup) {
  CHECK(lookups_.size() < lookups_.capacity(), "more than {} lookups", lookups_.size());
  lookups_.push_back(lookup);
}

// Equal rows once, in the order of the file; those in memory at once.
void EngramRows::start() {
  if (!reader_) return;
  std::sort(lookups_.begin(), lookups_.end(), [](const Lookup& a, const Lookup& b) {
    return a.table != b.table ? a.table < b.table : a.row < b.row;
  });
  for (size_t first = 0; first < lookups_.size();) {
    size_t last = first + 1;
    while (last < lookups_.size() && key_of(lookups_[last]) == key_of(lookups_[first])) ++last;
    add_row(first, last);
    first = last;
  }
  for (size_t first = 0; first < rows_.size();) {
    const int32_t table = lookups_[rows_[first].first_lookup].table;
    size_t last = first;
    while (last < rows_.size() && lookups_[rows_[last].first_lookup].table == table) ++last;
    add_reads(first, last, false);
    if (tables_[static_cast<size_t>(table)].resident_scales == nullptr) {
      add_reads(first, last, true);
    }
    first = last;
  }
  start_reads();
}

void EngramRows::add_row(size_t first_lookup, size_t last_lookup) {
  const Lookup& lookup = lookups_[first_lookup];
  Table& table = tables_[static_cast<size_t>(lookup.table)];
  const std::span<const Lookup> lookups(lookups_.data() + first_lookup, last_lookup - first_lookup);
  ++traffic_.rows_wanted;
  Row row{first_lookup, last_lookup, 1};
  if (fault_fires(FaultPoint::kEngramRead, static_cast<uint64_t>(lookup.row))) {
    return fail_row(row, "read failed (injected)");
  }
  if (const std::optional<int64_t> place = cache_.find(key_of(lookup))) {
    ++traffic_.rows_kept;
    for (const Lookup& to : lookups) {
      std::memcpy(to.codes, kept(*place), width_);
      std::memcpy(to.scales, kept(*place) + width_, scales_width_);
    }
    return;
  }
  if (table.resident_scales != nullptr) {
    for (const Lookup& to : lookups) {
      std::memcpy(to.scales,
                  table.resident_scales + static_cast<size_t>(lookup.row) * scales_width_,
                  scales_width_);
    }
  } else {
    row.parts_left = 2;
  }
  rows_.push_back(row);
  ++table.rows_left;
}

// Rows whose blocks meet share a read, as far as its buffer goes.
void EngramRows::add_reads(size_t first_row, size_t last_row, bool is_scales) {
  for (size_t row = first_row; row < last_row; ++row) {
    const AlignedRange range = range_of(rows_[row], is_scales);
    if (row > first_row) {
      Read& before = reads_.back();
      const uint64_t num_bytes = range.offset + range.num_bytes - before.range.offset;
      if (range.offset <= before.range.offset + before.range.num_bytes &&
          num_bytes <= kBufferBytes) {
        before.range.num_bytes = num_bytes;
        before.last_row = row + 1;
        continue;
      }
    }
    reads_.push_back({row, row + 1, is_scales, range, -1});
  }
}

void EngramRows::start_reads() {
  for (; next_read_ < reads_.size() && !free_buffers_.empty(); ++next_read_) {
    Read& read = reads_[next_read_];
    read.buffer = free_buffers_.back();
    free_buffers_.pop_back();
    const Lookup& last = lookups_[rows_[read.last_row - 1].first_lookup];
    const TensorEntry& entry = part(last.table, read.is_scales);
    const size_t width = read.is_scales ? scales_width_ : width_;
    const uint64_t end = entry.offset + static_cast<uint64_t>(last.row + 1) * width;
    reader_->start({entry.shard,
                    read.range.offset,
                    {buffers_.data() + static_cast<uint64_t>(read.buffer) * kBufferBytes,
                     read.range.num_bytes},
                    end - read.range.offset,
                    next_read_});
  }
  reader_->pump();
}

void EngramRows::poll() {
  if (rows_.empty()) return;
  while (const std::optional<RangeOutcome> outcome = reader_->next(false)) settle(*outcome);
  start_reads();
}

void EngramRows::wait(int32_t table) {
  if (tables_[static_cast<size_t>(table)].rows_left == 0) return;
  const auto start = std::chrono::steady_clock::now();
  while (tables_[static_cast<size_t>(table)].rows_left > 0) {
    const std::optional<RangeOutcome> outcome = reader_->next(true);
    CHECK(outcome.has_value(), "an Engram row is wanted and not read");
    settle(*outcome);
    start_reads();
  }
  traffic_.wait_s +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void EngramRows::settle(const RangeOutcome& outcome) {
  const Read& read = reads_[outcome.read.tag];
  free_buffers_.push_back(read.buffer);
  traffic_.reads = reader_->num_reads();
  const size_t width = read.is_scales ? scales_width_ : width_;
  for (size_t r = read.first_row; r < read.last_row; ++r) {
    Row& row = rows_[r];
    const std::span<const Lookup> lookups(lookups_.data() + row.first_lookup,
                                          row.last_lookup - row.first_lookup);
    const uint64_t inner = part(lookups[0].table, read.is_scales).offset +
                           static_cast<uint64_t>(lookups[0].row) * width - read.range.offset;
    if (row.parts_left == 0) continue;  // its other part has failed
    if (!outcome.ok && inner + width > outcome.num_found) {
      row.parts_left = 0;
      --tables_[static_cast<size_t>(lookups[0].table)].rows_left;
      fail_row(row, reader_->explain(outcome));
      continue;
    }
    for (const Lookup& to : lookups) {
      std::memcpy(read.is_scales ? to.scales : to.codes, outcome.read.into.data() + inner, width);
    }
    if (--row.parts_left == 0) end_row(row);
  }
}

void EngramRows::end_row(const Row& row) {
  const Lookup& lookup = lookups_[row.first_lookup];
  --tables_[static_cast<size_t>(lookup.table)].rows_left;
  if (const std::optional<int64_t> place = cache_.admit(key_of(lookup))) {
    std::memcpy(kept(*place), lookup.codes, width_);
    std::memcpy(kept(*place) + width_, lookup.scales, scales_width_);
  }
}

void EngramRows::fail_row(const Row& row, const std::string& cause) {
  for (size_t l = row.first_lookup; l < row.last_lookup; ++l) {
    const Lookup& lookup = lookups_[l];
    std::memset(lookup.codes, 0, width_);
    std::memset(lookup.scales, 0, scales_width_);
    failures_.push_back({lookup.table,
                         lookup.step_row,
                         {ErrorCode::kUnavailable, fmt::format("Engram table {} row {}: {}",
                                                               lookup.table, lookup.row, cause)}});
  }
}

const TensorEntry& EngramRows::part(int32_t table, bool is_scales) const {
  const Table& of = tables_[static_cast<size_t>(table)];
  return is_scales ? *of.scales : *of.codes;
}

AlignedRange EngramRows::range_of(const Row& row, bool is_scales) const {
  const Lookup& lookup = lookups_[row.first_lookup];
  const size_t width = is_scales ? scales_width_ : width_;
  return covering(part(lookup.table, is_scales).offset + static_cast<uint64_t>(lookup.row) * width,
                  width);
}

uint8_t* EngramRows::kept(int64_t place) const {
  return reinterpret_cast<uint8_t*>(kept_.data()) +
         static_cast<size_t>(place) * (width_ + scales_width_);
}

}  // namespace yeoul
