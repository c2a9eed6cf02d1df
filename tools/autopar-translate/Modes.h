// SPDX-License-Identifier: Apache-2.0
// The modes of autopar-translate, one file each.
#pragma once

#include "autopar/Base/Status.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace autopar::translate {

/// Exit codes, as in sysexits.h.
enum ExitCode { ok = 0, usage = 2, badInput = 65, noInput = 66 };

/// Prints what went wrong, if anything did.
int complain(const ::autopar::Status &status);

/// Writes a file, whole or not at all, or to standard output ("-").
int writeOutput(llvm::StringRef output, llvm::StringRef bytes);

/// `--import-onnx MODEL [--bind NAME=N,...]... [--fix-input NAME=NUMBER,...]...`: the model as a
/// module of the autopar dialect, written to `output` ("-" for standard output).
int importOnnxFile(llvm::StringRef model, llvm::ArrayRef<std::string> bindings,
                   llvm::ArrayRef<std::string> fixInputs, llvm::StringRef output);

/// `--onnx-operators`: the operators that import knows, as the page docs/Operators.md.
int listOnnxOperators(llvm::StringRef output);

/// `--update-onnx MODEL --weights FILE [--adapters TEXT]`: the model with the weights of a
/// .safetensors file, or of several and their index, as autopar-run --export writes them.
int updateOnnxFile(llvm::StringRef model, llvm::StringRef weights, llvm::StringRef adapters,
                   llvm::StringRef output);

/// `--dump ARTIFACT`: a compiled.bin as text; with `withText` its plan and source too.
int dumpArtifactFile(llvm::StringRef artifact, bool withText, llvm::StringRef output);

/// `--extract-kernels ARTIFACT`: the shared object of its first rank class, as the runtime maps it.
int extractKernelsFile(llvm::StringRef artifact, llvm::StringRef output);

/// `--exec-to-artifact MODULE`: a module of the exec dialect with planned memory as a compiled.bin.
int emitArtifactFile(llvm::StringRef module, llvm::StringRef output);

} // namespace autopar::translate
