// SPDX-License-Identifier: Apache-2.0
// MLIR's element types as those of artifacts and cost models.
#pragma once

#include "autopar/Base/DataType.h"
#include "mlir/IR/Types.h"

namespace mlir::autopar {

/// The type of integers and floats that verified tensors of our dialects hold.
::autopar::DataType dataTypeOf(Type element);

} // namespace mlir::autopar
