// SPDX-License-Identifier: Apache-2.0
// The bridge between IR and planner: the sharding of one function on one mesh as a cost graph, and
// a choice of strategies as a plan.
#pragma once

#include "ComputedAgain.h"
#include "PipelineModel.h"

#include "Cost/KernelTraffic.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/Mesh.h"
#include "autopar/Plan/Plan.h"
#include "autopar/Planner/CostGraph.h"
#include "autopar/Transforms/ReshardPlan.h"
#include "autopar/Transforms/StageMeshes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// One function on one mesh, as the planner sees it. Node order: arguments, operations in block
/// order, results.
class ShardingProblem {
public:
  /// `outline` outlives it; `schedule` is that of its function; `meshes` are those that its stages
  /// take turns on, with the same axes by name. Where `largestShare` is less than 1 the function
  /// has no stages yet: its memory is guessed as if one had that share of everything, and of what
  /// waits for the backward pass as many times that, up to the number of micro-batches, as
  /// `assumedInFlight` says. What is computed `again`, which outlives it too, takes its time twice
  /// and is not kept. Of gathers and reductions that go on beside what computes, `waitedShare` is
  /// waited for; 0: what that does not hide.
  ShardingProblem(const StepOutline &outline, const ::autopar::Schedule &schedule,
                  std::vector<::autopar::Mesh> meshes, const ::autopar::Cluster &cluster,
                  double assumedInFlight = 1, double largestShare = 1,
                  const ComputedAgain *again = nullptr, double waitedShare = 0);

  /// The share on the first mesh.
  double waitedShare() const { return sites.front().waitedShare; }
  /// Counts anew what is waited for, as if made with this share. Not where it decides what else
  /// goes on beside what computes (overlapsParts).
  void wait(double waitedShare);
  /// Whether activations are exchanged beside what computes too, where it is said how much is
  /// waited for: inference, which can be computed in parts (autopar-overlap-parts).
  bool overlapsParts() const {
    return meshes.size() == 1 && !sites.front().device->communicatesWhileIdle &&
           !outline.phases().trains();
  }
  /// BadInput where a measured operation has only sizes that nobody measured.
  const ::autopar::Status &status() const { return problem; }
  const ::autopar::CostGraph &graph() const { return costGraph; }
  ::autopar::CostGraph &graph() { return costGraph; }
  /// The plan that a choice (one strategy per node) means; `believed` is left empty.
  ::autopar::Plan toPlan(ArrayRef<int32_t> choice) const;
  /// Microseconds of a step under a choice: the sum of all costs, or with pipeline stages, whose
  /// meshes work at the same time, that of the schedule.
  ::autopar::Result<double> stepUs(ArrayRef<int32_t> choice) const;
  /// Nodes: arguments, then operations, then results that are no arguments' next values. What each
  /// strategy of a node means.
  ArrayRef<TensorSharding> shardingsOfArgument(unsigned index) const {
    return lists[argumentLists[index]];
  }
  ArrayRef<FactorAxes> choicesOf(size_t position) const {
    return *strategies[argumentLists.size() + position];
  }
  /// The same for an operation's result.
  ArrayRef<TensorSharding> shardingsOf(OpResult result) const {
    return lists[sources.lookup(result).shardings];
  }
  ArrayRef<std::pair<Operation *, std::string>> operations() const { return outline.operations(); }
  func::FuncOp getFunction() const { return function; }
  const Stages &stages() const { return outline.stages(); }
  const DimensionRoles &roles() const { return outline.roles(); }
  /// The axes of all meshes, each with its largest size.
  const MeshAxes &meshAxes() const { return stageMeshes.ofStage(Stages::kNone); }
  /// Those of the mesh that a value is on.
  const MeshAxes &axesOf(Value value) const { return siteOf(stageOf(value)).axes; }
  /// Keeps a part of the memory limit free on one mesh.
  void reserve(int32_t mesh, int64_t bytes);
  bool isReserve(int32_t node) const { return node >= firstFollower && leaderOf(node) == node; }
  /// The resharding that edge `edge` stands for under a choice, step by step; `bytes` is what a
  /// rank's part of the collective holds, `us` the time, both for all micro-batches.
  void forEachStep(size_t edge, ArrayRef<int32_t> choice,
                   function_ref<void(const ReshardStep &, double bytes, double us)> call);
  /// How the value of an edge lies where it is made.
  const TensorSharding &sourceOfEdge(size_t edge, ArrayRef<int32_t> choice) const;
  const PipelineModel &pipelineModel() const { return pipeline; }
  ArrayRef<int32_t> nodesOfResults() const { return resultNodes; }
  ArrayRef<TensorSharding> shardingsOfResult(unsigned index) const {
    return lists[resultLists[index]];
  }
  /// Microseconds and bytes of every operation under a choice, as the pipeline's model takes them.
  ::autopar::Result<PipelineRun> runPipeline(ArrayRef<int32_t> choice) const;
  /// Microseconds that all stages together work once in a step, and for all micro-batches.
  std::pair<double, double> onceAndEachUs(ArrayRef<int32_t> choice) const;
  bool hasStages() const { return pipeline.meshes() > 1; }
  /// How the choices of `plan`, which may be of another cut of the same function, are called here:
  /// one per node, -1 where the plan does not say.
  std::vector<int32_t> choiceOf(const ::autopar::Plan &plan) const;
  /// Nodes behind the results hold what operations give beside their first result; each is run as
  /// its operation is. The node of the operation; any other node itself.
  int32_t leaderOf(int32_t node) const {
    return node < firstFollower ? node : followed[node - firstFollower];
  }

private:
  /// How a value may change on the way into an operation.
  enum class Change {
    Any,
    CopyOrNone, ///< the first half of the strategies takes it as it lies, the second half a copy
    Reduction,  ///< a partial sum may be completed here or later
    Part,       ///< as it is held or a part of it: a larger copy would be a hold's
    Send,       ///< to a mesh of another shape, as it can be cut there
    None,       ///< it stays as it is made
  };
  /// Microseconds that a reduction costs more where it could also be done later: decides ties.
  static constexpr double kOtherPlace = 1e-3;

