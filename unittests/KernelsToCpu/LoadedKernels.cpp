// SPDX-License-Identifier: Apache-2.0
// See LoadedKernels.h.
#include "LoadedKernels.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace autopar::test {

std::vector<char> compileText(const std::string &text, const CpuTarget &target, std::string &error,
                              unsigned threads) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::func::FuncDialect, mlir::scf::SCFDialect, mlir::memref::MemRefDialect,
                      mlir::arith::ArithDialect, mlir::math::MathDialect,
                      mlir::affine::AffineDialect>();
  context.allowUnregisteredDialects();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    error += diagnostic.str() + "\n";
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return {};
  auto bytes = compileKernels(*module, target, threads);
  return mlir::succeeded(bytes) ? std::move(*bytes) : std::vector<char>();
}

LoadedKernels::LoadedKernels(const std::string &text, const CpuTarget &target) {
  std::string error;
  std::vector<char> bytes = compileText(text, target, error);
  EXPECT_FALSE(bytes.empty()) << error;
  if (bytes.empty())
    return;
  descriptor = memfd_create("kernels", MFD_CLOEXEC);
  EXPECT_EQ(write(descriptor, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  library = dlopen(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
}

LoadedKernels::~LoadedKernels() {
  if (library)
    dlclose(library);
  if (descriptor >= 0)
    close(descriptor);
}

void LoadedKernels::call(const char *name, std::vector<void *> arguments, int64_t begin,
                         int64_t end) {
  using Kernel = void (*)(void *const *, int64_t, int64_t);
  auto kernel = library ? reinterpret_cast<Kernel>(dlsym(library, name)) : nullptr;
  ASSERT_NE(kernel, nullptr) << name;
  kernel(arguments.data(), begin, end);
}

} // namespace autopar::test
