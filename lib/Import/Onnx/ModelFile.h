// SPDX-License-Identifier: Apache-2.0
// A model file and the files next to it that hold its tensors.
#pragma once

#include "autopar/Base/Status.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>

namespace autopar_onnx {
class ModelProto;
class TensorProto;
} // namespace autopar_onnx

namespace mlir::autopar {

/// Where the values of a tensor stand.
struct TensorPlace {
  enum Kind { Message, File, Absent } kind = Message;
  /// For `File` and `Absent`: path of the file (the model's own or one next to it); for `File`,
  /// position and length in bytes.
  std::string file;
  uint64_t offset = 0, length = 0;
  /// For `File`: the bytes, mapped.
  StringRef bytes;
};

/// All of the model in the file `path`, values that are in it included: to be written again.
/// NoInput where it cannot be opened, BadInput where it does not parse.
::autopar::Status readWholeModel(const std::string &path, autopar_onnx::ModelProto &model);

/// An open model. Files stay mapped as long as it lives.
class ModelFile {
public:
  ModelFile();
  ~ModelFile();

  /// Maps and parses `path`; errors go to `location`.
  LogicalResult open(StringRef path, Location location);
  const autopar_onnx::ModelProto &model() const { return *proto; }

  /// Finds the values of `tensor`, which takes `bytes` bytes where they are stored raw. External
  /// files lie inside the model's folder, links followed; anything else is refused with a message
  /// in `error`.
  FailureOr<TensorPlace> locate(const autopar_onnx::TensorProto &tensor, uint64_t bytes,
                                std::string &error);

private:
  struct External {
    std::unique_ptr<llvm::MemoryBuffer> buffer; ///< null if the file does not exist
    std::string path;
  };
  FailureOr<External *> openExternal(StringRef location, std::string &error);

  std::string path;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::unique_ptr<autopar_onnx::ModelProto> proto;
  llvm::StringMap<External> externals;
};

} // namespace mlir::autopar
