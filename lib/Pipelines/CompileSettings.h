// SPDX-License-Identifier: Apache-2.0
// What the options of a compilation mean for its passes: the cluster with what was measured on it,
// the kind of program, and what a plan or constraints demand.
#pragma once

#include "Beside.h"

#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/ProfileDatabase.h"
#include "autopar/Pipelines/Compile.h"
#include "autopar/Plan/Degrees.h"

namespace mlir::autopar {

class CompileSettings {
public:
  /// `options` outlives it.
  explicit CompileSettings(const CompileOptions &options);

  /// Reads what the options name; remarks go to the context's diagnostics.
  ::autopar::Status read(MLIRContext &context);
  /// A plan in degrees demands more once the samples of a step are known.
  ::autopar::Status settleBatch(std::optional<int64_t> samples);
  /// What the program beside this one demands, once parameters have the shapes that are sharded.
  ::autopar::Status settleBeside(func::FuncOp function);

  AutoShardOptions shard;
  LowerOptions lower;
  TrainOptions train;
  std::optional<::autopar::Cluster> cluster; ///< of the search
  std::optional<::autopar::ProfileDatabase> profile;
  std::optional<::autopar::Degrees> degrees; ///< where the plan is in degrees
  std::optional<ProgramBeside> beside;

private:
  int64_t deviceCount() const;
  ::autopar::Status readProfile();
  ::autopar::Status believeMeasurements();
  ::autopar::Status chooseCluster();
  ::autopar::Status openBeside();
  ::autopar::Status chooseTarget();
  ::autopar::Status readPlan(MLIRContext &context);
  ::autopar::Status readDegrees();
  ::autopar::Status checkDemandsOn(const ::autopar::Plan &plan);
  ::autopar::Status settleOffload();
  void settleDemands();

  const CompileOptions &options;
  ::autopar::Constraints demands;
};

} // namespace mlir::autopar
