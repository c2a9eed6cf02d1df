// SPDX-License-Identifier: Apache-2.0
// The pass autopar-partition: one walk that maps every whole value to its local one.
#include "Sharding/StrategyContext.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/ReshardPlan.h"
#include "autopar/Transforms/StageMeshes.h"
#include "autopar/Transforms/Stages.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_PARTITIONPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

//===-- Small building blocks on local values ------------------------------------------------===//

static Value shardIndexAlong(OpBuilder &builder, Location loc, const AxisList &axes,
                             const MeshAxes &mesh) {
  if (mesh.shards(axes) == 1)
    return i64Scalar(builder, loc, 0);
  auto type = RankedTensorType::get({}, builder.getI64Type());
  return ShardIndexOp::create(builder, loc, type, mesh.symbol, mesh.toAttr(axes));
}

static RankedTensorType withDim(RankedTensorType type, int64_t dim, int64_t extent) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = extent;
  return RankedTensorType::get(shape, type.getElementType());
}

/// The first `extent` positions of a dimension.
static Value trim(OpBuilder &builder, Location loc, Value value, int64_t dim, int64_t extent) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getDimSize(dim) == extent)
    return value;
  return SliceOp::create(builder, loc, withDim(type, dim, extent), value,
                         SmallVector<int64_t>(type.getRank(), 0),
                         SmallVector<int64_t>(type.getRank(), 1));
}

/// Replaces positions of `dim` at or past the valid extent of this shard by the identity of
/// `reduction`. `extent` is the whole extent.
static Value maskPadding(OpBuilder &builder, Location loc, Value value, int64_t dim, int64_t extent,
                         Value shardIndex, ReductionKind reduction) {
  auto type = cast<RankedTensorType>(value.getType());
  auto lineType = RankedTensorType::get({type.getDimSize(dim)}, builder.getI64Type());
  auto broadcast = [&](Value scalar) {
    return BroadcastOp::create(builder, loc, lineType, scalar, ArrayRef<int64_t>{});
  };
  Value offset = BinaryOp::create(builder, loc, BinaryKind::Mul, shardIndex,
                                  i64Scalar(builder, loc, type.getDimSize(dim)));
  Value valid =
      BinaryOp::create(builder, loc, BinaryKind::Sub, i64Scalar(builder, loc, extent), offset);
  Value position = IotaOp::create(builder, loc, lineType, 0);
  Value inside = CompareOp::create(builder, loc, lineType.clone(builder.getI1Type()),
                                   ComparePredicate::Lt, position, broadcast(valid));
  Value mask = BroadcastOp::create(builder, loc, type.clone(builder.getI1Type()), inside,
                                   ArrayRef<int64_t>{dim});
  return SelectOp::create(builder, loc, mask, value, buildIdentity(builder, loc, type, reduction));
}

//===-- Resharding ---------------------------------------------------------------------------===//

namespace {

/// Emits the steps of one resharding on local values.
class ReshardEmitter {
public:
  ReshardEmitter(OpBuilder &builder, ReshardOp op, const MeshAxes &mesh)
      : builder(builder), loc(op.getLoc()), id(getOpId(op)), global(op.getType()),
        isEach(op->hasAttr(MicroBatches::everyTime)), mesh(mesh) {}

  Value emit(Value value, const TensorSharding &from, const TensorSharding &to) {
    TensorSharding current = from;
    for (const ReshardStep &step : planReshard(global.getShape(), from, to, mesh)) {
      value = emitStep(value, step, current.reduction);
      mark(value);
      current = step.after;
    }
    return value;
  }

private:
  /// What makes the value belongs to the resharding.
  void mark(Value value) {
    Operation *op = value.getDefiningOp();
    if (op && !id.empty() && getOpId(op).empty())
      setOpId(op, id);
    if (op && isEach)
      op->setAttr(MicroBatches::everyTime, builder.getUnitAttr());
  }

