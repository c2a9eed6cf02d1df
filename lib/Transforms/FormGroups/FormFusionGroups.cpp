// SPDX-License-Identifier: Apache-2.0
// The pass that wraps operations which become one kernel or library call into autopar.group. First
// library calls take their epilogues; then everything else that generates code is clustered, and
// clusters are spared bytes (StoreLess, JoinReductions); then the block is written anew, in an
// order in which every group can run at once.
#include "AccumulateScatters.h"
#include "Fusion/ContractionEpilogue.h"
#include "Fusion/FusionClusters.h"
#include "Fusion/RepeatInUsers.h"
#include "Fusion/SecondResults.h"

#include "autopar/Dialect/AutoPar/Gradients/ExpandGradients.h"
#include "autopar/Transforms/FewRows.h"
#include "autopar/Transforms/JoinedResults.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/ManyParts.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/TrainingEpilogues.h"
#include "mlir/IR/IRMapping.h"
#include <queue>

namespace mlir::autopar {
#define GEN_PASS_DEF_FORMFUSIONGROUPSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Whether a transposition is left to a library call that reads or writes strided views.
bool isStridedView(Operation *op) {
  if (!isa<TransposeOp>(op))
    return false;
  Value source = op->getOperand(0);
  while (auto reshape = source.getDefiningOp<ReshapeOp>())
    source = reshape.getInput();
  if (Operation *producer = source.getDefiningOp(); producer && isa<DotGeneralOp>(producer) &&
                                                    isLibraryContraction(producer) &&
                                                    source.hasOneUse())
    return true;
  SmallVector<Operation *> users(op->getUsers());
  bool feedsProduct = !users.empty();
  while (!users.empty()) {
    Operation *user = users.pop_back_val();
    if (isa<ReshapeOp>(user))
      llvm::append_range(users, user->getUsers());
    else
      feedsProduct &= isa<DotGeneralOp>(user) && isLibraryContraction(user);
  }
  return feedsProduct;
}

/// Leaves a concatenation alone, and the transposes in front of it, if the library call that
/// computes its parts may be able to write them there.
void closeJoinedResults(AttentionGradOp op, ClusterGraph &graph) {
  ConcatOp concat = concatOfResults(op);
  if (!concat)
    return;
  graph.close(concat.getOperation());
  for (Value part : concat.getInputs())
    for (Operation *view = part.getDefiningOp(); view != op;
         view = view->getOperand(0).getDefiningOp())
      if (isa<TransposeOp>(view))
        graph.close(view);
}

/// Writes the block anew: one unit per group, per operation that stays alone, and per fluid
/// operation that something outside of groups reads.
class BlockWriter {
public:
  BlockWriter(Block &block, ClusterGraph &graph, const DenseSet<Operation *> &contractions)
      : block(block), graph(graph), contractions(contractions) {}

  void write();

private:
  struct Unit {
    Cluster *cluster = nullptr; ///< a group or an operation alone
    Operation *fluid = nullptr; ///< or a fluid operation on its own
    ArrayRef<Operation *> operations() const {
      return cluster ? ArrayRef<Operation *>(cluster->ops) : ArrayRef<Operation *>(fluid);
    }
    SmallVector<unsigned> users; ///< units that wait for this one
    unsigned waitsFor = 0;
    int64_t position = 0;
    /// Computed from parameters and state alone, so it could run at any time.
    bool isLazy = true;
    bool isWritten = false;
    SmallVector<unsigned> lazyInputs; ///< lazy units that this one reads
  };

  bool isGroup(const Cluster &cluster) const {
    return !cluster.isClosed || contractions.contains(cluster.ops.front());
  }
  /// The cluster that an operation is written with; null for fluid operations on their own.
  Cluster *clusterOf(Operation *op) const {
    Cluster *widening = widenedIn.lookup(op);
    return widening ? widening : graph.clusterOf(op);
  }
  /// Whether an operation reads buffers, and repeats nothing of what makes them.
  bool readsBuffers(Operation *op) const {
    Cluster *cluster = graph.clusterOf(op);
    return !graph.isFluidHere(op) && (!cluster || !isGroup(*cluster));
  }
  bool readsInside(Value value, const Cluster &cluster) const;
  void collectInputs(const Cluster &cluster, llvm::SetVector<Value> &inputs) const;
  void collectInputs(Value value, const Cluster &cluster, llvm::SetVector<Value> &inputs) const;
  llvm::SetVector<Value> readsOf(Operation *op) const;
  void createUnits(ArrayRef<Operation *> ops);
  int64_t positionOf(const Cluster &cluster) const;
  bool isKept(BlockArgument argument) const;
  void findLazyUnits();
  /// Operations of one unit have one key.
  void *keyOf(Operation *op) const {
    Cluster *cluster = clusterOf(op);
    return cluster ? static_cast<void *>(cluster) : op;
  }
  void writeUnit(Unit &unit);
  void writeGroup(Cluster &cluster);
  void writeFluid(Operation *op);
  Operation *wrap(ArrayRef<Operation *> ops, ArrayRef<Value> inputs, ArrayRef<Value> outputs);
  Value cloneInto(OpBuilder &builder, Value value, IRMapping &mapping);

