// SPDX-License-Identifier: Apache-2.0
// C++ side of the gradient interface. `cotangents` has one entry per result: the derivative of the
// loss by it, of its type, or null where the loss does not depend on it. At least one is not null.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "autopar/Interfaces/GradientInterface.h.inc"
