// SPDX-License-Identifier: Apache-2.0
// Attention under a causal mask whose rows are split among ranks: what it costs where each rank
// has a part early in the triangle and one late, so that none waits for the last. After the two
// chunks a rank of Llama 3's context parallelism (Grattafiori et al. 2024, section 3.3.2).
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/Mesh.h"
#include "autopar/Interfaces/ShardingRule.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::autopar {

/// The factor of attention, or its gradient, that is the rows of a triangle; nothing of another
/// operation.
std::optional<int64_t> triangleRowsFactor(Operation *op, const ShardingRule &rule);

/// Microseconds of attention, or its gradient, on local operands whose rows are one of `parts` of a
/// triangle's, where half of them and half of another rank's take its place: two calls, rows that
/// go there and results that come back. Nothing where rows cannot be halved. `group`: the ranks
/// that have the parts.
std::optional<double> balancedAttentionUs(Operation *op, ArrayRef<RankedTensorType> operands,
                                          ArrayRef<RankedTensorType> results, int64_t parts,
                                          const ::autopar::DeviceType &device,
                                          const ::autopar::MeshGroup &group);

} // namespace mlir::autopar
