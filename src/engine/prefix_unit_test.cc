#include "engine/prefix_unit.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>
#include <vector>

namespace yeoul {
namespace {

constexpr BlobKey kRoot = {1, 2};

PrefixChain chain_of(const std::vector<TokenId>& tokens, const BlobKey& root = kRoot) {
  PrefixChain chain(root);
  for (const TokenId token : tokens) chain.append(static_cast<uint64_t>(token));
  return chain;
}

TEST(PrefixChain, keys_differ_with_every_token_its_place_and_the_root) {
  std::set<BlobKey> keys;
  for (const std::vector<TokenId>& tokens :
       {std::vector<TokenId>{}, {0}, {0, 0}, {1}, {0, 1}, {1, 0}, {1, 1}, {1, 1, 1}}) {
    for (const BlobKey& root : {kRoot, BlobKey{2, 1}}) {
      const PrefixChain chain = chain_of(tokens, root);
      keys.insert(chain.page_key());
      keys.insert(chain.state_key(true));
      keys.insert(chain.state_key(false));
    }
  }
  EXPECT_EQ(keys.size(), 8u * 2 * 3);
}

TEST(PrefixChain, roots_differ_with_identity_and_salt) {
  const std::set<BlobKey> roots = {prefix_root("model", 0), prefix_root("model", 1),
                                   prefix_root("other", 0)};
  EXPECT_EQ(roots.size(), 3u);
  EXPECT_EQ(prefix_root("model", 1), prefix_root("model", 1));
}

std::vector<uint8_t> unit_of(const std::vector<uint64_t>& tokens, uint8_t rest) {
  std::vector<uint8_t> unit;
  append_unit_head(UnitKind::kPage, kRoot, tokens, unit);
  unit.push_back(rest);
  return unit;
}

TEST(PrefixUnit, a_head_is_accepted_for_its_own_tokens_alone) {
  const std::vector<TokenId> prompt = {5, 6, 7, 8};
  const PrefixUnits units(prompt);
  const std::vector<uint8_t> unit = unit_of({6, 7}, 42);
  EXPECT_EQ(std::ssize(unit), unit_head_bytes(2) + 1);
  const auto rest = check_unit_head(UnitKind::kPage, kRoot, units, 1, 3, unit);
  ASSERT_TRUE(rest);
  ASSERT_EQ(rest->size(), 1u);
  EXPECT_EQ((*rest)[0], 42);
  EXPECT_FALSE(check_unit_head(UnitKind::kState, kRoot, units, 1, 3, unit));
  EXPECT_FALSE(check_unit_head(UnitKind::kPage, {1, 3}, units, 1, 3, unit));
  EXPECT_FALSE(check_unit_head(UnitKind::kPage, kRoot, units, 0, 2, unit));
  EXPECT_FALSE(check_unit_head(UnitKind::kPage, kRoot, units, 2, 4, unit));
}

TEST(PrefixUnit, a_short_one_and_one_of_another_version_are_refused) {
  const std::vector<TokenId> prompt = {6, 7};
  std::vector<uint8_t> unit = unit_of({6, 7}, 42);
  for (int64_t size = 0; size < unit_head_bytes(2); ++size)
    EXPECT_EQ(check_unit_head(UnitKind::kPage, kRoot, PrefixUnits(prompt), 0, 2,
                              std::span(unit).first(static_cast<size_t>(size)))
                  .error()
                  .code,
              ErrorCode::kCorrupt);
  unit[4] = 2;
  EXPECT_EQ(
      check_unit_head(UnitKind::kPage, kRoot, PrefixUnits(prompt), 0, 2, unit).error().message,
      "disk tier: a unit of version 1 expected, 2 found");
}

TEST(PrefixUnit, a_note_gives_length_and_bounds_back_for_a_model_with_as_many_layers) {
  std::vector<uint8_t> bytes;
  append_state_note(300, std::vector<int64_t>{173, 300}, bytes);
  EXPECT_EQ(std::ssize(bytes), state_note_bytes(2));
  StateNote note = {.first_valid = std::vector<int64_t>(2)};
  ASSERT_TRUE(parse_state_note(bytes, note));
  EXPECT_EQ(note.length, 300);
  EXPECT_EQ(note.first_valid, (std::vector<int64_t>{173, 300}));
  note.first_valid.resize(3);
  EXPECT_FALSE(parse_state_note(bytes, note));
}

}  // namespace
}  // namespace yeoul