  struct Source {
    int32_t node;
    int32_t shardings;    ///< id of the list: the value's sharding under each strategy of the node
    bool isFixed = false; ///< it stays like that
  };

  /// What operations of one kind have in common on this mesh.
  struct OpKind {
    SmallVector<FactorAxes> choices;
    std::vector<::autopar::Strategy> strategies; ///< one per choice
    SmallVector<int32_t> operandLists, resultLists;
    /// Bytes of each result under each choice.
    SmallVector<std::vector<int64_t>> resultBytes;
    SmallVector<int64_t, 1> fixedResults; ///< that are not resharded
    Change operands = Change::Any;
  };

  /// Of collectives, and of the kernels that put what they move in order or take a part of it.
  struct ReshardTime {
    double collectiveUs = 0, kernelUs = 0;
  };

  /// What costs are of: meshes of the same sizes and device type share one. Of what is on no stage,
  /// and may be made on any mesh, there is one more where there are several.
  struct Site {
    MeshAxes axes;
    const ::autopar::Mesh *mesh;
    const ::autopar::DeviceType *device;
    std::map<std::vector<int8_t>, ::autopar::MeshGroup> groups;
    /// By type and members.
    DenseMap<std::tuple<const void *, int32_t, int32_t>, ReshardTime> reshardTimes;
    std::vector<std::optional<OpKind>> kinds; ///< by the outline's number
    double leftShare = 1;   ///< of what goes on beside what computes, what that does not hide
    double waitedShare = 1; ///< the same, as it is counted
  };

  void addSites();
  double findLeftShare(Site &site);
  int64_t stageOf(Value value) const { return outline.stages().of(value); }
  int32_t siteNumberOf(int64_t stage) const {
    return stage < 0 ? static_cast<int32_t>(sites.size()) - 1
                     : siteNumbers[stageMeshes.numberOf(stage)];
  }
  Site &siteOf(int64_t stage) { return sites[siteNumberOf(stage)]; }
  const Site &siteOf(int64_t stage) const { return sites[siteNumberOf(stage)]; }
  /// All ways to lay a value on the mesh, and the bytes that a rank then has of it.
  struct Layouts {
    int32_t list;
    std::vector<int64_t> bytes;
  };
  const Layouts &layoutsOf(RankedTensorType type, int64_t stage);
  bool changesShape(TransferOp op) const;
  /// Whether a value never changes, so that every mesh has it from the model.
  bool isFixed(Value value) const;