  Block &block;
  ClusterGraph &graph;
  const DenseSet<Operation *> &contractions;
  std::vector<Unit> units;
  DenseMap<void *, unsigned> unitNumbers;
  DenseSet<Operation *> effects; ///< operations that have some
  DenseSet<Value> read;          ///< by units and the block's terminator
  /// Casts of what a cluster makes that are results of the function: the cluster stores them too.
  llvm::MapVector<Operation *, Cluster *> widenedIn;
  /// Of fluid operations that were written on their own. Others still read the first version: what
  /// a group repeats of them does not depend on what was written before it.
  DenseMap<Value, Value> written;
  SmallVector<Operation *> writtenFluids;
};

/// Whether a fluid value is made inside the group: it depends on one of the group's operations, or
/// on more than views of something outside.
bool BlockWriter::readsInside(Value value, const Cluster &cluster) const {
  while (Operation *op = value.getDefiningOp()) {
    if (!graph.isFluidHere(op))
      return graph.clusterOf(op) == &cluster;
    if (!isa<ReshapeOp>(op))
      return true;
    value = op->getOperand(0);
  }
  return false;
}

void BlockWriter::collectInputs(Value value, const Cluster &cluster,
                                llvm::SetVector<Value> &inputs) const {
  if (!readsInside(value, cluster)) {
    inputs.insert(value);
  } else if (Operation *op = value.getDefiningOp(); graph.isFluidHere(op)) {
    for (Value operand : op->getOperands())
      collectInputs(operand, cluster, inputs);
  }
}

/// What a group reads. A library call reads buffers: nothing is computed on the way into it.
void BlockWriter::collectInputs(const Cluster &cluster, llvm::SetVector<Value> &inputs) const {
  for (Operation *op : cluster.ops)
    for (Value operand : op->getOperands()) {
      if (contractions.contains(op))
        inputs.insert(operand);
      else
        collectInputs(operand, cluster, inputs);
    }
}

/// What has to be there before the cluster or fluid operation of `op` runs.
llvm::SetVector<Value> BlockWriter::readsOf(Operation *op) const {
  llvm::SetVector<Value> reads;
  Cluster *cluster = clusterOf(op);
  if (!cluster || !isGroup(*cluster)) {
    reads.insert(op->operand_begin(), op->operand_end());
    return reads;
  }
  collectInputs(*cluster, reads);
  return reads;
}

/// Behind the last operation: in the forward pass behind the last that it needs itself, whatever
/// the same kernel makes for the backward pass.
int64_t BlockWriter::positionOf(const Cluster &cluster) const {
  auto isForward = [&](Operation *op) {
    auto phase = op->getAttrOfType<StringAttr>("autopar.phase");
    return !(phase && phase.getValue() == "backward") && op->getNumResults() > 0 &&
           graph.isExported(op->getResult(0), cluster);
  };
  auto last = llvm::find_if(llvm::reverse(cluster.ops), isForward);
  return graph.positionOf(last == cluster.ops.rend() ? cluster.ops.back() : *last);
}

/// Creates the units that the block's results and effects need, and their dependences.
void BlockWriter::createUnits(ArrayRef<Operation *> ops) {
  DenseMap<void *, SmallVector<Value, 4>> needed; ///< by key, with what it reads
  SmallVector<Operation *> worklist;
  auto need = [&](Operation *op) {
    if (op && needed.try_emplace(keyOf(op)).second)
      worklist.push_back(op);
  };
  auto needValue = [&](Value value) {
    read.insert(value);
    need(value.getDefiningOp());
  };
  for (Operation *op : ops) {
    if (Cluster *cluster = graph.clusterThatWidens(op))
      widenedIn[op] = cluster;
    if (isMemoryEffectFree(op))
      continue;
    effects.insert(op);
    need(op);
  }
  llvm::for_each(block.getTerminator()->getOperands(), needValue);
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    llvm::SetVector<Value> reads = readsOf(op);
    needed[keyOf(op)].assign(reads.begin(), reads.end());
    llvm::for_each(reads, needValue);
  }
  for (Operation *op : ops) {
    if (!needed.contains(keyOf(op)) || !unitNumbers.try_emplace(keyOf(op), units.size()).second)
      continue;
    Unit &unit = units.emplace_back();
    unit.cluster = clusterOf(op);
    unit.fluid = unit.cluster ? nullptr : op;
    unit.position = unit.cluster ? positionOf(*unit.cluster) : graph.positionOf(op);
  }
  for (auto [number, unit] : llvm::enumerate(units))
    for (Value value : needed.at(unit.cluster ? static_cast<void *>(unit.cluster) : unit.fluid)) {
      if (Operation *producer = value.getDefiningOp())
        units[unitNumbers.lookup(keyOf(producer))].users.push_back(number);
      else
        unit.isLazy &= isKept(cast<BlockArgument>(value));
    }
  findLazyUnits();
}

