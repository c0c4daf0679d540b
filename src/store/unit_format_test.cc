#include "store/unit_format.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

namespace yeoul {
namespace {

std::vector<uint8_t> blob_of(const BlobKey& key, const std::vector<uint8_t>& unit) {
  const BlobHead head = blob_head(key, unit);
  std::vector<uint8_t> blob(head.size() + unit.size());
  std::ranges::copy(unit, std::ranges::copy(head, blob.begin()).out);
  return blob;
}

TEST(UnitFormat, a_blob_gives_its_unit_back_and_no_flipped_bit_of_it_does) {
  rc::check([](const std::vector<uint8_t>& unit, uint64_t high) {
    const BlobKey key = {high, 7};
    std::vector<uint8_t> blob = blob_of(key, unit);
    const Result<std::span<const uint8_t>> found = unit_of_blob(key, blob);
    RC_ASSERT(found && std::ranges::equal(*found, unit));
    const auto bit = *rc::gen::inRange<size_t>(0, blob.size() * 8);
    blob[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    RC_ASSERT(unit_of_blob(key, blob).error().code == ErrorCode::kCorrupt);
  });
}

TEST(UnitFormat, a_torn_blob_and_one_of_another_key_are_refused) {
  const std::vector<uint8_t> unit(1000, 3);
  const std::vector<uint8_t> blob = blob_of({1, 2}, unit);
  for (size_t size = 0; size < blob.size(); ++size)
    EXPECT_FALSE(unit_of_blob({1, 2}, std::span(blob).first(size))) << size;
  EXPECT_FALSE(unit_of_blob({1, 3}, blob));
  EXPECT_FALSE(unit_of_blob({2, 2}, blob));
}

TEST(UnitFormat, a_record_gives_its_entry_back_and_no_flipped_bit_of_it_does) {
  rc::check([](const std::vector<uint8_t>& note, uint64_t use, int64_t bytes) {
    const UnitEntry entry = {
        .key = {5, 6}, .bytes = bytes, .last_use = use, .recorded_use = use, .note = note};
    std::string record = format_record(entry);
    const Result<UnitEntry> found = parse_record(entry.key, record);
    RC_ASSERT(found && found->note == note && found->last_use == use && found->bytes == bytes);
    const auto bit = *rc::gen::inRange<size_t>(0, record.size() * 8);
    record[bit / 8] = static_cast<char>(record[bit / 8] ^ 1 << bit % 8);
    RC_ASSERT(!parse_record(entry.key, record));
  });
}

TEST(UnitFormat, the_marker_says_its_format_and_a_newer_one_is_refused_with_both_numbers) {
  EXPECT_EQ(parse_marker(format_marker()), kStoreFormat);
  const Result<int> newer = parse_marker("yeoul store\nformat 2\n");
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(newer.error().message,
            "store: format 2 found, this program knows formats up to 1; use another folder or the "
            "newer program");
  for (const char* damaged : {"", "yeoul store\n", "yeoul store\nformat \n", "format 1\n",
                              "yeoul store\nformat 1", "yeoul store\nformat 0\n"})
    EXPECT_EQ(parse_marker(damaged).error().code, ErrorCode::kCorrupt) << damaged;
}

}  // namespace
}  // namespace yeoul