  int32_t intern(SmallVector<TensorSharding> list);
  OpKind makeKind(Operation *op, int64_t stage);
  static void addUnchanged(OpKind &kind);
  void addStages(::autopar::Plan &plan) const;
  void addArguments();
  void addOperation(size_t position);
  void addResults();
  /// `stage` is where the value is resharded.
  void connect(Value from, int32_t toNode, int32_t toShardings, int64_t stage,
               Change change = Change::Any, int64_t runs = 1, int64_t target = Stages::kNone,
               bool isAgain = false);
  struct Reshard;
  int32_t reshardMatrix(size_t edge, Change change);
  std::vector<double> costsOf(const Reshard &reshard, Change change);
  /// What a resharding counts: as often as it runs, collectives as far as they are waited for.
  double countedUs(const Reshard &reshard, ReshardTime time) const;
  double copiesOf(OpResult result) const;
  void addLives(::autopar::CostNode &node, OpResult result) const;
  bool isAgain(Operation *op) const { return again && again->isAgain(outline.positionOf(op)); }
  void addFollowers();
  void checkMeasured(Operation *op, const OpKind &kind);
  std::vector<double> timesOf(ArrayRef<int32_t> choice) const;
  ::autopar::LiveInterval onMesh(Value value, ::autopar::LiveInterval live) const;
  ReshardTime stepTime(RankedTensorType type, const TensorSharding &before, const ReshardStep &step,
                       Site &site, double &bytes);
  ReshardTime reshardTime(RankedTensorType type, const TensorSharding &from,
                          const TensorSharding &to, Site &site);
  double opTimeUs(Operation *op, const ShardingRule &rule, const FactorAxes &axes,
                  const KernelTraffic &traffic, Site &site);
  const ::autopar::MeshGroup &groupOf(const AxisList &axes, Site &site);
  /// How a value of an edge lies before and after it is resharded.
  std::pair<TensorSharding, TensorSharding>
  endsOf(const Reshard &reshard, const TensorSharding &from, const TensorSharding &to) const;
  int32_t memberId(const TensorSharding &sharding);
  void markRepeatedBlocks();

  const StepOutline &outline;
  mutable func::FuncOp function; ///< a handle; only read
  std::vector<::autopar::Mesh> meshes;
  StageMeshes stageMeshes;
  std::vector<Site> sites;
  SmallVector<int32_t> siteNumbers; ///< per mesh
  const ::autopar::Cluster &cluster;
  ::autopar::CostGraph costGraph;

  std::vector<SmallVector<TensorSharding>> lists; ///< by list id
  std::vector<SmallVector<int32_t>> listMembers;  ///< the same, as numbers of different shardings
  std::map<SmallVector<int32_t>, int32_t> listIds;
  std::map<std::string, int32_t> memberIds;
  std::map<std::tuple<const void *, int32_t, int32_t, int64_t, Change, int32_t, int32_t, bool>,
           int32_t>
      matrices;
  DenseMap<Value, Source> sources;
  PipelineModel pipeline;
  double assumedInFlight;
  double largestShare;
  bool isWaitedShareGiven;
  const ComputedAgain *again;                              ///< null: nothing
  std::vector<const SmallVector<FactorAxes> *> strategies; ///< per node; null for no operation
  std::vector<int32_t> argumentLists, resultLists;         ///< list ids
  std::vector<int32_t> resultNodes;
  ::autopar::Status problem;
  int32_t firstFollower = 0;
  std::vector<int32_t> followed; ///< per follower the node of its operation

  /// What an edge of the graph stands for.
  struct Reshard {
    Value value;
    int32_t node;     ///< that makes it
    int32_t from, to; ///< ids of lists
    int64_t runs;
    int64_t stage;  ///< where it is resharded
    int64_t target; ///< the stage of another mesh's shape that it is sent to; kNone: none
    bool isBeside;  ///< a parameter that is gathered, or a gradient that is reduced
  };
  std::vector<Reshard> reshards; ///< one per edge
  /// Edges whose matrices were made for them: others are alike.
  SmallVector<std::pair<size_t, Change>> priced;
  std::map<std::pair<const void *, int64_t>, Layouts> layouts; ///< by type and stage
};

/// The names of axes, as plans have them.
::autopar::AxisList wordsOf(const AxisList &list, const MeshAxes &axes);

} // namespace mlir::autopar