/// Whether an argument is a parameter or state.
bool BlockWriter::isKept(BlockArgument argument) const {
  auto function = dyn_cast<func::FuncOp>(block.getParentOp());
  return function && (function.getArgAttr(argument.getArgNumber(), "autopar.origin") ||
                      function.getArgAttr(argument.getArgNumber(), "autopar.donated"));
}

/// A lazy unit runs right before the first one that reads it, as what is gathered for the backward
/// phase need not be there before; so nobody waits for it.
void BlockWriter::findLazyUnits() {
  auto hasEffect = [&](Operation *op) { return effects.contains(op); };
  SmallVector<unsigned> worklist;
  for (auto [number, unit] : llvm::enumerate(units)) {
    unit.isLazy &= llvm::none_of(unit.operations(), hasEffect);
    if (!unit.isLazy)
      worklist.push_back(number);
  }
  while (!worklist.empty())
    for (unsigned user : units[worklist.pop_back_val()].users)
      if (std::exchange(units[user].isLazy, false))
        worklist.push_back(user);
  for (auto [number, unit] : llvm::enumerate(units))
    for (unsigned user : unit.users)
      if (unit.isLazy)
        units[user].lazyInputs.push_back(number);
      else
        ++units[user].waitsFor;
}

Value BlockWriter::cloneInto(OpBuilder &builder, Value value, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    cloneInto(builder, operand, mapping);
  Operation *copy = builder.clone(*op, mapping);
  if (isFluid(op))
    copy->removeAttr("autopar.id");
  return mapping.lookup(value);
}

Operation *BlockWriter::wrap(ArrayRef<Operation *> ops, ArrayRef<Value> inputs,
                             ArrayRef<Value> outputs) {
  OpBuilder builder(block.getTerminator());
  Location loc = ops.back()->getLoc();
  auto typesOf = [](ArrayRef<Value> values) {
    return llvm::map_to_vector(values, [](Value value) { return value.getType(); });
  };
  auto group = GroupOp::create(
      builder, loc, typesOf(outputs),
      llvm::map_to_vector(inputs, [&](Value input) { return written.lookup_or(input, input); }));
  SmallVector<Type> types = typesOf(inputs);
  Block *body =
      builder.createBlock(&group.getBody(), {}, types, SmallVector<Location>(types.size(), loc));
  IRMapping mapping;
  mapping.map(inputs, body->getArguments());
  for (Operation *op : ops)
    cloneInto(builder, op->getResult(0), mapping);
  SmallVector<Value> yielded =
      llvm::map_to_vector(outputs, [&](Value value) { return mapping.lookup(value); });
  YieldOp::create(builder, loc, yielded);
  Operation *const *named = llvm::find_if(ops, meetsFewRows);
  if (named == ops.end())
    named = llvm::find_if(ops, [](Operation *op) { return !getOpId(op).empty(); });
  if (named != ops.end() && !getOpId(*named).empty())
    setOpId(group, getOpId(*named));
  return group;
}

void BlockWriter::writeGroup(Cluster &cluster) {
  llvm::SetVector<Value> inputs;
  SmallVector<Value> outputs;
  collectInputs(cluster, inputs);
  SmallVector<Operation *> ops = cluster.ops;
  for (auto [op, widening] : widenedIn)
    if (widening == &cluster)
      ops.push_back(op);
  for (Operation *op : ops)
    if (read.contains(op->getResult(0)))
      outputs.push_back(op->getResult(0));
  Operation *group = wrap(ops, inputs.getArrayRef(), outputs);
  for (auto [value, result] : llvm::zip_equal(outputs, group->getResults())) {
    if (!graph.isFluidHere(value.getDefiningOp())) {
      value.replaceAllUsesWith(result);
      continue;
    }
    // Groups read what is narrow.
    written[value] = result;
    value.replaceUsesWithIf(result, [&](OpOperand &use) { return readsBuffers(use.getOwner()); });
  }
}

