// SPDX-License-Identifier: Apache-2.0
// The generated kernels of a rank class, mapped from verified bytes.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Digest.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace autopar::runtime {

/// Computes the outer iterations [begin, end).
using KernelFunction = void (*)(void *const *args, int64_t begin, int64_t end);

/// A loaded shared object. Shared by the ranks of a class in one process.
class KernelLibrary {
public:
  /// Copies the bytes into a sealed memory file, compares their digest once more, and only then
  /// lets the loader map them. Where memory files may not be executed, a private file in TMPDIR
  /// serves. `symbols` are resolved in order; BadInput names a missing one.
  static Result<std::shared_ptr<const KernelLibrary>> load(std::span<const uint8_t> bytes,
                                                           const Digest &digest,
                                                           const std::vector<std::string> &symbols);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary &) = delete;
  KernelLibrary &operator=(const KernelLibrary &) = delete;

  KernelFunction function(int32_t kernel) const { return functions[size_t(kernel)]; }

private:
  KernelLibrary() = default;
  void *handle = nullptr;
  int fd = -1; ///< open until unloaded: the loader tells libraries apart by their path name
  std::vector<KernelFunction> functions;
};

/// Mismatch, naming what is missing, when this CPU does not offer the target's features.
Status checkTarget(const artifact::Target &target);

} // namespace autopar::runtime
