// SPDX-License-Identifier: Apache-2.0
// The parts of registerExternalModels, one per dialect family.
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace mlir::autopar {

void registerLinalgModels(DialectRegistry &registry);
void registerTensorModels(DialectRegistry &registry);
void registerPrecisionModels(DialectRegistry &registry);

} // namespace mlir::autopar
