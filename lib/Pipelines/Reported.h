// SPDX-License-Identifier: Apache-2.0
// Where a room of diagnostics meets one of statuses.
#pragma once

#include "autopar/Base/Status.h"

namespace mlir::autopar {

/// Of what diagnostics have said already: there is nothing to add.
inline ::autopar::Status reported() { return ::autopar::Status::badInput(""); }

} // namespace mlir::autopar
