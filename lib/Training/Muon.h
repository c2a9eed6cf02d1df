// SPDX-License-Identifier: Apache-2.0
// Muon: matrices follow their momentum made orthogonal.
#pragma once

#include "autopar/Training/Optimizers.h"

namespace mlir::autopar {

/// Its ranges are checked by who calls.
std::unique_ptr<Optimizer> makeMuon(::autopar::Call &call);

} // namespace mlir::autopar
