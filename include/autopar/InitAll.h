// SPDX-License-Identifier: Apache-2.0
// The only list of what AutoPar registers: dialects, extensions, passes and pipelines. Tools, the
// plugin and other compilers call these.
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace mlir::autopar {

/// Adds AutoPar's dialects, the dialects that its passes create, and its external models.
void registerAllDialects(DialectRegistry &registry);
/// Registers AutoPar's passes under their command-line names.
void registerAllPasses();
/// Registers AutoPar's pipelines (`--auto-shard`, ...).
void registerAllPipelines();

} // namespace mlir::autopar