void BlockWriter::writeFluid(Operation *op) {
  Operation *copy;
  if (isa<ReshapeOp>(op) || op->hasTrait<OpTrait::ConstantLike>()) {
    copy = OpBuilder(block.getTerminator()).clone(*op);
    for (OpOperand &operand : copy->getOpOperands())
      operand.set(written.lookup_or(operand.get(), operand.get()));
  } else {
    copy =
        wrap(op, llvm::to_vector(op->getOperands()), llvm::to_vector_of<Value>(op->getResults()));
  }
  writtenFluids.push_back(copy);
  for (auto [value, result] : llvm::zip_equal(op->getResults(), copy->getResults())) {
    written[value] = result;
    value.replaceUsesWithIf(result,
                            [&](OpOperand &use) { return !graph.isFluidHere(use.getOwner()); });
  }
}

/// Writes a unit behind the lazy ones that it reads.
void BlockWriter::writeUnit(Unit &unit) {
  if (std::exchange(unit.isWritten, true))
    return;
  for (unsigned input : unit.lazyInputs)
    writeUnit(units[input]);
  if (unit.cluster && isGroup(*unit.cluster))
    return writeGroup(*unit.cluster);
  if (unit.fluid)
    return writeFluid(unit.fluid);
  unit.cluster->ops.front()->moveBefore(block.getTerminator());
}

void BlockWriter::write() {
  SmallVector<Operation *> old =
      llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
  createUnits(old);
  // Ready units run in the order of their last operation.
  using Entry = std::pair<int64_t, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  for (auto [number, unit] : llvm::enumerate(units))
    if (unit.waitsFor == 0 && !unit.isLazy)
      ready.push({unit.position, number});
  DenseSet<Operation *> kept;
  while (!ready.empty()) {
    Unit &unit = units[ready.top().second];
    ready.pop();
    writeUnit(unit);
    for (unsigned user : unit.users)
      if (--units[user].waitsFor == 0)
        ready.push({units[user].position, user});
  }
  for (Unit &unit : units)
    writeUnit(unit); // what only the results of the function read
  for (Unit &unit : units)
    if (unit.cluster && !isGroup(*unit.cluster))
      kept.insert(unit.cluster->ops.front());
  llvm::append_range(old, writtenFluids);
  for (Operation *op : llvm::reverse(old))
    if (op->use_empty() && (!kept.contains(op) || isFluid(op)) && !effects.contains(op))
      op->erase();
}

struct FormFusionGroupsPass
    : public mlir::autopar::impl::FormFusionGroupsPassBase<FormFusionGroupsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<EpilogueMode> chosen = epilogueModeOf(getOperation(), activations);
    if (failed(chosen))
      return signalPassFailure();
    bool trains = target == Target::Cuda && *chosen == EpilogueMode::Automatic;
    // On one rank, which no partition has seen, a value lies in one way only.
    getOperation()->walk([](HoldOp hold) {
      hold.replaceAllUsesWith(hold.getInput());
      hold.erase();
    });
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    if (!function.getBody().hasOneBlock()) {
      function.emitOpError("expected one block: region operations must be lowered before");
      return signalPassFailure();
    }
    Block &block = function.getBody().front();
    accumulateScatters(block);
    repeatInUsers(block);
    // Later products first: an addition of two products is the epilogue of the second.
    SmallVector<Operation *> products;
    for (Operation &op : block)
      if (isLibraryContraction(&op))
        products.push_back(&op);
    Epilogues epilogues;
    DenseSet<Operation *> contractions, claimed;
    for (Operation *op : llvm::reverse(products)) {
      epilogues.push_back(matchContractionEpilogue(op, claimed, trains));
      contractions.insert(op);
    }
    markForGradients(epilogues, claimed);
    llvm::MapVector<DotGeneralOp, ReduceOp> sums = takeSums(block, epilogues, claimed);
    // What was left to a product that could not take it.
    auto isClaimed = [&](Operation *op) { return claimed.contains(op); };
    for (auto [result, parts] : expandGradients(block, isClaimed))
      result.getDefiningOp()->erase();
    ClusterGraph graph(block);
    for (ArrayRef<Operation *> ops : epilogues)
      graph.close(ops);
    for (auto [product, sum] : sums)
      graph.closeBoth(product, sum);
    for (Operation &op : block)
      if (isStridedView(&op) || (isa<TransposeOp>(op) && op.hasAttr(kLaidOut)))
        graph.close(&op);
    for (auto gradient : block.getOps<AttentionGradOp>())
      closeJoinedResults(gradient, graph);
    for (auto concat : block.getOps<ConcatOp>())
      if (hasManyParts(concat))
        graph.close(concat.getOperation());
    graph.grow();
    graph.storeLess();
    graph.joinReductions();
    BlockWriter(block, graph, contractions).write();
  }
};

} // namespace
