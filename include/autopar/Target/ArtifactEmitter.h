// SPDX-License-Identifier: Apache-2.0
// Exec IR as compiled.bin: one operation is one entity of the artifact, so nothing is decided here.
// Weights stay where they are, or are copied beside it: the artifact names their file and carries
// digests of their bytes.
#pragma once

#include "autopar/Artifact/Writer.h"
#include "autopar/Base/Status.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// What the artifact holds besides the programs.
struct EmitOptions {
  ::autopar::artifact::Target target;
  /// Compiled kernels of all programs (empty when none launches any): an x86-64 shared object, or
  /// PTX text and perhaps a cubin.
  std::vector<char> kernels;
  std::string ptx;
  std::vector<char> cubin;
  std::string plan;   ///< JSON text, may be empty
  std::string source; ///< MLIR text, may be empty
  /// Folder that the artifact will stand in: weight files are named relative to it. Empty:
  /// absolute.
  std::string folder;
  /// Where the bytes of weights are copied to, a file in that folder; empty: they stay where they
  /// are.
  std::string weights;
};

/// The artifact's contents for a module in exec form with planned memory. BadInput when the module
/// is not in that form, NoInput / BadInput when a weight file cannot be read or is too short.
::autopar::Result<::autopar::artifact::Contents> buildArtifact(ModuleOp module,
                                                               EmitOptions options);

} // namespace mlir::autopar
