// SPDX-License-Identifier: Apache-2.0
// Importing a model from bytes, with the error text instead of diagnostics on the screen.
#pragma once

#include "autopar/Import/Onnx/OnnxImporter.h"

#include <gtest/gtest.h>

#include <string>

namespace autopar::test {

/// A folder that disappears with the object.
class Folder {
public:
  Folder();
  ~Folder();
  std::string file(const std::string &name) const { return path + "/" + name; }
  void write(const std::string &name, const std::string &bytes) const;

private:
  std::string path;
};

/// Imports the file; the module is null and `error` set where that fails.
mlir::OwningOpRef<mlir::ModuleOp> importFile(const std::string &path, mlir::MLIRContext &context,
                                             std::string &error,
                                             const mlir::autopar::ImportOptions &options = {});

} // namespace autopar::test