  Value emitStep(Value value, const ReshardStep &step, ReductionKind reduction) {
    using Kind = ReshardStep::Kind;
    auto type = cast<RankedTensorType>(value.getType());
    RankedTensorType after = localType(global, step.after, mesh);
    ArrayAttr axes = mesh.toAttr(step.axes);
    int64_t shards = mesh.shards(step.axes);
    auto kind = static_cast<ReduceKind>(reduction);
    switch (step.kind) {
    case Kind::AllReduce:
      return AllReduceOp::create(builder, loc, type, kind, value, mesh.symbol.getValue(), axes);
    case Kind::ReduceScatter: {
      int64_t padded = after.getDimSize(step.dim) * shards;
      if (padded != type.getDimSize(step.dim)) {
        Value zero = ConstantOp::create(
            builder, loc,
            DenseElementsAttr::get(RankedTensorType::get({}, type.getElementType()),
                                   identityOf(reduction, type.getElementType())));
        value = PadOp::create(builder, loc, withDim(type, step.dim, padded), value, zero,
                              SmallVector<int64_t>(type.getRank(), 0));
      }
      return ReduceScatterOp::create(builder, loc, after, kind, value, step.dim,
                                     mesh.symbol.getValue(), axes);
    }
    case Kind::AllGather: {
      RankedTensorType joined = withDim(type, step.dim, type.getDimSize(step.dim) * shards);
      Value gathered =
          AllGatherOp::create(builder, loc, joined, value, step.dim, mesh.symbol.getValue(), axes);
      mark(gathered);
      return trim(builder, loc, gathered, step.dim, after.getDimSize(step.dim));
    }
    case Kind::AllToAll:
      return AllToAllOp::create(builder, loc, after, value, step.dim, step.concatDim,
                                mesh.symbol.getValue(), axes);
    case Kind::Slice:
      return buildOwnShard(builder, loc, value, step.dim, after.getDimSize(step.dim), mesh.symbol,
                           axes);
    case Kind::Mask:
      return buildInFirst(builder, loc, value, shardIndexAlong(builder, loc, step.axes, mesh),
                          step.after.reduction);
    }
    return {};
  }

  OpBuilder &builder;
  Location loc;
  StringRef id;
  RankedTensorType global;
  bool isEach; ///< in every micro-batch
  const MeshAxes &mesh;
};

//===-- Operations ---------------------------------------------------------------------------===//

/// A rank knows its position along the axes of a mesh.
class RankContext : public StrategyContext {
public:
  using StrategyContext::StrategyContext;

  Value shardIndex(OpBuilder &builder, Location loc, int64_t factor) override {
    return shardIndexAlong(builder, loc, axes[factor], mesh);
  }
};

/// What is on no stage gets a local form for every mesh that reads it.
class Partitioner {
public:
  Partitioner(func::FuncOp function, const StageMeshes &meshes)
      : function(function), meshes(meshes), stages(function), builder(function.getContext()),
        mappings(meshes.count()) {}

  LogicalResult run() {
    Block &block = function.getBody().front();
    SmallVector<Operation *> originals =
        llvm::map_to_vector(block, [](Operation &op) { return &op; });
    findReaders();
    unsigned wholeArguments = block.getNumArguments();
    builder.setInsertionPointToEnd(&block);
    if (failed(localizeArguments()))
      return failure();
    for (Operation *op : originals)
      if (op->hasTrait<OpTrait::IsTerminator>()) {
        if (failed(localizeResults(op)))
          return failure();
      } else if (auto transfer = dyn_cast<TransferOp>(op)) {
        if (failed(localizeTransfer(transfer)))
          return failure();
      } else {
        for (int64_t mesh : meshesOf(op->getResults(), stages.of(op)))
          if (failed(localize(op, mesh)))
            return failure();
      }
    for (Operation *op : llvm::reverse(originals))
      op->erase();
    block.eraseArguments(0, wholeArguments);
    finishSignature();
    return success();
  }

private:
  //===-- What is on no stage ----------------------------------------------------------------===//

  void addReader(Value value, int64_t mesh) {
    SmallVector<int64_t> &list = readers[value];
    if (!llvm::is_contained(list, mesh))
      list.push_back(mesh);
  }

  void findReaders() {
    if (meshes.count() == 1)
      return; // which makes everything
    Block &block = function.getBody().front();
    for (Value value : block.getTerminator()->getOperands())
      addReader(value, 0);
    for (Operation &op : llvm::reverse(block.without_terminator()))
      for (Value operand : op.getOperands())
        for (int64_t mesh : meshesOf(op.getResults(), stages.of(&op)))
          addReader(operand, mesh);
  }

  /// The meshes for which values of a stage, or of none, are made.
  SmallVector<int64_t> meshesOf(ValueRange values, int64_t stage) {
    if (stage != Stages::kNone)
      return {meshes.numberOf(stage)};
    SmallVector<int64_t> found;
    for (Value value : values)
      for (int64_t mesh : readers.lookup(value))
        if (!llvm::is_contained(found, mesh))
          found.push_back(mesh);
    if (found.empty()) // nobody reads it; an operation without results cannot be told
      found.push_back(0);
    return found;
  }

  //===-- Arguments --------------------------------------------------------------------------===//

