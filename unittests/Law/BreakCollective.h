// SPDX-License-Identifier: Apache-2.0
// Sabotage for testing the law's own test: one collective of a partitioned module is deleted or
// permuted, or a shard position falsified.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace autopar_law {

/// Breaks one collective or shard_index drawn from `seed`; says what was done, or nothing if the
/// module has none.
std::string breakCollective(mlir::ModuleOp module, uint64_t seed);

} // namespace autopar_law
