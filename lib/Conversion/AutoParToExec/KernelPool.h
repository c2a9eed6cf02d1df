// SPDX-License-Identifier: Apache-2.0
// Kernels that launches share where their content is equal.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::autopar {

class KernelPool {
public:
  struct Kernel {
    func::FuncOp function;
    int64_t extent = 1;
    DenseI64ArrayAttr grid; ///< null on a CPU

    StringRef symbol() const { return func::FuncOp(function).getSymName(); }
  };

  /// No kernels, in a module that is in no other.
  explicit KernelPool(Location loc) : owned(ModuleOp::create(loc, "kernels")), module(*owned) {}

  /// The kernel of a content. Where there is none yet, `make` adds it to the module under the name
  /// and sets its extent, or fails.
  FailureOr<Kernel> kernelOf(
      StringRef content,
      function_ref<FailureOr<func::FuncOp>(ModuleOp module, StringRef name, int64_t &extent)> make);
  /// Takes what another pool has and this one has not, in the order in which it was made. Returns
  /// what kernels of the other are called here, by their names there.
  llvm::StringMap<FlatSymbolRefAttr> take(KernelPool &other);
  /// Hands the module to whoever puts it somewhere.
  ModuleOp release() { return owned.release(); }

private:
  OwningOpRef<ModuleOp> owned;
  ModuleOp module;
  llvm::StringMap<Kernel> byContent;
  SmallVector<StringRef> contents; ///< in the order in which kernels were made; keys of byContent
};

} // namespace mlir::autopar
