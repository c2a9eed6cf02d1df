// SPDX-License-Identifier: Apache-2.0
// What lowering reads where it lies. Costs count it as nothing, but where no strides can say what
// is seen and a copy is made (Cost/ViewCopies.h).
#pragma once

#include "mlir/IR/Operation.h"

namespace mlir::autopar {

/// Bytes to which the arguments of kernels are aligned.
constexpr int64_t kKernelAlignment = 64;

/// Whether an operation, or a group of such, only says where elements of its operand are: what
/// reads it through strides, or as it lies, needs no copy.
bool isView(Operation *op);

} // namespace mlir::autopar
