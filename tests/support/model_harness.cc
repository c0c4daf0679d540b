#include "support/model_harness.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/counter_rng.h"
#include "support/golden_files.h"

namespace yeoul {

ModelHarness::ModelHarness(const Options& options) : options_(options) {
  auto checkpoint = Checkpoint::open(options.checkpoint);
  CHECK(checkpoint.has_value(), "{}", checkpoint.error().message);
  WeightPlacement placement{options.experts, options.engram};
  placement.engram.rows_max = options.rows_max;
  auto weights = Weights::load(*checkpoint, placement);
  CHECK(weights.has_value(), "{}", weights.error().message);
  weights_ = std::move(*weights);
  auto map = golden::read_json(options.engram_map)["token_map"].get<std::vector<int32_t>>();
  auto hash = EngramHash::create(config(), std::move(map));
  CHECK(hash.has_value(), "{}", hash.error().message);
  engram_hash_ = std::make_unique<EngramHash>(std::move(*hash));
  pool_ = std::make_unique<ThreadPool>(options.threads);
  const ForwardLimits limits{.rows_max = options.rows_max,
                             .logit_rows_max = options.rows_max,
                             .items_max = options.slots,
                             .slots = options.slots,
                             .parked_rows_max = options.parked_rows_max,
                             .context_max = options.context_max};
  ops_ = make_cpu_ops(options.accumulate, *pool_, Forward::ops_limits(config(), limits));
  const auto pages_per_slot = static_cast<int32_t>((options.context_max + 255) / 256);
  auto kv = KvStore::create(
      config(), KvLimits{options.slots, options.slots * pages_per_slot, 256, options.rows_max});
  CHECK(kv.has_value(), "{}", kv.error().message);
  kv_ = std::move(*kv);
  forward_ = std::make_unique<Forward>(*weights_, *engram_hash_, *ops_, *kv_, limits);
  lengths_.resize(static_cast<size_t>(options.slots));
  // Dealt out at random, so that a page number taken for an index shows.
  std::vector<int32_t> deck(static_cast<size_t>(options.slots * pages_per_slot));
  std::iota(deck.begin(), deck.end(), 0);
  for (size_t i = deck.size(); i > 1; --i) {
    std::swap(deck[i - 1], deck[counter_bits(options.page_seed, i) % i]);
  }
  for (int32_t slot = 0; slot < options.slots; ++slot) {
    const auto first = deck.begin() + slot * pages_per_slot;
    pages_.emplace_back(first, first + pages_per_slot);
    reset(slot);
  }
}

void ModelHarness::reset(int32_t slot) {
  kv_->open_slot(slot);
  lengths_[static_cast<size_t>(slot)] = 0;
}

std::span<const int32_t> ModelHarness::pages(int32_t slot) const {
  return pages_[static_cast<size_t>(slot)];
}

std::vector<std::vector<std::vector<float>>> ModelHarness::step(const std::vector<Feed>& feeds,
                                                                const Trace* trace) {
  std::vector<ItemInput> items;
  std::vector<TokenId> tokens;
  std::vector<uint8_t> is_image;
  std::vector<Bf16> embeds;
  std::vector<int32_t> accepted;
  for (const Feed& feed : feeds) {
    const auto count = static_cast<int32_t>(feed.tokens.size());
    const auto slot = static_cast<size_t>(feed.slot);
    const int32_t end = feed.layer_end < 0 ? config().num_hidden_layers : feed.layer_end;
    items.push_back({feed.slot, lengths_[slot], static_cast<int32_t>(tokens.size()), count,
                     pages_[slot].data(), feed.layer_begin, end, feed.cone_end,
                     end == config().num_hidden_layers ? feed.logits : LogitRows::kNone});
    tokens.insert(tokens.end(), feed.tokens.begin(), feed.tokens.end());
    is_image.insert(is_image.end(), feed.is_image.begin(), feed.is_image.end());
    is_image.resize(tokens.size());
    embeds.insert(embeds.end(), feed.embeds.begin(), feed.embeds.end());
    embeds.resize(tokens.size() * static_cast<size_t>(config().hidden_size));
    accepted.push_back(feed.num_accepted < 0 ? count : feed.num_accepted);
  }
  const StepInput input{items, tokens, is_image, embeds.data()};
  forward_->run(input, trace);
  std::vector<std::vector<std::vector<float>>> logits(feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i) {
    const ItemOutcome& outcome = forward_->outcomes()[i];
    for (int32_t r = 0; r < outcome.num_logit_rows; ++r) {
      const std::span<const float> row = forward_->logits(outcome.first_logit_row + r);
      logits[i].emplace_back(row.begin(), row.end());
    }
    if (items[i].layer_end == config().num_hidden_layers) {
      lengths_[static_cast<size_t>(feeds[i].slot)] += accepted[i];
    }
  }
  forward_->commit(input, accepted);
  return logits;
}

std::vector<std::vector<float>> ModelHarness::prefill(int32_t slot, std::span<const TokenId> tokens,
                                                      int64_t chunk) {
  if (chunk == 0) chunk = options_.rows_max;
  std::vector<std::vector<float>> logits;
  for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(chunk)) {
    const auto part = tokens.subspan(at, std::min(static_cast<size_t>(chunk), tokens.size() - at));
    auto rows = step({{.slot = slot, .tokens = {part.begin(), part.end()}}});
    std::move(rows[0].begin(), rows[0].end(), std::back_inserter(logits));
  }
  return logits;
}

std::vector<float> ModelHarness::prefill_cone(int32_t slot, std::span<const TokenId> tokens,
                                              int64_t chunk) {
  if (chunk == 0) chunk = options_.rows_max;
  std::vector<float> last;
  for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(chunk)) {
    const auto part = tokens.subspan(at, std::min(static_cast<size_t>(chunk), tokens.size() - at));
    const bool is_last = at + part.size() == tokens.size();
    auto rows = step({{.slot = slot,
                       .tokens = {part.begin(), part.end()},
                       .cone_end = static_cast<int64_t>(tokens.size()),
                       .logits = is_last ? LogitRows::kLast : LogitRows::kNone}});
    if (is_last) last = std::move(rows[0][0]);
  }
  return last;
}

std::vector<float> ModelHarness::decode(int32_t slot, TokenId token) {
  return step({{.slot = slot, .tokens = {token}, .logits = LogitRows::kLast}})[0][0];
}

TokenId argmax(std::span<const float> values) {
  return static_cast<TokenId>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace yeoul
