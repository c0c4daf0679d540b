#include "io/npy.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace yeoul {
namespace {

TEST(NpyWriter, writes_an_aligned_header_and_the_rows) {
  const std::string path = testing::TempDir() + "npy_test.npy";
  Result<NpyWriter> writer = NpyWriter::create(path, 2, 3);
  ASSERT_TRUE(writer);
  const float values[6] = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(writer->append({values, 3}));
  ASSERT_TRUE(writer->append({values + 3, 3}));
  ASSERT_TRUE(writer->close());
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string blob = text.str();
  EXPECT_EQ(blob.substr(1, 5), "NUMPY");
  EXPECT_EQ((blob.size() - sizeof(values)) % 64, 0u);
  EXPECT_NE(blob.find("'shape': (2, 3)"), std::string::npos);
  EXPECT_EQ(blob.substr(blob.size() - sizeof(values)),
            std::string(reinterpret_cast<const char*>(values), sizeof(values)));
}

TEST(NpyWriter, a_wrong_number_of_values_is_an_error) {
  Result<NpyWriter> writer = NpyWriter::create(testing::TempDir() + "npy_test.npy", 2, 3);
  ASSERT_TRUE(writer);
  EXPECT_NE(writer->close().error().message.find("6 values expected, 0 written"),
            std::string::npos);
}

TEST(NpyWriter, a_folder_that_does_not_exist_is_named) {
  EXPECT_NE(NpyWriter::create("/nowhere/x.npy", 1, 1).error().message.find("/nowhere/x.npy"),
            std::string::npos);
}

}  // namespace
}  // namespace yeoul
