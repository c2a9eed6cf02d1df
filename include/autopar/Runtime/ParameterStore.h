// SPDX-License-Identifier: Apache-2.0
// Where parameters come from: verified slices of external files, the constants section, or a
// counter- based initializer for models without weights. Shared by the ranks of a process.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Artifact/Reader.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Initializer.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace autopar::runtime {

/// Copies a box between a row-major global tensor and a row-major local buffer of shape `local`
/// (box at its origin). Exactly one of the two directions; other bytes stay untouched.
void copyBoxToLocal(const void *global, const std::vector<int64_t> &globalShape, const Box &box,
                    void *local, const std::vector<int64_t> &localShape, int64_t elementBytes);
void copyBoxToGlobal(const void *local, const std::vector<int64_t> &localShape, const Box &box,
                     void *global, const std::vector<int64_t> &globalShape, int64_t elementBytes);

/// Thread-safe.
class ParameterSource {
public:
  virtual ~ParameterSource() = default;
  /// Whether there is anything to read: in a simulation nobody looks at what tensors hold.
  virtual bool holdsBytes() const { return true; }
  /// Writes the rank's box of a parameter into `local`, padding zeroed. NoInput / BadInput name the
  /// parameter and the file.
  virtual Status read(const artifact::Port &port, const artifact::PortShard &shard, void *local,
                      const std::vector<int64_t> &localShape) = 0;
};

class ParameterStore : public ParameterSource {
public:
  ParameterStore(artifact::Reader reader, std::optional<Initializer> initializer);
  ~ParameterStore() override;

  Status read(const artifact::Port &port, const artifact::PortShard &shard, void *local,
              const std::vector<int64_t> &localShape) override;

  /// That every file exists and is long enough, and that nothing absent lacks an initializer; reads
  /// no data. With `digests`, also compares every digest.
  Status check(const artifact::Program &program, bool digests);

  /// What is read from now on; not while something is.
  void setInitializer(std::optional<Initializer> other) { initializer = std::move(other); }

  /// Gives back the memory through which files were read; it comes again where they are.
  void releaseFiles();

private:
  struct File;
  artifact::Reader reader;
  std::optional<Initializer> initializer;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<File>> files;

  Result<std::shared_ptr<File>> open(const std::string &path);
  Result<const uint8_t *> bytesOf(const artifact::Port &port, std::optional<Box> box);
};

} // namespace autopar::runtime
