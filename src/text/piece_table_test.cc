#include "text/piece_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

namespace yeoul {
namespace {

TEST(PieceTable, finds_what_was_inserted_and_nothing_else) {
  rc::check([] {
    const auto word = rc::gen::mapcat(rc::gen::inRange<size_t>(1, 30), [](size_t length) {
      return rc::gen::container<std::string>(length, rc::gen::element('a', 'b', '\0', '\xff'));
    });
    const auto words = *rc::gen::unique<std::vector<std::string>>(word);
    PieceTable table(words.size());
    std::map<std::string, TokenId> expected;
    for (const std::string& piece : words) {
      const auto id = static_cast<TokenId>(expected.size());
      table.insert(piece, id);
      expected[piece] = id;
    }
    for (const auto& [piece, id] : expected) RC_ASSERT(table.find(piece) == id);
    const std::string other = *word;
    RC_ASSERT(table.find(other) ==
              (expected.contains(other) ? expected[other] : PieceTable::kNone));
    RC_ASSERT(table.find("") == PieceTable::kNone);
  });
}

}  // namespace
}  // namespace yeoul
