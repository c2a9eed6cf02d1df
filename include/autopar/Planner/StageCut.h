// SPDX-License-Identifier: Apache-2.0
// Where a chain of layers is cut into pipeline stages and which sub-mesh runs each stage: an exact
// dynamic program under each sub-mesh's memory limit, activations in flight included. Sub-meshes
// may be of any sizes and device types. Plain numbers in, plain numbers out;
// docs/rationale/StageCut.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autopar/Base/Status.h"

namespace autopar {

/// What a range of layers costs as one stage on one sub-mesh; bytes are per device.
struct StageCost {
  double timeUs = 0;          ///< forward and backward of one micro-batch; kForbidden = cannot
  int64_t stateBytes = 0;     ///< held always: parameters, gradients, optimizer state
  int64_t savedBytes = 0;     ///< held per micro-batch in flight, from its forward to its backward
  int64_t workspaceBytes = 0; ///< held while one micro-batch is computed, once
};

/// A shape of sub-mesh that any number of stages may take.
struct SubMesh {
  std::string name;             ///< for people
  std::vector<int32_t> devices; ///< how many of each device type it takes
  int64_t memoryBytes = 0;      ///< per device; <= 0: no limit
  int32_t stagesAfter = -1;     ///< it is only for the stage with so many behind it; -1: for any
};

struct StageCutProblem {
  int32_t layers = 0;
  std::vector<int32_t> devices; ///< how many of each device type there are
  std::vector<SubMesh> subMeshes;
  /// Layers [begin, end) on subMeshes[subMesh]; asked once for each, in a fixed order. Transfers
  /// across the stage's two borders belong to its time.
  std::function<StageCost(int32_t begin, int32_t end, int32_t subMesh)> cost;
  int64_t microBatches = 1;
  /// Micro-batches in flight in a stage that has `stagesAfter` stages behind it; must not decrease.
  std::function<int64_t(int32_t stagesAfter)> inFlight;
  bool useAllDevices = false; ///< else devices may stay idle
  int32_t leastStages = 1;
  int32_t mostStages = 0; ///< 0: as many as there are layers
};

struct CutStage {
  int32_t begin = 0, end = 0; ///< layers [begin, end)
  int32_t subMesh = 0;
  int64_t inFlight = 0;    ///< micro-batches
  int64_t neededBytes = 0; ///< per device: state + workspace + inFlight * saved
  double timeUs = 0;       ///< of one micro-batch
};

struct StageCut {
  std::vector<CutStage> stages; ///< in the order of the layers
  double timeUs = 0;            ///< sum of stage times + (microBatches - 1) * slowest stage
  /// 0 when all stages fit. Else `stages` is the cut that misses the least, and with this much more
  /// memory per device it would fit; with any less no cut does.
  int64_t missingBytes = 0;
  int64_t programs = 0; ///< dynamic programs that were solved
};

/// The fastest cut that fits, or the one that misses the least memory. BadInput for malformed
/// problems and where no cut exists whatever the memory.
Result<StageCut> cutStages(const StageCutProblem &problem);

/// Stages that take turns on meshes: stage s on mesh s % meshes.
struct TurnCutProblem {
  int32_t layers = 0;
  int32_t stages = 1, meshes = 1; ///< the second divides the first
  int64_t microBatches = 1;
  /// Layers [begin, end) as this stage: a micro-batch's forward and backward, at least 0;
  /// kForbidden = cannot be.
  std::function<double(int32_t begin, int32_t end, int32_t stage)> timeUs;
};

struct TurnCut {
  std::vector<int32_t> begins; ///< the first layer of each stage
  /// microBatches * busiest mesh + (meshes - 1) * slowest stage (Narayanan et al., "Efficient
  /// large-scale language model training on GPU clusters", SC 2021, section 2.2)
  double timeUs = 0;
};

/// A fast cut whose stages take turns: what a mesh does in all of its turns counts, so a turn may
/// be long where another is short. The most even stages, then borders move while that helps; not
/// always the fastest. BadInput where no cut is allowed.
Result<TurnCut> cutTurns(const TurnCutProblem &problem);

} // namespace autopar
