#include "io/anonymous_memory.h"

#include <gtest/gtest.h>

#include <utility>

namespace yeoul {
namespace {

TEST(AnonymousMemory, is_zero_writable_and_moves) {
  Result<AnonymousMemory> reserved = AnonymousMemory::reserve(10000);
  ASSERT_TRUE(reserved.has_value());
  EXPECT_EQ(reserved->data()[9999], std::byte{0});
  reserved->data()[9999] = std::byte{7};
  const AnonymousMemory moved = std::move(*reserved);
  EXPECT_EQ(moved.data()[9999], std::byte{7});
  EXPECT_EQ(moved.size(), 10000u);
  EXPECT_EQ(reserved->data(), nullptr);
}

TEST(AnonymousMemory, more_than_the_address_space_is_refused_with_the_size) {
  const Result<AnonymousMemory> refused = AnonymousMemory::reserve(uint64_t{1} << 60);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("1152921504606846976 bytes"), std::string::npos);
}

TEST(AnonymousMemory, nothing_is_fine) {
  EXPECT_EQ(AnonymousMemory::reserve(0)->data(), nullptr);
}

}  // namespace
}  // namespace yeoul