  FailureOr<TensorSharding> shardingFrom(ShardingAttr attr, RankedTensorType type,
                                         const MeshAxes &mesh) {
    if (!attr)
      return TensorSharding::replicated(type.getRank());
    return TensorSharding::fromAttr(function, attr, mesh);
  }

  /// A local argument with the attributes of a whole one.
  Value addArgument(BlockArgument whole, const TensorSharding &sharding, const MeshAxes &mesh,
                    NamedAttrList attributes) {
    auto type = cast<RankedTensorType>(whole.getType());
    RankedTensorType local = localType(type, sharding, mesh);
    if (attributes.get("autopar.sharding"))
      attributes.set("autopar.sharding", sharding.toAttr(mesh));
    if (local != type)
      attributes.set("autopar.global_shape", builder.getDenseI64ArrayAttr(type.getShape()));
    argumentTypes.push_back(local);
    argumentAttributes.push_back(attributes.getDictionary(function.getContext()));
    return function.getBody().front().addArgument(local, whole.getLoc());
  }

  LogicalResult localizeArguments() {
    Block &block = function.getBody().front();
    for (BlockArgument argument : llvm::to_vector(block.getArguments())) {
      unsigned index = argument.getArgNumber();
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type)
        return function.emitOpError() << "argument " << index << " is not a ranked tensor";
      DenseMap<int64_t, Value> made; // meshes of one shape read the same
      for (int64_t mesh : meshesOf(argument, stages.of(argument))) {
        auto attr = function.getArgAttrOfType<ShardingAttr>(index, "autopar.sharding");
        FailureOr<TensorSharding> sharding = shardingFrom(attr, type, meshes[mesh]);
        if (failed(sharding))
          return failure();
        Value &local = made[meshes.firstLike(mesh)];
        if (!local)
          local = addArgument(argument, *sharding, meshes[mesh],
                              NamedAttrList(function.getArgAttrDict(index)));
        mappings[mesh].map(argument, local);
      }
    }
    return success();
  }

  void finishSignature() {
    Block &block = function.getBody().front();
    function.setFunctionType(FunctionType::get(function.getContext(), argumentTypes,
                                               block.getTerminator()->getOperandTypes()));
    function.setAllArgAttrs(argumentAttributes);
  }

  //===-- Operations -------------------------------------------------------------------------===//

  /// A value that goes to a mesh of another shape is part of another whole there.
  LogicalResult localizeTransfer(TransferOp op) {
    int64_t from = stages.of(op.getInput()), target = meshes.numberOf(op.getStage());
    int64_t source = from == Stages::kNone ? target : meshes.numberOf(from);
    Value input = mappings[source].lookup(op.getInput());
    RankedTensorType type = op.getType();
    TensorSharding received;
    if (op.getTo()) {
      FailureOr<TensorSharding> given = TensorSharding::fromAttr(op, *op.getTo(), meshes[target]);
      if (failed(given))
        return failure();
      received = *given;
    }
    if (op.getTo() && !op.getFrom()) { // read from the model's weights
      auto argument = cast<BlockArgument>(op.getInput());
      NamedAttrList attributes(function.getArgAttrDict(argument.getArgNumber()));
      attributes.set(kStageAttribute, builder.getI64IntegerAttr(op.getStage()));
      attributes.set("autopar.sharding", received.toAttr(meshes[target]));
      mappings[target].map(op.getResult(),
                           addArgument(argument, received, meshes[target], attributes));
      return success();
    }
    if (op.getTo() || from == Stages::kNone) {
      Type local = op.getTo() ? localType(type, received, meshes[target]) : input.getType();
      auto moved = TransferOp::create(builder, op.getLoc(), local, input, op.getStageAttr(),
                                      op.getFromAttr(), op.getToAttr());
      if (!getOpId(op).empty())
        setOpId(moved, getOpId(op));
      mappings[target].map(op.getResult(), moved);
      return success();
    }
    if (source != target)
      mappings[target].map(op.getInput(), input);
    return localize(op, target);
  }

