#include "support/golden_files.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/check.h"

namespace yeoul::golden {
namespace {

template <typename T>
void append(const char* bytes, size_t count, std::vector<double>& out) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    out.push_back(static_cast<double>(value));
  }
}

void append_bf16(const char* bytes, size_t count, std::vector<double>& out) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + i * 2, 2);
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  }
}

void append_typed(const std::string& type, const char* bytes, size_t count,
                  std::vector<double>& out) {
  if (type == "F32" || type == "<f4") return append<float>(bytes, count, out);
  if (type == "F64" || type == "<f8") return append<double>(bytes, count, out);
  if (type == "I32" || type == "<i4") return append<int32_t>(bytes, count, out);
  if (type == "I64" || type == "<i8") return append<int64_t>(bytes, count, out);
  if (type == "U8") return append<uint8_t>(bytes, count, out);
  if (type == "BF16") return append_bf16(bytes, count, out);
  CHECK(false, "golden data of type {}", type);
}

}  // namespace

int64_t Array::width() const {
  int64_t width = 1;
  for (size_t i = 1; i < shape.size(); ++i) width *= shape[i];
  return width;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good(), "{} (tests run in the repository root)", path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

Json read_json(const std::string& path) {
  const Result<Json> json = parse_json(read_text(path));
  CHECK(json.has_value(), "{}", path);
  return *json;
}

std::map<std::string, Array> read_safetensors(const std::string& path) {
  const std::string blob = read_text(path);
  uint64_t header_len = 0;
  CHECK(blob.size() > 8);
  std::memcpy(&header_len, blob.data(), 8);
  const Result<Json> header = parse_json(blob.substr(8, header_len));
  CHECK(header.has_value(), "{}", path);
  std::map<std::string, Array> arrays;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    Array& array = arrays[name];
    size_t count = 1;
    for (const Json& extent : entry["shape"]) {
      array.shape.push_back(extent.get<int64_t>());
      count *= extent.get<size_t>();
    }
    const auto begin = entry["data_offsets"][0].get<size_t>();
    append_typed(entry["dtype"].get<std::string>(), blob.data() + 8 + header_len + begin, count,
                 array.values);
  }
  return arrays;
}

Array read_npy(const std::string& path) {
  const std::string blob = read_text(path);
  CHECK(blob.size() > 10 && blob.substr(1, 5) == "NUMPY" && blob[6] == 1, "{}", path);
  const size_t header_len =
      static_cast<uint8_t>(blob[8]) | static_cast<size_t>(static_cast<uint8_t>(blob[9])) << 8;
  const std::string header = blob.substr(10, header_len);
  const size_t type = header.find("'descr': '") + 10;
  const size_t shape = header.find("'shape': (") + 10;
  Array array;
  size_t count = 1;
  std::istringstream extents(header.substr(shape, header.find(')', shape) - shape));
  for (std::string extent; std::getline(extents, extent, ',');) {
    if (extent.find_first_of("0123456789") == std::string::npos) continue;
    array.shape.push_back(std::stoll(extent));
    count *= static_cast<size_t>(array.shape.back());
  }
  append_typed(header.substr(type, header.find('\'', type) - type), blob.data() + 10 + header_len,
               count, array.values);
  return array;
}

double relative_rms(const std::vector<float>& a, const std::vector<double>& b) {
  CHECK(a.size() == b.size() && !a.empty(), "{} values expected, {} found", b.size(), a.size());
  double mean = 0, error = 0, variance = 0;
  const auto n = static_cast<double>(b.size());
  for (const double value : b) mean += value / n;
  for (size_t i = 0; i < b.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]) / n;
    variance += (b[i] - mean) * (b[i] - mean) / n;
  }
  return std::sqrt(error) / std::max(std::sqrt(variance), 1e-9);
}

}  // namespace yeoul::golden
