// SPDX-License-Identifier: Apache-2.0
// Gradients of the dialect's operations, as external models: differentiation is a part of its own
// that the dialect does not depend on.
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace mlir::autopar {

/// Attaches GradientOpInterface to every operation of the dialect through which a gradient can
/// pass.
void registerGradientModels(DialectRegistry &registry);

} // namespace mlir::autopar
