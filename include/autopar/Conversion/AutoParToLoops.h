// SPDX-License-Identifier: Apache-2.0
// Kernels from groups: each fusion group (or single operation) becomes one function of loops over
// flat buffers, by asking every operation for its element and substituting.
#pragma once

#include "autopar/Transforms/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace mlir::autopar {

/// Attaches element lowering or kernel lowering to every autopar operation that generates code, and
/// registers the dialects that kernels consist of (arith, math, memref, scf, func).
void registerLoweringModels(DialectRegistry &registry);

/// Of a kernel for CUDA: array<i64: blocks, threads of a block, dynamic shared bytes>.
constexpr StringRef kGridAttribute = "autopar.grid";

/// Emits the kernel of `groupOrOp` (an autopar.group, or one operation with an element or kernel
/// lowering) as function `name` at the end of `kernels`:
///
///   func @name(memref inputs in operand order..., memref outputs in result order..., %begin:
///   index,
///              %end: index)
///
/// The memrefs are flat (memref<nxT>, row-major elements, bare addresses). Element types are those
/// of the tensors, but i1 is i8 (0 or 1) and unsigned integers are signless. An operand that
/// appears twice is passed twice. Inputs and outputs do not overlap, but where `inPlace[i]` is an
/// input (else -1), output i is stored over it; mayStoreOver() says whether that can be. The
/// function computes iterations [begin, end) of [0, extent), which are independent of one another.
///
/// For CUDA the function is what one thread does: it has no range, asks the gpu dialect where it
/// is, may share memory of the address space "workgroup" with its block, and carries its grid.
///
/// Fails with a diagnostic on the operation if it cannot become one kernel.
FailureOr<func::FuncOp> emitKernel(Operation *groupOrOp, ModuleOp kernels, StringRef name,
                                   int64_t &extent, ArrayRef<int64_t> inPlace = {},
                                   Target target = Target::Cpu);

} // namespace mlir::autopar