  LogicalResult localize(Operation *op, int64_t number) {
    const MeshAxes &mesh = meshes[number];
    IRMapping &mapping = mappings[number];
    if (auto reshard = dyn_cast<ReshardOp>(op)) {
      FailureOr<TensorSharding> from = TensorSharding::fromAttr(op, reshard.getFrom(), mesh);
      FailureOr<TensorSharding> to = TensorSharding::fromAttr(op, reshard.getTo(), mesh);
      if (failed(from) || failed(to))
        return failure();
      mapping.map(reshard.getResult(), ReshardEmitter(builder, reshard, mesh)
                                           .emit(mapping.lookup(reshard.getInput()), *from, *to));
      return success();
    }
    ShardingRule rule = shardingRuleOf(op);
    FailureOr<FactorAxes> axes = strategyOf(op, rule, mesh);
    if (failed(axes))
      return failure();
    RankContext context(op, rule, *axes, mesh);
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands()) {
      RankedTensorType local = tensorTypeOf(mapping.lookup(operand.get()));
      auto wanted = localType(tensorTypeOf(operand.get()),
                              operandSharding(rule, *axes, operand.getOperandNumber()), mesh);
      if (local != wanted)
        return op->emitOpError() << "operand " << operand.getOperandNumber() << " is " << local
                                 << " on each rank, but the strategy asks for " << wanted
                                 << "; run autopar-insert-reshards first";
      operands.push_back(maskOperand(op, rule, *axes, operand.getOperandNumber(),
                                     mapping.lookup(operand.get()), mesh));
    }
    FailureOr<SmallVector<Value>> results = context.rewrite(builder, operands);
    if (failed(results))
      return op->emitOpError("cannot be partitioned under its strategy");
    for (auto [whole, local] : llvm::zip_equal(op->getResults(), *results))
      mapping.map(whole, local);
    return success();
  }

  /// Hides the padding of unevenly split reduction factors.
  Value maskOperand(Operation *op, const ShardingRule &rule, const FactorAxes &axes, unsigned index,
                    Value value, const MeshAxes &mesh) {
    for (auto [dim, dimension] : llvm::enumerate(rule.operands[index])) {
      if (dimension.size() != 1)
        continue;
      const Factor &factor = rule.factors[dimension[0]];
      int64_t shards = mesh.shards(axes[dimension[0]]);
      if (factor.kind != FactorKind::Reduction || factor.masksPadding || factor.size % shards == 0)
        continue;
      Value shard = shardIndexAlong(builder, op->getLoc(), axes[dimension[0]], mesh);
      value = maskPadding(builder, op->getLoc(), value, dim, factor.size, shard, factor.reduction);
    }
    return value;
  }

  LogicalResult localizeResults(Operation *terminator) {
    SmallVector<Value> results;
    auto attributes = SignatureAttributes::ofResults(function);
    for (OpOperand &operand : terminator->getOpOperands()) {
      auto type = cast<RankedTensorType>(operand.get().getType());
      int64_t stage = stages.of(operand.get()), number = meshes.numberOf(stage);
      const MeshAxes &mesh = meshes[number];
      Value local = mappings[number].lookup(operand.get());
      unsigned index = operand.getOperandNumber();
      auto attr = function.getResultAttrOfType<ShardingAttr>(index, "autopar.sharding");
      FailureOr<TensorSharding> sharding = shardingFrom(attr, type, mesh);
      if (failed(sharding))
        return failure();
      RankedTensorType expected = localType(type, *sharding, mesh);
      if (expected != local.getType())
        return terminator->emitOpError() << "result " << index << " is " << local.getType()
                                         << " on each rank, but its sharding asks for " << expected
                                         << "; run autopar-insert-reshards first";
      if (local.getType() != type)
        attributes.set(index, "autopar.global_shape",
                       builder.getDenseI64ArrayAttr(type.getShape()));
      if (attr && meshes.count() > 1)
        attributes.set(index, "autopar.sharding", sharding->toAttr(mesh));
      // What the first mesh makes for all of them is told by it.
      bool isMetric = function.getResultAttr(index, "autopar.metric") != nullptr;
      if (isMetric && stage == Stages::kNone && meshes.count() > 1)
        local = TransferOp::create(builder, terminator->getLoc(), local.getType(), local, 0);
      results.push_back(local);
    }
    attributes.write();
    func::ReturnOp::create(builder, terminator->getLoc(), results);
    return success();
  }

  func::FuncOp function;
  const StageMeshes &meshes;
  Stages stages;
  OpBuilder builder;
  DenseMap<Value, SmallVector<int64_t>> readers; ///< meshes that read a value
  SmallVector<IRMapping> mappings;               ///< per mesh: local values
  SmallVector<Type> argumentTypes;
  SmallVector<DictionaryAttr> argumentAttributes;
};

struct PartitionPass : mlir::autopar::impl::PartitionPassBase<PartitionPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    FailureOr<StageMeshes> meshes = StageMeshes::ofBody(function);
    // One device: local shapes are whole shapes.
    if (failed(meshes) || (!meshes->empty() && failed(Partitioner(function, *meshes).run())))
      signalPassFailure();
  }
};

} // namespace
