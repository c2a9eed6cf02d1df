// SPDX-License-Identifier: Apache-2.0
// What the search decided, as a value: meshes, stages, how every op and value is sharded, time
// split, recomputation, schedule, and what the search believed about it. Read from and written to
// JSON that people may edit; edits pass the same verifier.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autopar/Base/Status.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/Mesh.h"

namespace autopar {

/// Mesh axes that one dimension (or factor) is split over, outermost first; empty = not split.
using AxisList = std::vector<std::string>;

/// How a value lies on a mesh.
struct ValueSharding {
  std::vector<AxisList> dims; ///< one per dimension
  bool operator==(const ValueSharding &) const = default;
};

/// How an op is run: one axis list per factor of its sharding rule.
struct OpStrategy {
  std::vector<AxisList> factors;
  bool operator==(const OpStrategy &) const = default;
};

/// A run of ops on one mesh. Meshes of different stages are disjoint or identical.
struct PlanStage {
  std::string name;
  std::string mesh;
  std::vector<std::string> ops; ///< empty in a plan of one stage: all ops
  bool operator==(const PlanStage &) const = default;
};

struct PlanAlternative {
  std::string change; ///< in words: "fc1: split over t forbidden"
  double stepUs = 0;
  bool operator==(const PlanAlternative &) const = default;
};

/// A part of the believed step time. The parts of a plan add up to its step.
struct CostTerm {
  std::string
      kind; ///< "compute", "recompute", "copy", "waiting", or a collective: "all_reduce", ...
  std::vector<std::string> axes; ///< of a collective
  double us = 0;
  int64_t bytes = 0; ///< that a rank of a collective holds, all of its runs together
  bool operator==(const CostTerm &) const = default;
};

/// What a device's memory holds at its believed peak, in bytes.
struct MemoryParts {
  int64_t parameters = 0;
  int64_t optimizer = 0;   ///< state that steps hand on
  int64_t gradients = 0;   ///< of parameters
  int64_t activations = 0; ///< of the forward pass, for all micro-batches in flight
  int64_t workspace = 0;   ///< inputs, constants and what the backward pass and the update pass on
  int64_t total() const { return parameters + optimizer + gradients + activations + workspace; }
  bool operator==(const MemoryParts &) const = default;
};

/// What an axis divides: shares of the time of a step's operations on samples.
struct AxisUse {
  std::string axis;
  double samples = 0;   ///< of the batch: data parallelism
  double positions = 0; ///< in a sequence: context or sequence parallelism
  double experts = 0;   ///< networks side by side: expert parallelism
  double model = 0;     ///< anything else of the model: tensor parallelism
  bool operator==(const AxisUse &) const = default;
};

/// Parameters and state of the optimizer in the memory of devices of a mesh: into how many parts
/// they are cut over axes over which parameters are gathered to be used, on average of the bytes
/// (1: as they are used; else as ZeRO has them, Rajbhandari et al. 2020), and the bytes that a rank
/// would hold without that.
struct StateParts {
  int64_t parameters = 0, optimizer = 0;
  double parameterParts = 1, optimizerParts = 1;
  bool operator==(const StateParts &) const = default;
};

/// What the search thought; never read back by a pass.
struct PlanBelief {
  double stepUs = 0;
  double lowerBoundUs = 0;
  double kernelsUs = 0; ///< the step of the kernels that the plan becomes; 0: not known so far
  int64_t inParts = 0;  ///< operations that it computes in two parts, which communicate in turn
  std::vector<int64_t> peakBytes; ///< per mesh, per device
  std::string engine;
  std::string stoppedBy;
  std::vector<PlanAlternative> alternatives;
  std::vector<CostTerm> time;      ///< of the busiest mesh
  std::vector<MemoryParts> memory; ///< per mesh
  double recomputeUs = 0;          ///< of the step, for what is recomputed
  int64_t savedBytes = 0;          ///< of the peak, by what is recomputed
  int64_t memoryLimit = 0;         ///< bytes that a device may hold; 0: not known
  std::vector<AxisUse> axes;       ///< of all meshes
  std::vector<StateParts> state;   ///< per mesh
  bool operator==(const PlanBelief &) const = default;
};

struct Plan {
  std::string clusterName;
  int64_t deviceCount = 0; ///< of the cluster that it was made for
  std::vector<Mesh> meshes;
  std::vector<PlanStage> stages;
  std::map<std::string, OpStrategy> ops;       ///< by op id
  std::map<std::string, ValueSharding> values; ///< by parameter name, or op id ("op#1": 2nd result)
  int64_t microBatches = 1;
  /// In how many parts the experts of mixtures without capacity are (autopar-part-experts).
  int64_t expertParts = 1;
  std::string schedule = "none"; ///< "none", "gpipe", "1f1b", ...
  std::vector<std::string> recompute;
  std::vector<std::string> offload; ///< state that lies in host memory
  /// Operations of the forward pass whose results wait in host memory for the backward pass.
  std::vector<std::string> offloadActivations;
  PlanBelief believed;

  const Mesh *findMesh(std::string_view meshName) const;

  /// The meshes in the order in which stages take turns on them, all with the axes of all of them:
  /// one that a mesh does not have is of size 1 there. BadInput where stages take no turns on all
  /// of them, or axes stand in different orders.
  Result<std::vector<Mesh>> stageMeshes() const;

  /// Mesh, stage and axis rules; names the first violation and its place.
  Status verify() const;
  /// verify(), and that the meshes fit `cluster`.
  Status verify(const Cluster &cluster) const;

  /// JSON text with `"kind": "autopar.plan", "version": 1`; equal plans give equal text.
  std::string toJson() const;
  /// Parsed and verified.
  static Result<Plan> fromJson(std::string_view text);
  static Result<Plan> load(const std::string &path);
  Status save(const std::string &path) const;

  bool operator==(const Plan &) const = default;
};

} // namespace autopar
