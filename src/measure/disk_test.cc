#include "measure/disk.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace yeoul {
namespace {

class DiskTest : public testing::Test {
 protected:
  DiskTest() : folder_(testing::TempDir() + "disk_test/") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~DiskTest() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, size_t bytes) {
    std::ofstream(folder_ + name) << std::string(bytes, 'x');
  }
  std::string folder_;
};

TEST_F(DiskTest, the_largest_file_is_read_and_left_as_it_is) {
  write("small", 5000);
  write("large", 3 << 20);
  const auto figures = measure_disk(folder_, 0.06);
  ASSERT_TRUE(figures.has_value()) << figures.error().message;
  EXPECT_EQ(figures->file, folder_ + "large");
  EXPECT_GT(figures->latency_s, 0);
  EXPECT_GT(figures->reads_per_s, 0);
  EXPECT_GT(figures->bytes_per_s, 0);
  EXPECT_FALSE(figures->filesystem.empty());
  EXPECT_EQ(std::filesystem::file_size(folder_ + "large"), size_t{3} << 20);
}

TEST_F(DiskTest, a_file_smaller_than_a_block_can_be_read) {
  write("one", 8192);
  EXPECT_TRUE(measure_disk(folder_, 0.03).has_value());
}

TEST_F(DiskTest, a_folder_without_anything_to_read_is_named) {
  EXPECT_THAT(measure_disk(folder_, 0.03).error().message, testing::HasSubstr(folder_));
  EXPECT_EQ(measure_disk(folder_ + "missing", 0.03).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace yeoul
