// SPDX-License-Identifier: Apache-2.0
// What passes through memory of an operation that will be part of a kernel. A search prices whole
// tensors, operation by operation, long before groups are formed; without this it would pay for
// every step of a chain.
#pragma once

#include "mlir/IR/Operation.h"

namespace mlir::autopar {

/// A cheap operation whose result is computed inside its users: no memory traffic of its own.
bool livesInUsers(Operation *op);

/// Shares of the bytes of an operation's operands and results that its kernel reads and writes.
struct KernelTraffic {
  /// Per operand: of what is computed in the kernel, the bytes that this is made of per byte of its
  /// own; 0 of what another operation of the kernel hands on.
  SmallVector<double, 4> reads;
  SmallVector<double, 2> writes; ///< per result: 0 of what is handed on, or stored by a product

  bool operator==(const KernelTraffic &) const = default;
};

/// By the rules that groups are formed by, as far as one operation and its neighbours tell.
KernelTraffic kernelTrafficOf(Operation *op);

} // namespace mlir::autopar
