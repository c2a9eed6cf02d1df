// SPDX-License-Identifier: Apache-2.0
// Losses of a policy over tokens, for training behind the first one: from pairs of which one is
// preferred, and from advantages of what was sampled.
#pragma once

#include "autopar/Training/Losses.h"

namespace mlir::autopar {

/// dpo(logits, labels, reference, beta=0.1, label_smoothing=0): rows 2 i and 2 i + 1 of the batch
/// are the preferred text of a pair and the other one. `reference`: sums of the log-probabilities
/// of the labels by the model to stay near, one for each row.
::autopar::Result<Loss> dpoLoss(func::FuncOp function, ::autopar::Call &call, double ignored);

/// ppo(logits, actions, advantages, old, clip=0.2, clip_high=clip): `old` are log-probabilities of
/// the actions by the policy that sampled them. Both are of the shape of `actions`.
::autopar::Result<Loss> ppoLoss(func::FuncOp function, ::autopar::Call &call, double ignored);

} // namespace mlir::autopar
