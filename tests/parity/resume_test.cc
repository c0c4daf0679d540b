// A sequence saved and restored elsewhere goes on with the bits of one that never stopped; a
// damaged state is refused.

#include <gtest/gtest.h>

#include "test_models.h"

namespace yeoul::parity {
namespace {

class Resumption : public testing::TestWithParam<TestModel (*)()> {
 protected:
  static ModelHarness::Options options(int32_t slots) {
    ModelHarness::Options options = GetParam()().options;
    options.slots = slots;
    options.rows_max = 700;
    options.context_max = 1024;
    options.page_seed = 5;
    return options;
  }
  static SlotState save(ModelHarness& model, int32_t slot) {
    return model.kv().save(slot, model.pages(slot), model.length(slot));
  }
  static Result<void> restore(ModelHarness& model, int32_t slot, const SlotState& state,
                              std::span<const TokenId> tokens) {
    const std::vector<int32_t> history = model.forward().history_of(tokens);
    TRY(model.kv().restore(slot, model.pages(slot), static_cast<int64_t>(tokens.size()), state,
                           history));
    model.set_length(slot, static_cast<int64_t>(tokens.size()));
    return {};
  }
};

TEST_P(Resumption, at_any_position_in_another_slot_gives_the_bits_of_a_cold_run) {
  const size_t length = kReduced ? 90 : 600;
  ModelHarness cold(options(1));
  const std::vector<TokenId> tokens = random_tokens(cold.config(), 11, length);
  const std::vector<Logits> expected = cold.prefill(0, tokens);
  const auto window = static_cast<size_t>(cold.config().sliding_window);

  ModelHarness model(options(3));
  size_t done = 0;
  int32_t slot = 0;
  // Odd and even, around the window and the pages of 256 tokens; the sequence moves on each time.
  for (const size_t stop :
       {size_t{1}, size_t{2}, size_t{3}, window - 1, window, window + 1, 2 * window + 1,
        size_t{255}, size_t{256}, size_t{257}, size_t{511}, size_t{512}, size_t{513}, length}) {
    if (stop <= done || stop > length) continue;
    const auto rows = model.step({{.slot = slot,
                                   .tokens = {tokens.begin() + static_cast<int64_t>(done),
                                              tokens.begin() + static_cast<int64_t>(stop)}}})[0];
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_TRUE(same_bits(rows[i], expected[done + i])) << "row " << done + i;
    }
    done = stop;
    const SlotState state = save(model, slot);
    const int32_t next = (slot + 1) % 3;
    // What another sequence left in the slot and its pages must not show.
    model.reset(next);
    model.prefill(next, random_tokens(model.config(), stop, 70));
    model.kv().open_slot(next);
    const auto restored = restore(model, next, state, std::span(tokens).first(done));
    ASSERT_TRUE(restored) << restored.error().message;
    model.reset(slot);
    slot = next;
  }
  ASSERT_EQ(done, length);
}

TEST_P(Resumption, behind_a_prompt_through_the_cone_gives_the_bits_of_a_cold_run) {
  ModelHarness model(options(2));
  for (const size_t length : {size_t{40}, size_t{101}, size_t{400}}) {
    if (kReduced && length > 101) continue;
    const std::vector<TokenId> tokens = random_tokens(model.config(), length, length);
    model.reset(0);
    Logits last = model.prefill_cone(0, tokens);
    const SlotState state = save(model, 0);
    const auto restored = restore(model, 1, state, tokens);
    ASSERT_TRUE(restored) << restored.error().message;
    for (size_t i = 0; i < (kReduced ? 5 : 40); ++i) {
      const TokenId next = argmax(last);
      last = model.decode(0, next);
      ASSERT_TRUE(same_bits(model.decode(1, next), last)) << length << " tokens, step " << i;
    }
  }
}

TEST_P(Resumption, saves_again_what_was_restored) {
  ModelHarness model(options(2));
  for (const size_t length : {size_t{33}, size_t{90}}) {
    const std::vector<TokenId> tokens = random_tokens(model.config(), length, length);
    model.reset(0);
    model.prefill(0, tokens);
    const SlotState state = save(model, 0);
    ASSERT_TRUE(restore(model, 1, state, tokens));
    const SlotState again = save(model, 1);
    EXPECT_EQ(again.pages, state.pages);
    EXPECT_EQ(again.window, state.window);
    EXPECT_EQ(again.window_first_valid, state.window_first_valid);
    EXPECT_EQ(again.partial_pairs, state.partial_pairs);
    EXPECT_EQ(state.partial_pairs.empty(), length % 2 == 0);
  }
}

TEST_P(Resumption, of_a_damaged_state_is_refused_and_changes_nothing) {
  ModelHarness model(options(2));
  const std::vector<TokenId> tokens = random_tokens(model.config(), 1, 83);
  model.prefill(0, tokens);
  const SlotState good = save(model, 0);
  const std::vector<TokenId> others = random_tokens(model.config(), 2, 50);
  model.prefill(1, others);
  const SlotState before = save(model, 1);
  struct Damage {
    const char* name;
    void (*apply)(SlotState&);
  };
  const Damage damages[] = {
      {"a page byte short", [](SlotState& s) { s.pages.pop_back(); }},
      {"a page byte over", [](SlotState& s) { s.pages.push_back(0); }},
      {"no pages", [](SlotState& s) { s.pages.clear(); }},
      {"a window byte short", [](SlotState& s) { s.window.pop_back(); }},
      {"a window byte over", [](SlotState& s) { s.window.push_back(0); }},
      {"a layer short", [](SlotState& s) { s.window_first_valid.pop_back(); }},
      {"a layer over", [](SlotState& s) { s.window_first_valid.push_back(83); }},
      {"a window that starts too early", [](SlotState& s) { s.window_first_valid[0] -= 1; }},
      {"a window that starts behind the end", [](SlotState& s) { s.window_first_valid[0] = 84; }},
      {"a window that starts below zero", [](SlotState& s) { s.window_first_valid[0] = -83; }},
      {"a window one row shorter", [](SlotState& s) { s.window_first_valid[0] += 1; }},
      {"no partial pairs", [](SlotState& s) { s.partial_pairs.clear(); }},
      {"a partial pair byte over", [](SlotState& s) { s.partial_pairs.push_back(0); }},
  };
  for (const Damage& damage : damages) {
    SlotState bad = good;
    damage.apply(bad);
    const auto restored = restore(model, 1, bad, tokens);
    ASSERT_FALSE(restored) << damage.name;
    EXPECT_EQ(restored.error().code, ErrorCode::kCorrupt) << damage.name;
  }
  const auto wrong_length = restore(model, 1, good, std::span(tokens).first(82));
  EXPECT_FALSE(wrong_length);
  // The slot still holds what it held.
  EXPECT_EQ(save(model, 1).pages, before.pages);
  EXPECT_EQ(save(model, 1).window, before.window);
}

INSTANTIATE_TEST_SUITE_P(Models, Resumption, testing::ValuesIn(models_for_all()),
                         [](const auto& tested) { return tested.param().name; });

}  // namespace
}  // namespace yeoul::parity
