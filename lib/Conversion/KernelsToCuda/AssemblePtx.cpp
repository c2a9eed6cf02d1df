// SPDX-License-Identifier: Apache-2.0
// Runs ptxas, NVIDIA's assembler, where it is installed.
#include "autopar/Conversion/KernelsToCuda.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace mlir;

namespace autopar {
namespace {

/// A file in the temporary folder that goes with the object.
struct TemporaryFile {
  explicit TemporaryFile(StringRef suffix) {
    error = llvm::sys::fs::createTemporaryFile("autopar", suffix, path);
  }
  ~TemporaryFile() {
    if (!error)
      llvm::sys::fs::remove(path);
  }
  std::string read() const {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  }

  llvm::SmallString<128> path;
  std::error_code error;
};

/// Whether an assembler of another time says so.
bool isTooOld(StringRef said) {
  return said.contains("is not defined for option") || said.contains("Unsupported .version");
}

} // namespace

std::optional<std::string> findPtxas() {
  auto in = [](StringRef root) -> std::optional<std::string> {
    llvm::SmallString<128> path(root);
    llvm::sys::path::append(path, "bin", "ptxas");
    if (llvm::sys::fs::can_execute(path))
      return path.str().str();
    return std::nullopt;
  };
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *root = std::getenv(variable))
      if (auto found = in(root))
        return found;
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  return in("/usr/local/cuda");
}

Result<std::vector<char>> assemblePtx(const std::string &ptx, int chip, const std::string &ptxas) {
  TemporaryFile source("ptx"), cubin("cubin"), report("txt");
  for (TemporaryFile *file : {&source, &cubin, &report})
    if (file->error)
      return Status(StatusCode::CannotCreate,
                    "cannot make a temporary file for ptxas: " + file->error.message() +
                        "; set TMPDIR to a folder that can be written");
  {
    std::error_code error;
    llvm::raw_fd_ostream out(source.path, error);
    out << ptx;
    out.close();
    std::error_code failed = out.error();
    out.clear_error();
    if (error || failed)
      return Status::ioError("cannot write " + source.path.str().str() + ": " +
                             (error ? error : failed).message());
  }
  std::string name = "sm_" + std::to_string(chip), arch = "-arch=" + name;
  StringRef arguments[] = {ptxas, arch, "-O3", source.path, "-o", cubin.path};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(report.path),
                                          StringRef(report.path)};
  std::string problem;
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &problem);
  std::string said = StringRef(report.read()).trim().str();
  std::string newer = "; set CUDA_HOME to a newer CUDA toolkit";
  if (!problem.empty())
    return Status(StatusCode::NoDevice, ptxas + " does not run: " + problem + newer);
  if (status != 0 && isTooOld(said))
    return Status(StatusCode::NoDevice, ptxas + " is too old for " + name + ": " + said + newer);
  if (status != 0)
    return Status::internal(ptxas + " refuses the kernels for " + name + ": " + said);
  std::string bytes = cubin.read();
  return std::vector<char>(bytes.begin(), bytes.end());
}

} // namespace autopar
