#include "cache/page_reservation.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace yeoul {
namespace {

TEST(PageReservation, takes_all_pages_or_none) {
  PagePool pool(3);
  std::array<int32_t, 4> storage{};
  EXPECT_FALSE(PageReservation::make(pool, storage));
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_TRUE(PageReservation::make(pool, std::span(storage).first(3)));
}

TEST(PageReservation, what_is_not_taken_over_goes_back_in_the_same_order) {
  PagePool pool(6);
  const std::vector<int32_t> before(pool.free_pages().begin(), pool.free_pages().end());
  std::array<int32_t, 4> storage{};
  {
    const auto reservation = PageReservation::make(pool, storage);
    EXPECT_EQ(pool.num_free(), 2);
  }
  const std::vector<int32_t> after(pool.free_pages().begin(), pool.free_pages().end());
  EXPECT_EQ(after, before);
}

TEST(PageReservation, a_page_taken_over_stays_with_its_new_owner) {
  PagePool pool(4);
  std::array<int32_t, 3> storage{};
  int32_t page = -1;
  {
    auto reservation = PageReservation::make(pool, storage);
    page = reservation->take();
    EXPECT_EQ(reservation->remaining().size(), 2u);
    const PageReservation moved = std::move(*reservation);
    EXPECT_EQ(moved.remaining().size(), 2u);
  }
  EXPECT_EQ(pool.num_used(), 1);
  EXPECT_EQ(pool.ref_count(page), 1);
}

TEST(PageReservation, can_be_given_back_early_and_only_once) {
  PagePool pool(4);
  std::array<int32_t, 2> storage{};
  auto reservation = PageReservation::make(pool, storage);
  reservation->give_back();
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_DEATH(reservation->take(), "all 2 reserved pages are taken");
  reservation.reset();
  EXPECT_EQ(pool.num_free(), 4);
}

}  // namespace
}  // namespace yeoul
