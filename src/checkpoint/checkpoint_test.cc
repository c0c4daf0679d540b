#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

namespace yeoul {
namespace {

TEST(Checkpoint, the_embedded_checkpoint_opens_with_the_totals_of_its_files) {
  const auto checkpoint = Checkpoint::open("models/tiny-random");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ((*checkpoint)->totals().num_tensors, 1328);
  EXPECT_EQ((*checkpoint)->totals().num_bytes, 4'362'743u);
  EXPECT_EQ((*checkpoint)->shards().size(), 6u);
  EXPECT_EQ((*checkpoint)->config().hidden_size, 96);
}

}  // namespace
}  // namespace yeoul
