#include "model/kv_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace yeoul {
namespace {

// What the sizes of the KV system depend on, with the release's numbers.
ModelConfig release_sizes() {
  ModelConfig config;
  config.num_hidden_layers = 40;
  config.head_dim = 512;
  config.index_head_dim = 128;
  config.sliding_window = 128;
  config.compress_ratios = {0, 0};
  config.compress_ratios.insert(config.compress_ratios.end(), 18, 2);
  config.compress_ratios.insert(config.compress_ratios.end(), 20, 1);
  config.kv_source_layer_ids = {2, 8, 14, 20};
  return config;
}

ModelConfig small_sizes() {
  ModelConfig config;
  config.num_hidden_layers = 4;
  config.head_dim = 32;
  config.index_head_dim = 32;
  config.sliding_window = 8;
  config.compress_ratios = {0, 2, 1, 1};
  config.kv_source_layer_ids = {1, 2};
  return config;
}

std::unique_ptr<KvStore> create_store(const ModelConfig& config, const KvLimits& limits) {
  Result<std::unique_ptr<KvStore>> store = KvStore::create(config, limits);
  EXPECT_TRUE(store.has_value());
  return std::move(*store);
}

TEST(KvLayout, of_the_release_takes_890_bytes_a_token) {
  const KvLayout layout = KvStore::layout(release_sizes(), 256);
  EXPECT_EQ(layout.page_bytes, 256 * 890);
  EXPECT_EQ(layout.page_bytes, 227'840);  // 222.5 KiB
  EXPECT_EQ(layout.window_row_bytes(), 528);
  EXPECT_EQ(layout.code_bytes() + layout.scale_bytes() + layout.key_code_bytes() +
                layout.key_scale_bytes(),
            356);
  // Window rows of a sequence and three open pairs.
  EXPECT_EQ(KvStore::fixed_bytes(release_sizes(), {.slots = 1, .rows_max = 0}),
            40 * 128 * 528 + 3 * 2 * 512 * 4);
}

TEST(KvLayout, arrays_of_a_page_do_not_overlap) {
  const auto owned = create_store(release_sizes(), {.slots = 1, .num_pages = 1});
  const KvStore& store = *owned;
  std::vector<uint8_t> owner(static_cast<size_t>(store.layout().page_bytes));
  const KvLayout& layout = store.layout();
  for (const int32_t layer : {2, 8, 14, 20}) {
    const SourceLayout& source = store.source(layer);
    EXPECT_EQ(source.rows_per_page, layer == 20 ? 256 : 128);
    const auto claim = [&](int64_t offset, int64_t bytes) {
      for (int64_t i = 0; i < bytes * source.rows_per_page; ++i) {
        EXPECT_EQ(owner[static_cast<size_t>(offset + i)]++, 0);
      }
    };
    claim(source.codes_offset, layout.code_bytes());
    claim(source.scales_offset, layout.scale_bytes());
    claim(source.key_codes_offset, layout.key_code_bytes());
    claim(source.key_scales_offset, layout.key_scale_bytes());
  }
  EXPECT_EQ(std::accumulate(owner.begin(), owner.end(), int64_t{0}), layout.page_bytes);
}

// A store whose window rows and pairs carry their position, driven as the forward pass does.
class KvStores : public testing::Test {
 protected:
  KvStores() {
    store_.open_slot(0);
    store_.open_slot(1);
  }

  ItemInput item(int32_t slot, int64_t position, int32_t rows) const {
    return {.slot = slot,
            .position = position,
            .first_row = 3,
            .num_rows = rows,
            .pages = pages_.data(),
            .layer_end = config_.num_hidden_layers,
            .cone_end = cone_end_};
  }

  // Stages rows first .. first + rows - 1 and commits `accepted` of them.
  void feed(int32_t slot, int64_t position, int32_t rows, int32_t accepted) {
    const KvView view = store_.view(nullptr);
    std::vector<int32_t> ids;
    for (int32_t r = 0; r < rows; ++r) {
      for (int32_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
        mark(view.staged_row(layer, 3 + r), layer, position + r);
      }
      store_.staged_pair(1, 3 + r)[0] = static_cast<float>(position + r);
      ids.push_back(static_cast<int32_t>(position + r));
    }
    store_.commit(item(slot, position, rows), Cone(config_), accepted, ids, 3);
  }

  static void mark(uint8_t* row, int32_t layer, int64_t position) {
    row[0] = static_cast<uint8_t>(position);
    row[1] = static_cast<uint8_t>(layer);
  }

  // The ring rows of the last positions before `end`, back to `first`.
  void expect_window(int32_t slot, int32_t layer, int64_t first, int64_t end) {
    EXPECT_EQ(store_.window_first(slot, layer, end, 0), first) << "layer " << layer;
    const ItemView view_item{.slot = slot, .position = end};
    const KvView view = store_.view(&view_item);
    for (int64_t p = first; p < end; ++p) {
      const uint8_t* row = view.window_row(view_item, layer, p);
      EXPECT_EQ(row[0], static_cast<uint8_t>(p));
      EXPECT_EQ(row[1], layer);
    }
  }

  const ModelConfig config_ = small_sizes();
  const std::vector<int32_t> pages_ = {5, 2, 7, 0};
  int64_t cone_end_ = -1;
  const std::unique_ptr<KvStore> owned_ = create_store(
      config_, {.slots = 2, .num_pages = 8, .tokens_per_page = 16, .rows_max = 24, .snapshots = 2});
  KvStore& store_ = *owned_;
};

TEST_F(KvStores, keeps_the_last_window_of_what_was_accepted) {
  feed(0, 0, 5, 5);
  expect_window(0, 0, 0, 5);
  feed(0, 5, 6, 2);  // four rejected rows must not show
  expect_window(0, 3, 0, 7);
  feed(0, 7, 20, 20);
  for (int32_t layer = 0; layer < 4; ++layer) expect_window(0, layer, 19, 27);
  feed(0, 27, 3, 0);
  expect_window(0, 0, 19, 27);
  EXPECT_EQ((std::vector<int32_t>{store_.history(0).begin(), store_.history(0).end()}),
            (std::vector<int32_t>{24, 25, 26}));
}

TEST_F(KvStores, keeps_the_open_pair_of_an_odd_length) {
  feed(0, 0, 3, 3);
  EXPECT_EQ(store_.open_pair(0, 1)[0], 2);
  feed(0, 3, 4, 2);  // 5 tokens
  EXPECT_EQ(store_.open_pair(0, 1)[0], 4);
  feed(0, 5, 2, 0);
  EXPECT_EQ(store_.open_pair(0, 1)[0], 4);
}

TEST_F(KvStores, slots_do_not_touch_each_other) {
  feed(0, 0, 9, 9);
  feed(1, 0, 4, 4);
  expect_window(0, 2, 1, 9);
  expect_window(1, 2, 0, 4);
  EXPECT_EQ(store_.open_pair(0, 1)[0], 8);
  store_.open_slot(0);
  EXPECT_TRUE(store_.history(0).empty());
  EXPECT_EQ(store_.window_first(0, 2, 0, 0), 0);
  expect_window(1, 2, 0, 4);
}

TEST_F(KvStores, rows_outside_the_cone_leave_a_gap_that_is_known) {
  cone_end_ = 40;  // layer 3 keeps positions from 40 - 8 on, layer 2 those from 40 - 15
  feed(0, 0, 20, 20);
  EXPECT_EQ(store_.window_first(0, 0, 20, 0), 12);
  EXPECT_EQ(store_.window_first(0, 3, 20, 32), 32);
  feed(0, 20, 20, 20);
  expect_window(0, 0, 32, 40);
  expect_window(0, 2, 32, 40);
  expect_window(0, 3, 32, 40);
}

TEST_F(KvStores, a_saved_slot_is_restored_into_another_one) {
  feed(0, 0, 21, 21);
  const SlotState state = store_.save(0, pages_, 21);
  // 10 rows of ratio 2 and 21 of ratio 1, each 16 + 2 + 16 + 1 bytes.
  EXPECT_EQ(state.pages.size(), 31u * 35u);
  EXPECT_EQ(state.window.size(), 4u * 8u * 33u);
  EXPECT_EQ(state.partial_pairs.size(), 2u * 32u * 4u);
  const std::vector<int32_t> history = {18, 19, 20};
  const std::vector<int32_t> other_pages = {1, 3};
  ASSERT_TRUE(store_.restore(1, other_pages, 21, state, history));
  for (int32_t layer = 0; layer < 4; ++layer) expect_window(1, layer, 13, 21);
  EXPECT_EQ(store_.open_pair(1, 1)[0], 20);
  EXPECT_EQ(store_.save(1, other_pages, 21).pages, state.pages);
}

TEST_F(KvStores, a_snapshot_and_the_rows_of_a_page_survive_as_bytes) {
  cone_end_ = 40;  // so that the layers hold rows from different positions on
  feed(0, 0, 21, 21);
  store_.save_snapshot(0, 0);
  std::vector<uint8_t> bytes;
  store_.append_snapshot(0, 21, bytes);
  EXPECT_LE(std::ssize(bytes), KvStore::state_bytes_max(config_));
  ASSERT_TRUE(store_.read_snapshot(1, 21, bytes));
  std::vector<uint8_t> again;
  store_.append_snapshot(1, 21, again);
  EXPECT_EQ(again, bytes);
  store_.restore_snapshot(1, 1);
  expect_window(1, 0, 13, 21);
  EXPECT_EQ(store_.window_first(1, 3, 21, 0), store_.window_first(0, 3, 21, 0));
  EXPECT_EQ(store_.open_pair(1, 1)[0], 20);
  EXPECT_EQ(store_.history(1).back(), 20);

  std::vector<uint8_t> rows;
  store_.append_rows(5, 5, rows);
  EXPECT_EQ(std::ssize(rows), store_.rows_bytes(5));
  EXPECT_EQ(store_.rows_bytes(5), (2 + 5) * 35);  // of ratio 2 and of ratio 1
  for (uint8_t& byte : rows) byte ^= 0x5a;
  ASSERT_TRUE(store_.read_rows(6, 5, rows));
  std::vector<uint8_t> read;
  store_.append_rows(6, 5, read);
  EXPECT_EQ(read, rows);
}

TEST_F(KvStores, bytes_that_are_no_snapshot_of_this_length_are_refused) {
  feed(0, 0, 21, 21);
  store_.save_snapshot(0, 0);
  std::vector<uint8_t> bytes;
  store_.append_snapshot(0, 21, bytes);
  EXPECT_FALSE(store_.read_snapshot(1, 20, bytes));
  EXPECT_FALSE(store_.read_snapshot(1, 22, bytes));
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(store_.read_snapshot(1, 21, std::span(bytes).first(size))) << size;
  for (const int64_t first : {int64_t{-1}, int64_t{12}, int64_t{22}, INT64_MAX}) {
    std::vector<uint8_t> wrong = bytes;
    std::memcpy(wrong.data(), &first, sizeof(first));
    EXPECT_FALSE(store_.read_snapshot(1, 21, wrong)) << first;
  }
  EXPECT_FALSE(store_.read_rows(5, 5, bytes));
}

TEST(Cone, of_the_release_needs_24150_layer_tokens_behind_the_last_source) {
  ModelConfig config = release_sizes();
  const Cone cone(config);
  const int64_t length = 100'000;
  int64_t outputs = 0;
  for (int32_t layer = 20; layer < 40; ++layer)
    outputs += length - cone.output_begin(layer, length);
  EXPECT_EQ(outputs, 24'150);
  EXPECT_EQ(length - cone.window_begin(20, length), 2'541);
  EXPECT_EQ(cone.input_begin(20, length), 0);
  EXPECT_EQ(cone.output_begin(39, length), length - 1);
  EXPECT_EQ(cone.output_begin(19, length), 0);
  // The full schedule, and prompts shorter than the cone, leave nothing out.
  EXPECT_EQ(cone.output_begin(39, -1), 0);
  EXPECT_EQ(cone.window_begin(30, 100), 0);
}

}  // namespace
}  // namespace yeoul
