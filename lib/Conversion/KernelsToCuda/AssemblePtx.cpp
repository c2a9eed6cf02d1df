// SPDX-License-Identifier: Apache-2.0
// Runs ptxas, NVIDIA's assembler, where it is installed, and reads what it reports of each kernel.
#include "autopar/Conversion/KernelsToCuda.h"

#include "mlir/IR/Diagnostics.h"
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

/// The number before `unit` in a line of the report; 0 where it is not mentioned.
int numberBefore(StringRef line, StringRef unit) {
  size_t at = line.find(unit);
  if (at == StringRef::npos)
    return 0;
  StringRef digits = line.take_front(at).rtrim();
  size_t begin = digits.find_last_not_of("0123456789");
  digits = begin == StringRef::npos ? digits : digits.substr(begin + 1);
  int number = 0;
  return digits.getAsInteger(10, number) ? 0 : number;
}

std::vector<KernelResources> readReport(StringRef report) {
  std::vector<KernelResources> kernels;
  for (StringRef line : llvm::split(report, '\n')) {
    constexpr StringRef entry = "Compiling entry function '";
    if (size_t at = line.find(entry); at != StringRef::npos) {
      StringRef name = line.substr(at + entry.size());
      kernels.emplace_back().kernel = name.take_until([](char c) { return c == '\''; }).str();
    }
    if (kernels.empty())
      continue;
    KernelResources &kernel = kernels.back();
    kernel.stackBytes += numberBefore(line, " bytes stack frame");
    kernel.spilledBytes +=
        numberBefore(line, " bytes spill stores") + numberBefore(line, " bytes spill loads");
    kernel.sharedBytes += numberBefore(line, " bytes smem");
    kernel.registers += numberBefore(line, " registers");
  }
  return kernels;
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

FailureOr<AssembledPtx> assemblePtx(const std::string &ptx, int chip, const std::string &ptxas,
                                    Location loc) {
  TemporaryFile source("ptx"), cubin("cubin"), report("txt");
  for (TemporaryFile *file : {&source, &cubin, &report})
    if (file->error)
      return emitError(loc) << "cannot make a temporary file for ptxas: " << file->error.message()
                            << "; set TMPDIR to a folder that can be written";
  {
    std::error_code error;
    llvm::raw_fd_ostream out(source.path, error);
    out << ptx;
    out.close();
    std::error_code failed = out.error();
    out.clear_error();
    if (error || failed)
      return emitError(loc) << "cannot write " << source.path << ": "
                            << (error ? error : failed).message();
  }
  std::string arch = "-arch=sm_" + std::to_string(chip);
  StringRef arguments[] = {ptxas, arch, "-O3", "-v", source.path, "-o", cubin.path};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(report.path),
                                          StringRef(report.path)};
  std::string problem;
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &problem);
  std::string said = report.read();
  if (status != 0)
    return emitError(loc) << ptxas << " refuses the kernels for sm_" << chip << ": "
                          << (problem.empty() ? said : problem);
  std::string bytes = cubin.read();
  return AssembledPtx{{bytes.begin(), bytes.end()}, readReport(said)};
}

} // namespace autopar
