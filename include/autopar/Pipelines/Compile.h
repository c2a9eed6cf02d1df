// SPDX-License-Identifier: Apache-2.0
// The whole way from a model file to compiled.bin: what autopar-compile does, callable.
#pragma once

#include "autopar/Base/ExtentRange.h"
#include "autopar/Base/Status.h"
#include "autopar/Cost/ProfileDatabase.h"
#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Plan/Constraints.h"

#include <functional>
#include <map>
#include <string>

namespace mlir {
class MLIRContext;
}

namespace mlir::autopar {

struct CompileOptions {
  std::string input;  ///< an ONNX model, a graph of measured operations (.json), or MLIR text
                      ///< (.mlir) that enters at `startAt`
  std::string output; ///< the artifact; or, with stopAfter, the MLIR text ("-": standard output,
                      ///< empty: nowhere)
  std::map<std::string, int64_t> bindings;        ///< symbolic dimension -> extent
  ::autopar::ExtentRanges ranges;                 ///< of extents that vary
  std::map<std::string, std::string> fixedInputs; ///< input -> the number that it always is
  int64_t ranks = 0;   ///< ranks of this machine; 0 where `cluster` says it; 1 without either
  std::string cluster; ///< cluster file or presets:NAME
  std::string profile; ///< profile database: the operations of a graph, times of collectives
  ::autopar::ProfileFallback profileFallback = ::autopar::ProfileFallback::None;
  std::string engine = "auto"; ///< search engine
  uint64_t seed = 1;
  std::string plan;     ///< plan file to replay instead of searching; in degrees: to search within
  std::string emitPlan; ///< where to write the plan
  std::string report;   ///< where to write the plan as an HTML page
  std::string trace;    ///< where to write its step as a Chrome/Perfetto trace
  std::string emitOnnxPlan;      ///< where to write the model with the plan in ONNX's own fields
  bool useOnnxShardings = false; ///< ONNX's own fields for several devices are demands
  std::string emitAlternatives;  ///< folder for the best plans without the dearest choices
  bool copyWeights = false;      ///< beside the artifact: `output`.weights
  std::string beside;      ///< artifact whose parameters and state this one is to hold in common
  int64_t memoryLimit = 0; ///< bytes per rank; 0: the cluster's, or any
  int64_t threads = 0; ///< per rank, that scratch is planned for; 0: as many as each rank of this
                       ///< machine has cores, or one on a cluster
  bool packWeights = true;
  ::autopar::Constraints constraints; ///< stages, micro-batches, schedule, mesh, shardings
  std::vector<std::string> carry;     ///< OUTPUT=INPUT: what stays from step to step
  TrainOptions train;                 ///< for a training step instead of inference
  PrecisionOptions precision;
  std::string target; ///< cpu or cuda; empty: what the devices of the cluster are, else cpu
  std::string targetCpu = "native";
  bool optimizesKernels = true; ///< of the CPU; false: compiled in a quarter of the time, slow
  std::string rounds = "auto";  ///< auto, always or never: autopar/Plan/ScheduleRounds.h
  std::string attention =
      "auto"; ///< auto, fused or products: autopar/Transforms/LibraryAttention.h
  std::string convolutions =
      "auto"; ///< on GPUs, auto or kernels: autopar/Transforms/LibraryConvolution.h
  std::string activationGradients =
      "auto"; ///< on GPUs, auto or kernels: autopar/Transforms/TrainingEpilogues.h
  std::string biasGradients = "auto"; ///< likewise
  std::string emitMlir;               ///< folder for the IR after each phase
  Phase startAt = Phase::Import;
  Phase stopAfter = Phase::Emit;
  /// Called before each phase that runs: its number, how many there are, what it does.
  std::function<void(size_t number, size_t count, const PhaseInfo &)> onPhase;
  /// Called with what is being tried within a phase.
  std::function<void(const std::string &)> onDetail;
};

/// What came out, for the summary and for --explain.
struct CompileResult {
  std::string plan; ///< JSON; empty without a search
  int64_t ranks = 1;
  int64_t deviceBytes = 0; ///< planned arena per rank
  int64_t hostBytes = 0;   ///< the same, of what is offloaded
  int64_t kernels = 0;
  int64_t artifactBytes = 0;
  int64_t sharedBytes = 0; ///< of deviceBytes, what is held together with `beside`
};

/// Compiles. A Status without a message means that diagnostics of `context` have said why. Nothing
/// is written to `output` unless everything succeeded.
::autopar::Result<CompileResult> compileModel(const CompileOptions &options, MLIRContext &context);

/// The plan in words: mesh, believed time and memory, how parameters are split, what was rejected.
std::string explainPlan(StringRef planJson);

} // namespace mlir::autopar
