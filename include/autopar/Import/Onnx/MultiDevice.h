// SPDX-License-Identifier: Apache-2.0
// ONNX's own fields for several devices (ModelProto.configuration, NodeProto.device_configurations;
// IR 11 and up) as demands on a plan, and plans as these fields.
#pragma once

#include "autopar/Plan/Constraints.h"
#include "autopar/Plan/PlanDetails.h"

#include <string>

namespace mlir {
class MLIRContext;
}

namespace mlir::autopar {

/// What the model in the file `path` demands: the mesh, the number of pipeline stages, the stage of
/// each node that names one, and how parameters and inputs are split. A configuration is named by
/// its mesh ("data=2xtensor=2") where AutoPar wrote it; for others a mesh is found that every
/// sharding fits. `unread` is the number of shardings of other values, which say nothing that is
/// held. BadInput where there is no configuration, or more than one, or one for another number of
/// devices than `devices`.
::autopar::Result<::autopar::Constraints> readMultiDevice(const std::string &path, int64_t devices,
                                                          MLIRContext &context, size_t &unread);

/// Writes the model in the file `path` to `output` with the plan in these fields.
::autopar::Status writeMultiDevice(const std::string &path, const ::autopar::Plan &plan,
                                   const ::autopar::PlanDetails &details,
                                   const std::string &output);

} // namespace mlir::autopar
