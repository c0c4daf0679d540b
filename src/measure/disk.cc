#include "measure/disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "base/counter_rng.h"
#include "measure/roofs.h"

namespace yeoul {
namespace {

namespace fs = std::filesystem;

constexpr int kThreads = 16;
constexpr size_t kPage = 4096, kPiece = 64 << 10, kBlock = 1 << 20;

struct Buffer {
  explicit Buffer(size_t bytes) : data(std::aligned_alloc(kPage, bytes), &std::free) {}
  std::unique_ptr<void, void (*)(void*)> data;
};

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

// Magic numbers of statfs(2), "man 2 statfs".
void name_filesystem(const std::string& path, DiskFigures& figures) {
  struct statfs status = {};
  if (::statfs(path.c_str(), &status) != 0) return;
  switch (static_cast<uint32_t>(status.f_type)) {
    case 0x6969:
      figures.filesystem = "NFS";
      break;
    case 0xFF534D42:
    case 0xFE534D42:
      figures.filesystem = "CIFS";
      break;
    case 0x65735546:
      figures.filesystem = "FUSE";
      break;
    case 0x01021997:
      figures.filesystem = "9p";
      break;
    case 0x00C36400:
      figures.filesystem = "Ceph";
      break;
    case 0x01021994:
      figures.filesystem = "tmpfs";
      return;
    case 0xEF53:
      figures.filesystem = "ext4";
      return;
    case 0x58465342:
      figures.filesystem = "xfs";
      return;
    case 0x9123683E:
      figures.filesystem = "btrfs";
      return;
    case 0x794C7630:
      figures.filesystem = "overlay";
      return;
    default:
      figures.filesystem = fmt::format("type {:#x}", status.f_type);
      return;
  }
  figures.is_network = true;
}

Result<std::pair<std::string, uint64_t>> largest_file(const std::string& folder) {
  std::error_code error;
  std::pair<std::string, uint64_t> largest;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;  // a file that vanishes meanwhile is not the one we want
    if (!entry->is_regular_file(ignored)) continue;
    const uintmax_t bytes = entry->file_size(ignored);
    if (!ignored && bytes > largest.second) largest = {entry->path().string(), bytes};
  }
  if (error) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: {}", folder, error.message()));
  }
  if (largest.second < kPage) {
    return fail(
        ErrorCode::kNotFound,
        fmt::format("{}: a file of at least {} bytes to read expected, none found", folder, kPage));
  }
  return largest;
}

// Reads blocks of `bytes` for `seconds` with `threads` threads; next(thread, count) is the block's
// number. -> blocks a second, or the errno of a read that failed.
template <typename Next>
tl::expected<double, int> read_for(int file, size_t bytes, int threads, double seconds,
                                   const Next& next) {
  std::atomic<int64_t> blocks{0};
  std::atomic<int> failure{0};
  const double start = now_seconds();
  {
    std::vector<std::jthread> workers;
    for (int thread = 0; thread < threads; ++thread) {
      workers.emplace_back([&, thread] {
        const Buffer buffer(bytes);
        uint64_t count = 0;
        do {
          const auto offset = static_cast<off_t>(next(thread, count++) * bytes);
          if (::pread(file, buffer.data.get(), bytes, offset) < 0) failure = errno;
          ++blocks;
        } while (now_seconds() - start < seconds && failure == 0);
      });
    }
  }
  if (failure != 0) return tl::unexpected<int>(failure);
  return static_cast<double>(blocks) / (now_seconds() - start);
}

double median_latency(int file, uint64_t pages, double seconds) {
  const Buffer buffer(kPage);
  std::vector<double> times;
  const double begin = now_seconds();
  for (uint64_t i = 0; times.empty() || (now_seconds() - begin < seconds && i < 20'000); ++i) {
    const double start = now_seconds();
    const auto offset = static_cast<off_t>(mix64(i) % pages * kPage);
    if (::pread(file, buffer.data.get(), kPage, offset) < 0) return 0;  // read_for() reports it
    times.push_back(now_seconds() - start);
  }
  std::ranges::nth_element(times, times.begin() + static_cast<ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

}  // namespace

Result<DiskFigures> measure_disk(const std::string& folder, double seconds) {
  DiskFigures figures;
  figures.threads = kThreads;
  TRY_ASSIGN(const auto found, largest_file(folder));
  figures.file = found.first;
  name_filesystem(figures.file, figures);
  Descriptor file{::open(figures.file.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT)};
  figures.is_direct = file.number >= 0;
  if (!figures.is_direct) file.number = ::open(figures.file.c_str(), O_RDONLY | O_CLOEXEC);
  const auto failed = [&](int error) {
    return fail(ErrorCode::kUnavailable, fmt::format("{}: cannot read: {}", figures.file,
                                                     std::generic_category().message(error)));
  };
  if (file.number < 0) return failed(errno);
  // Without O_DIRECT the cache is asked to forget the file, which it may do or not.
  if (!figures.is_direct) ::posix_fadvise(file.number, 0, 0, POSIX_FADV_DONTNEED);
  const uint64_t pages = found.second / kPage,
                 blocks = std::max<uint64_t>(1, found.second / kBlock);
  const auto small = read_for(file.number, kPage, kThreads, seconds / 4, [&](int t, uint64_t i) {
    return mix64(~(i * kThreads + static_cast<uint64_t>(t))) % pages;
  });
  if (!small) return failed(small.error());
  const uint64_t pieces = std::max<uint64_t>(1, found.second / kPiece);
  const auto medium = read_for(file.number, kPiece, kThreads, seconds / 4, [&](int t, uint64_t i) {
    return mix64(1000 + i * kThreads + static_cast<uint64_t>(t)) % pieces;
  });
  if (!medium) return failed(medium.error());
  const auto large = read_for(file.number, kBlock, kThreads, seconds / 4, [&](int t, uint64_t i) {
    return (i * kThreads + static_cast<uint64_t>(t)) % blocks;
  });
  if (!large) return failed(large.error());
  figures.latency_s = median_latency(file.number, pages, seconds / 4);
  figures.reads_per_s = *small;
  figures.small_bytes_per_s =
      *medium * static_cast<double>(std::min<uint64_t>(kPiece, found.second));
  figures.bytes_per_s = *large * static_cast<double>(std::min<uint64_t>(kBlock, found.second));
  return figures;
}

}  // namespace yeoul
