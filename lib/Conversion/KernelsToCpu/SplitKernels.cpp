// SPDX-License-Identifier: Apache-2.0
// Splits a module into one text per kernel. Kernels are compiled on several threads, each with a
// context of its own, and a context cannot be shared without locks; text is the cheap way from one
// to another.
#include "Stages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace autopar::cpu {
namespace {

bool isStorable(Type element) {
  if (element.isIndex() || element.isF16() || element.isBF16() || element.isF32() ||
      element.isF64())
    return true;
  auto integer = dyn_cast<IntegerType>(element);
  return integer && llvm::is_contained({8u, 16u, 32u, 64u}, integer.getWidth());
}

LogicalResult checkBuffer(func::FuncOp kernel, unsigned index) {
  auto type = dyn_cast<MemRefType>(kernel.getArgumentTypes()[index]);
  if (!type || !type.hasStaticShape() || !type.getLayout().isIdentity())
    return kernel.emitOpError("kernel argument ")
           << index << ": expected a memref of static shape and identity layout, got "
           << kernel.getArgumentTypes()[index];
  if (!isStorable(type.getElementType()))
    return kernel.emitOpError("kernel argument ")
           << index
           << ": expected elements of i8, i16, i32, i64, index, f16, bf16, f32 or f64 (booleans "
              "are i8), got "
           << type.getElementType();
  return success();
}

/// (memref..., index, index) -> ()
LogicalResult checkSignature(func::FuncOp kernel) {
  FunctionType type = kernel.getFunctionType();
  unsigned count = type.getNumInputs();
  if (type.getNumResults() != 0)
    return kernel.emitOpError("expected a kernel without results, got ") << type.getNumResults();
  if (count < 2 || !type.getInput(count - 1).isIndex() || !type.getInput(count - 2).isIndex())
    return kernel.emitOpError(
        "expected the kernel's last two arguments to be its range, both of type index");
  for (unsigned index = 0; index + 2 < count; ++index)
    if (failed(checkBuffer(kernel, index)))
      return failure();
  return success();
}

/// The kernel and every symbol that it needs, in the order of the module.
FailureOr<SmallVector<Operation *>> closure(func::FuncOp kernel, SymbolTable &symbols) {
  llvm::SetVector<Operation *> needed;
  needed.insert(kernel);
  for (unsigned next = 0; next < needed.size(); ++next) {
    auto uses = SymbolTable::getSymbolUses(needed[next]);
    if (!uses)
      return kernel.emitOpError("uses symbols in ops that are not known");
    for (SymbolTable::SymbolUse use : *uses) {
      Operation *symbol = symbols.lookup(use.getSymbolRef().getRootReference());
      if (!symbol)
        return use.getUser()->emitOpError("refers to unknown symbol ") << use.getSymbolRef();
      needed.insert(symbol);
    }
  }
  SmallVector<Operation *> ordered;
  for (Operation &op : *kernel->getBlock())
    if (needed.contains(&op))
      ordered.push_back(&op);
  return ordered;
}

} // namespace

FailureOr<std::vector<Unit>> splitKernels(ModuleOp kernels) {
  std::vector<Unit> units;
  SymbolTable symbols(kernels);
  bool failedAny = false;
  for (auto kernel : kernels.getOps<func::FuncOp>()) {
    if (kernel.isExternal() || kernel.isPrivate())
      continue;
    if (failed(checkSignature(kernel))) {
      failedAny = true;
      continue;
    }
    auto needed = closure(kernel, symbols);
    if (failed(needed)) {
      failedAny = true;
      continue;
    }
    Unit unit;
    unit.name = kernel.getSymName().str();
    llvm::raw_string_ostream stream(unit.text);
    // Numbered by themselves: the module around would be gone through for each.
    for (Operation *op : *needed) {
      op->print(stream, OpPrintingFlags().assumeVerified().useLocalScope());
      stream << '\n';
    }
    units.push_back(std::move(unit));
  }
  if (failedAny)
    return failure();
  return units;
}

} // namespace autopar::cpu
