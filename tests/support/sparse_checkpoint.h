#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/expected_tensors.h"

namespace yeoul {

// Checkpoints of any size on almost no disk: config, index and headers are real, the tensors' bytes
// are holes that read as zeros. Laid out like the release: embedding and head first, a shard a
// layer, vision, a shard a DSpark stage, an Engram table a shard; 48 shards for the release's
// config.

struct SparseShard {
  std::string file_name;
  std::vector<ExpectedTensor> tensors;  // in the order of their bytes
};

// What will be written. A test that wants a broken checkpoint edits the plan.
struct SparsePlan {
  std::string config_json;
  std::vector<SparseShard> shards;
};

// config.json with the values of the release.
std::string release_config_json();

Result<SparsePlan> plan_sparse_checkpoint(const std::string& config_json);

// Into an existing folder.
Result<void> write_sparse_checkpoint(const SparsePlan& plan, const std::string& directory);

// A new empty folder under the system's place for temporary files, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace yeoul
