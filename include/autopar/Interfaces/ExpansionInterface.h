// SPDX-License-Identifier: Apache-2.0
// C++ side of the expansion interface.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "autopar/Interfaces/ExpansionInterface.h.inc"
