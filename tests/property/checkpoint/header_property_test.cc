// Mutated headers never crash and never open with a geometry that is not in the bytes.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/safetensors.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What parse_header promises. The product is taken in double: exact up to 2^53, and anything larger
// is more than any file here holds.
bool is_sound(const std::vector<HeaderTensor>& tensors, uint64_t data_bytes) {
  uint64_t covered = 0;
  std::set<std::string> names;
  for (const HeaderTensor& tensor : tensors) {
    auto num_bytes = static_cast<double>(bytes_of(tensor.dtype));
    for (const int64_t dim : tensor.shape) {
      if (dim < 0) return false;
      num_bytes *= static_cast<double>(dim);
    }
    if (tensor.begin != covered || tensor.end < tensor.begin) return false;
    if (num_bytes != static_cast<double>(tensor.end - tensor.begin)) return false;
    if (!names.insert(tensor.name).second) return false;
    covered = tensor.end;
  }
  return covered == data_bytes;
}

std::string with_edits(std::string text, const std::vector<std::pair<uint32_t, char>>& edits,
                       uint32_t num_cut) {
  if (text.empty()) return text;
  for (const auto& [place, byte] : edits) text[place % text.size()] = byte;
  text.resize(text.size() - num_cut % text.size());
  return text;
}

// Bytes that mean something to a header, more often than not.
rc::Gen<char> header_byte() {
  return rc::gen::oneOf(rc::gen::arbitrary<char>(),
                        rc::gen::elementOf(std::string("0123456789{}[]\",:-.eE \\\0", 24)));
}

// Up to four places, anywhere: ranges of a generator grow with its size, hence the fixed size.
std::vector<std::pair<uint32_t, char>> few_edits() {
  return *rc::gen::resize(rc::kNominalSize,
                          rc::gen::container<std::vector<std::pair<uint32_t, char>>>(
                              *rc::gen::inRange<size_t>(0, 5),
                              rc::gen::pair(rc::gen::arbitrary<uint32_t>(), header_byte())));
}

TEST(HeaderProperty, a_header_written_from_tensors_reads_back_as_those_tensors) {
  EXPECT_TRUE(rc::check([] {
    const auto num_tensors = *rc::gen::inRange(0, 20);
    std::string json = "{\"__metadata__\":{}";
    std::vector<HeaderTensor> written;
    uint64_t end = 0;
    for (int i = 0; i < num_tensors; ++i) {
      HeaderTensor tensor;
      tensor.name = fmt::format("tensor.{}", i);
      tensor.dtype =
          *rc::gen::element(Dtype::kF32, Dtype::kBf16, Dtype::kF8E4m3, Dtype::kF8E8m0, Dtype::kI8);
      const auto rank = *rc::gen::inRange(0, 4);
      auto num_bytes = static_cast<uint64_t>(bytes_of(tensor.dtype));
      for (int d = 0; d < rank; ++d) {
        tensor.shape.push_back(*rc::gen::inRange<int64_t>(1, 100'000));
        num_bytes *= static_cast<uint64_t>(tensor.shape.back());
      }
      tensor.begin = end;
      tensor.end = end += num_bytes;
      json += fmt::format(R"(,"{}":{{"data_offsets":[{},{}],"shape":[{}],"dtype":"{}"}})",
                          tensor.name, tensor.begin, tensor.end, fmt::join(tensor.shape, ","),
                          to_string(tensor.dtype));
      written.push_back(std::move(tensor));
    }
    const auto read = parse_header(json + "}", end);
    RC_ASSERT(read.has_value());
    RC_ASSERT(read->size() == written.size());
    for (size_t i = 0; i < written.size(); ++i) {
      RC_ASSERT((*read)[i].name == written[i].name);
      RC_ASSERT((*read)[i].dtype == written[i].dtype);
      RC_ASSERT((*read)[i].shape == written[i].shape);
      RC_ASSERT((*read)[i].begin == written[i].begin);
      RC_ASSERT((*read)[i].end == written[i].end);
    }
    // One byte of data more or less, and nothing fits.
    RC_ASSERT(!parse_header(json + "}", end + 1).has_value());
  }));
}

TEST(HeaderProperty, a_mutated_header_is_refused_or_sound) {
  const auto file = File::open("models/tiny-random/model-00005-of-00006.safetensors");
  ASSERT_TRUE(file);
  const auto header = read_header(*file);
  ASSERT_TRUE(header);
  const uint64_t data_bytes = file->size() - header->data_start;
  ASSERT_TRUE(is_sound(header->tensors, data_bytes));
  EXPECT_TRUE(rc::check([&] {
    const auto edits = few_edits();
    const auto num_cut = *rc::gen::weightedElement<uint32_t>({{9, 0}, {1, 3}, {1, 100}});
    const std::string json = with_edits(header->json, edits, num_cut);
    const auto tensors = parse_header(json, data_bytes);
    // RC_ASSERT takes its condition apart and would evaluate both sides of a ||.
    const bool holds = tensors ? is_sound(*tensors, data_bytes) : !tensors.error().message.empty();
    RC_TAG(tensors.has_value() ? "opened" : "refused");
    RC_ASSERT(holds);
  }));
}

// Same name, dtype and shape as the config calls for, each inside its file.
bool matches_config(const Checkpoint& checkpoint) {
  const std::vector<ExpectedTensor> expected = expected_tensors(checkpoint.config());
  if (expected.size() != checkpoint.tensors().size()) return false;
  for (const ExpectedTensor& tensor : expected) {
    const auto entry = checkpoint.find(tensor.name);
    if (!entry || (*entry)->dtype != tensor.dtype || (*entry)->shape != tensor.shape) return false;
    const File& shard = checkpoint.shards()[static_cast<size_t>((*entry)->shard)];
    if ((*entry)->offset + (*entry)->num_bytes > shard.size()) return false;
  }
  return true;
}

TEST(HeaderProperty, a_checkpoint_with_mutated_files_is_refused_or_what_its_config_says) {
  const TemporaryFolder folder;
  const auto config = parse_config(read_text("models/tiny-random/config.json"));
  ASSERT_TRUE(config);
  const CheckpointPlan plan = plan_checkpoint(*config);
  ASSERT_TRUE(write_checkpoint(plan, folder.path(), {}));
  // The largest header, the smallest, and both JSON files; of a shard only the start is rewritten.
  const std::vector<std::string> names = {"config.json", "model.safetensors.index.json",
                                          plan.shards[4].file_name, plan.shards[17].file_name};
  EXPECT_TRUE(rc::check([&] {
    const std::string path = folder.path() + "/" + *rc::gen::elementOf(names);
    const std::string original = read_text(path);
    const auto edits = few_edits();
    const bool is_shard = path.ends_with(".safetensors");
    const size_t num_bytes = is_shard ? std::min<size_t>(original.size(), 700) : original.size();
    const std::string edited = with_edits(original.substr(0, num_bytes), edits, 0);
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << edited;
    const auto checkpoint = Checkpoint::open(folder.path());
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
        << original.substr(0, num_bytes);
    const bool holds = !checkpoint || matches_config(**checkpoint);
    RC_TAG(checkpoint.has_value() ? "opened" : "refused");
    RC_ASSERT(holds);
  }));
  EXPECT_TRUE(Checkpoint::open(folder.path()));
}

}  // namespace
}  // namespace yeoul
