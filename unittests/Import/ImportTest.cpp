// SPDX-License-Identifier: Apache-2.0
// Temporary folders and error capture for import tests.
#include "ImportTest.h"

#include "mlir/IR/Diagnostics.h"

#include <filesystem>
#include <fstream>

using namespace mlir;

namespace autopar::test {

Folder::Folder() {
  // In memory where there is such a folder: thousands of files are written.
  std::filesystem::path parent =
      std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
  std::string pattern = (parent / "autopar-import-XXXXXX").string();
  path = mkdtemp(pattern.data());
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void Folder::write(const std::string &name, const std::string &bytes) const {
  std::ofstream(file(name), std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

OwningOpRef<ModuleOp> importFile(const std::string &path, MLIRContext &context, std::string &error,
                                 const mlir::autopar::ImportOptions &options) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    error += diagnostic.str() + "\n";
    return success();
  });
  FailureOr<OwningOpRef<ModuleOp>> module = mlir::autopar::importOnnx(path, options, context);
  EXPECT_EQ(failed(module), !error.empty()) << error;
  return failed(module) ? OwningOpRef<ModuleOp>() : std::move(*module);
}

} // namespace autopar::test
