// SPDX-License-Identifier: Apache-2.0
// See the header. Values are looked up when they are needed: what is on no stage is made then, what
// another mesh has is received.
#include "MeshWriter.h"

#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Transforms/EvaluateStep.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::ScheduleRow;
using ::autopar::StagePhase;

MeshWriter::MeshWriter(const StagedFunction &source, const ::autopar::Schedule &schedule,
                       const std::optional<::autopar::ScheduleRounds> &found,
                       const OverlappedCollectives &overlapped, int32_t mesh)
    : source(source), schedule(found ? withOneRound(schedule, mesh, *found) : schedule),
      overlapped(overlapped), mesh(mesh), builder(source.function) {
  target = cast<func::FuncOp>(source.function->cloneWithoutRegions());
  builder.insert(target);
  if (schedule.meshes > 1) {
    target.setSymName("main." + std::to_string(mesh));
    target->setAttr(kStageAttribute, builder.getI64IntegerAttr(mesh));
  }
  Block *block = target.addEntryBlock();
  builder.setInsertionPointToStart(block);
  perMicroBatch.resize(this->schedule.microBatches);
  if (found)
    rounds.emplace(*found, builder);
}

LogicalResult MeshWriter::write(RowsTogether *together) {
  collect();
  for (BlockArgument argument : source.function.getArguments())
    passOn(argument, source.stages.of(argument));
  writeOnce(MicroBatchPhase::Before);
  writeRows(together);
  writeOnce(MicroBatchPhase::After);
  writeReturn();
  return rounds ? rounds->handOn() : success();
}

void MeshWriter::writeRows(RowsTogether *together) {
  std::vector<ScheduleRow> order = schedule.rows[mesh];
  size_t roundBegin = rounds ? rounds->firstRow() : order.size();
  size_t roundEnd = rounds ? roundBegin + rounds->rows() : order.size();
  // Rows without work (a first stage that computes no gradient of its input) are none.
  if (schedule.stages > 1) {
    auto isEmpty = [&](const ScheduleRow &row) { return rows[{row.stage, row.phase}].empty(); };
    for (size_t row = 0; row + 1 < order.size(); ++row)
      order[row].withNext &= !isEmpty(order[row + 1]);
    roundEnd -= std::count_if(order.begin(), order.begin() + roundEnd, isEmpty);
    roundBegin -= std::count_if(order.begin(), order.begin() + roundBegin, isEmpty);
    llvm::erase_if(order, isEmpty);
  }
  size_t received = 0;
  for (size_t row = 0, end = 0; row < order.size(); row = end) {
    if (rounds && row == roundBegin) {
      rounds->begin(target.getLoc());
      forgetParts();
    } else if (rounds && row == roundEnd) {
      rounds->end(target.getLoc());
      forgetParts();
    }
    end = row + (order[row].withNext ? 2 : 1);
    for (; received < std::min(order.size(), end + schedule.receivesAhead); ++received)
      receiveFor(order[received]);
    if (order[row].withNext && together)
      writeTogether(ArrayRef(order).slice(row, 2), *together);
    else
      for (size_t one = row; one < end; ++one)
        writeRow(order[one]);
  }
}

void MeshWriter::forgetParts() {
  for (Operation &op : source.function.getBody().front().without_terminator())
    if (isa<MicroBatchOp, MicroBatchIndexOp>(op))
      for (IRMapping &mapping : perMicroBatch)
        mapping.erase(op.getResult(0));
}

bool MeshWriter::isHere(Operation *op) const {
  int64_t stage = source.stages.of(op);
  return stage != Stages::kNone && schedule.meshOf(stage) == mesh;
}

void MeshWriter::collect() {
  for (Operation &op : source.function.getBody().front().without_terminator()) {
    if (auto carry = dyn_cast<CarryOp>(op))
      carryOps[carry.getNumber()] = carry;
    if (!isEach(&op) || isa<TransferOp>(op))
      continue;
    if (schedule.stages == 1) // a micro-batch runs as it stands
      rows[{0, StagePhase::Forward}].push_back(&op);
    else if (isHere(&op))
      rows[{source.stages.of(&op), source.phases.of(&op)}].push_back(&op);
  }
}

/// Sends a value that other meshes need, or receives it: all meshes do so at the same place of the
/// program, so that none waits for another in a circle.
void MeshWriter::passOn(Value value, int64_t stage) {
  if (stage == Stages::kNone)
    return;
  if (schedule.meshOf(stage) == mesh)
    return sendOn(value, kOnce);
  for (Operation *user : value.getUsers())
    if (auto transfer = dyn_cast<TransferOp>(user);
        transfer && schedule.meshOf(transfer.getStage()) == mesh)
      resolve(transfer.getResult(), kOnce);
}

/// What runs once, before or after all micro-batches. What is on no stage is made where it is
/// needed; without stages it is all here.
void MeshWriter::writeOnce(MicroBatchPhase phase) {
  for (Operation &op : source.function.getBody().front().without_terminator()) {
    bool isPutTogether = phase == MicroBatchPhase::After && MicroBatches::joins(&op);
    // What only the end of the step reads, such as a part of an update, need not wait for it.
    MicroBatchPhase own = source.microBatches.phaseOf(&op);
    if (own == MicroBatchPhase::Before && !source.beforeAll.contains(&op))
      own = MicroBatchPhase::After;
    bool waits = phase == MicroBatchPhase::Before && overlapped.contains(&op);
    if ((own != phase && !isPutTogether) || waits || isa<TransferOp>(op))
      continue;
    int64_t stage = source.stages.of(&op);
    if (!isPutTogether && (stage == Stages::kNone ? schedule.stages == 1 : isHere(&op)))
      write(&op, kOnce);
    for (Value result : op.getResults())
      passOn(result, stage);
  }
}

void MeshWriter::writeRow(const ScheduleRow &row) {
  // Rows of the first micro-batch, and the last one of a mesh, are in no round.
  bool isFirst = row.microBatch == 0, isLast = row.microBatch + 1 == schedule.microBatches;
  for (Operation *op : rows[{row.stage, row.phase}]) {
    for (Operation *gather : isFirst ? overlapped.beforeFirst(op) : ArrayRef<Operation *>())
      write(gather, kOnce);
    write(op, row.microBatch);
    for (Operation *sum : isLast ? overlapped.behindLast(op) : ArrayRef<Operation *>()) {
      handOnFor(sum, row.microBatch);
      write(sum, kOnce);
    }
  }
}

void MeshWriter::handOnFor(Operation *op, int64_t microBatch) {
  for (Value operand : op->getOperands()) {
    Operation *maker = operand.getDefiningOp();
    if (maker && MicroBatches::joins(maker))
      write(maker, microBatch);
    else if (maker && !isEach(maker))
      handOnFor(maker, microBatch);
  }
}

void MeshWriter::writeTogether(ArrayRef<ScheduleRow> pair, RowsTogether &together) {
  auto opsOf = [&](const ScheduleRow &row) -> ArrayRef<Operation *> {
    return rows[{row.stage, row.phase}];
  };
  for (auto [op, row] : together.order(opsOf(pair[0]), opsOf(pair[1])))
    write(op, pair[row].microBatch);
}

void MeshWriter::receiveFor(const ScheduleRow &row) {
  if (schedule.stages == 1)
    return;
  for (Operation *op : rows[{row.stage, row.phase}])
    for (Value operand : op->getOperands())
      if (auto transfer = operand.getDefiningOp<TransferOp>(); transfer && isEach(transfer))
        if (int64_t from = source.stages.of(transfer.getInput());
            from != Stages::kNone && schedule.meshOf(from) != mesh) {
          if (const TransferRoute *route = source.routeOf(transfer);
              route && route->receives.size() > 1)
            startReceiving(transfer, row.microBatch);
          else
            resolve(operand, row.microBatch);
        }
}

IRMapping &MeshWriter::mappingFor(Operation *op, int64_t microBatch) {
  return op && isEach(op) && !MicroBatches::joins(op) ? perMicroBatch[microBatch] : once;
}

/// In rounds that of the first one, to which a row adds its slot.
int64_t MeshWriter::numberOf(int64_t microBatch) const {
  return microBatch == kOnce || !rounds ? microBatch : rounds->numberOf(microBatch);
}

/// Operations of micro-batch i are called `id@i`.
void MeshWriter::name(Operation *made, Operation *original, int64_t microBatch) {
  if (microBatch == kOnce || !isEach(original))
    setOpId(made, getOpId(original));
  else
    setOpId(made, getOpId(original) + "@" + Twine(numberOf(microBatch)));
}

Operation *MeshWriter::clone(Operation *op, int64_t microBatch, IRMapping &operands) {
  Operation *copy = builder.clone(*op, operands);
  if (!getOpId(op).empty() || isEach(op))
    name(copy, op, microBatch);
  return copy;
}

//===-- Values -------------------------------------------------------------------------------===//

Value MeshWriter::resolve(Value value, int64_t microBatch) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return target.getArgument(argument.getArgNumber());
  Operation *op = value.getDefiningOp();
  // Results of what runs per micro-batch and is put together are known once it is.
  if (Value known = mappingFor(op, microBatch).lookupOrNull(value))
    return known;
  return make(op, value, microBatch);
}

/// Makes what is on no stage, or lies elsewhere.
Value MeshWriter::make(Operation *op, Value result, int64_t microBatch) {
  if (auto transfer = dyn_cast<TransferOp>(op)) {
    int64_t from = source.stages.senderOf(transfer);
    bool isHereToo = from == Stages::kNone || schedule.meshOf(from) == mesh;
    Value value =
        isHereToo ? resolve(transfer.getInput(), microBatch) : receive(transfer, microBatch);
    mappingFor(op, microBatch).map(result, value);
    return value;
  }
  if (MicroBatches::joins(op))
    for (int64_t i = 0; i < schedule.microBatches; ++i)
      write(op, i);
  else
    write(op, microBatch);
  return mappingFor(op, microBatch).lookup(result);
}

Value MeshWriter::receive(TransferOp op, int64_t microBatch) {
  startReceiving(op, microBatch);
  return putTogether(op, microBatch, coming.at({op, isEach(op) ? microBatch : kOnce}));
}

void MeshWriter::startReceiving(TransferOp op, int64_t microBatch) {
  int64_t number = isEach(op) ? microBatch : kOnce;
  MeshRounds::Scope scope = madeFor(op, number);
  SmallVector<Value> &parts = coming[{op, number}];
  if (!parts.empty())
    return;
  const TransferRoute *route = source.routeOf(op);
  RankedTensorType type = op.getType();
  if (route)
    type = RankedTensorType::get(route->shape, type.getElementType());
  for (size_t part = 0, count = route ? route->receives.size() : 1; part < count; ++part) {
    auto received = ReceiveOp::create(
        builder, op.getLoc(), type, schedule.meshOf(source.stages.of(op.getInput())),
        source.tagOf(op, numberOf(number)), source.phases.isTowardsLoss(op),
        route ? builder.getDenseI32ArrayAttr(route->receives[part].peers) : DenseI32ArrayAttr());
    name(received, op, number);
    parts.push_back(received);
  }
}

/// Joins the innermost dimension first.
Value MeshWriter::putTogether(TransferOp op, int64_t microBatch, ArrayRef<Value> received) {
  MeshRounds::Scope scope = madeFor(op, isEach(op) ? microBatch : kOnce);
  SmallVector<Value> parts(received);
  const TransferRoute *route = source.routeOf(op);
  for (int64_t dim = op.getType().getRank(); route && dim-- > 0;) {
    int64_t count = route->grid[dim];
    if (count == 1)
      continue;
    auto type = cast<RankedTensorType>(parts.front().getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] *= count;
    SmallVector<Value> joined;
    for (size_t first = 0; first < parts.size(); first += count) {
      auto join = ConcatOp::create(builder, op.getLoc(),
                                   RankedTensorType::get(shape, type.getElementType()),
                                   ValueRange(parts).slice(first, count), dim);
      name(join, op, isEach(op) ? microBatch : kOnce);
      joined.push_back(join);
    }
    parts = std::move(joined);
  }
  return parts.front();
}

void MeshWriter::sendOn(Value value, int64_t microBatch) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && !source.function.getArgAttr(argument.getArgNumber(), "autopar.donated"))
    return; // read from where the model's weights are
  for (Operation *user : value.getUsers()) {
    auto transfer = dyn_cast<TransferOp>(user);
    if (!transfer || schedule.meshOf(transfer.getStage()) == mesh)
      continue;
    int64_t number = isEach(transfer) ? microBatch : kOnce;
    auto send = [&](Value part, DenseI32ArrayAttr peers) {
      auto sent = SendOp::create(
          builder, transfer.getLoc(), part, schedule.meshOf(transfer.getStage()),
          source.tagOf(transfer, numberOf(number)), source.phases.isTowardsLoss(transfer), peers);
      name(sent, transfer, number);
      if (Attribute us = transfer->getAttr(kOpTimeAttribute))
        sent->setAttr(kOpTimeAttribute, us);
    };
    Value local = resolve(value, microBatch);
    MeshRounds::Scope scope = madeFor(transfer, number);
    const TransferRoute *route = source.routeOf(transfer);
    if (!route)
      send(local, {});
    else
      for (const TransferRoute::Message &message : route->sends)
        send(partOf(local, message.start, route->shape, transfer, number),
             builder.getDenseI32ArrayAttr(message.peers));
  }
}

Value MeshWriter::partOf(Value value, ArrayRef<int64_t> start, ArrayRef<int64_t> shape,
                         TransferOp op, int64_t number) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  auto slice =
      SliceOp::create(builder, op.getLoc(), RankedTensorType::get(shape, type.getElementType()),
                      value, start, SmallVector<int64_t>(type.getRank(), 1));
  name(slice, op, number);
  return slice;
}

Value MeshWriter::takePart(MicroBatchOp op, int64_t microBatch) {
  Value slice = partAt(resolve(op.getInput(), kOnce), microBatch, op.getLoc());
  name(slice.getDefiningOp(), op, microBatch);
  return ReshapeOp::create(builder, op.getLoc(), op.getType(), slice);
}

Value MeshWriter::partAt(Value all, int64_t microBatch, Location loc) {
  auto type = cast<RankedTensorType>(all.getType());
  SmallVector<int64_t> shape(type.getShape()), starts(type.getRank(), 0);
  shape.front() = 1;
  auto part = RankedTensorType::get(shape, type.getElementType());
  if (rounds && rounds->part() == MeshRounds::Part::Within)
    return RoundSliceOp::create(builder, loc, part, all, microBatch);
  starts.front() = numberOf(microBatch);
  return SliceOp::create(builder, loc, part, all, starts, SmallVector<int64_t>(type.getRank(), 1));
}

Value MeshWriter::indexOf(MicroBatchIndexOp op, int64_t microBatch) {
  if (!rounds || rounds->part() != MeshRounds::Part::Within)
    return i64Scalar(builder, op.getLoc(), numberOf(microBatch));
  int64_t count = source.microBatches.count();
  auto numbers = llvm::to_vector(llvm::seq<int64_t>(0, count));
  auto type = RankedTensorType::get({count}, builder.getI64Type());
  Value all = ConstantOp::create(builder, op.getLoc(),
                                 DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
  Value slice = partAt(all, microBatch, op.getLoc());
  name(slice.getDefiningOp(), op, microBatch);
  return ReshapeOp::create(builder, op.getLoc(), cast<RankedTensorType>(op.getType()), slice);
}

//===-- Operations ---------------------------------------------------------------------------===//

void MeshWriter::write(Operation *op, int64_t microBatch) {
  IRMapping &mapping = mappingFor(op, microBatch);
  if (op->getNumResults() > 0 && mapping.contains(op->getResult(0)))
    return;
  MeshRounds::Scope scope = madeFor(op, isEach(op) ? microBatch : kOnce);
  if (auto part = dyn_cast<MicroBatchOp>(op)) {
    mapping.map(part.getResult(), takePart(part, microBatch));
    if (sentParts.insert({op, microBatch}).second)
      sendOn(part.getResult(), microBatch);
    return;
  }
  if (auto index = dyn_cast<MicroBatchIndexOp>(op))
    return mapping.map(op->getResult(0), indexOf(index, microBatch));
  if (auto carried = dyn_cast<CarriedOp>(op)) {
    if (microBatch > 0)
      mapping.map(op->getResult(0), handedOnTo(microBatch, carried.getNumber()));
    else
      mapping.map(op->getResult(0),
                  buildIdentity(builder, op->getLoc(),
                                cast<RankedTensorType>(op->getResult(0).getType()),
                                static_cast<ReductionKind>(carried.getKind())));
    return;
  }
  if (auto stack = dyn_cast<StackMicroBatchesOp>(op))
    return join(stack, resolve(stack.getInput(), microBatch), microBatch);
  if (auto carry = dyn_cast<CarryOp>(op)) {
    if (carries.lookup(op) <= microBatch) // else a later one has asked for it
      handOn(carry, resolve(carry.getInput(), microBatch));
    return;
  }
  IRMapping operands;
  bool isFirst = isEach(op) && microBatch == 0 && writeFirst(op, microBatch, operands);
  if (!isFirst) {
    for (Value operand : op->getOperands())
      operands.map(operand, resolve(operand, microBatch));
    clone(op, microBatch, operands);
  }
  for (Value result : op->getResults()) {
    mapping.map(result, operands.lookup(result));
    if (isEach(op))
      sendOn(result, microBatch);
  }
}

Value MeshWriter::handedOnTo(int64_t microBatch, int64_t number) {
  CarryOp carry = carryOps.lookup(number);
  if (carries.lookup(carry) < microBatch)
    write(carry, microBatch - 1);
  return handedOn.lookup(number);
}

void MeshWriter::handOn(CarryOp op, Value value) {
  handedOn[op.getNumber()] = value;
  // The last micro-batch hands on to what comes after all of them.
  if (++carries[op] < schedule.microBatches)
    return;
  once.map(op.getResult(), value);
}

void MeshWriter::join(StackMicroBatchesOp op, Value part, int64_t microBatch) {
  auto all = cast<RankedTensorType>(op.getType());
  Value &whole = wholes[op];
  bool moves = rounds && rounds->part() == MeshRounds::Part::Within;
  whole = InsertPartOp::create(builder, op.getLoc(), all, part, whole, numberOf(microBatch), moves);
  name(whole.getDefiningOp(), op, microBatch);
  if (microBatch + 1 == schedule.microBatches)
    once.map(op.getResult(), whole);
}

/// Lets the inputs `numbers`, which are identities, fall away where they are only added.
static void dropAdditions(GroupOp group, ArrayRef<unsigned> numbers) {
  for (unsigned number : llvm::reverse(numbers)) {
    BlockArgument argument = group.getBody().getArgument(number);
    auto sum = argument.hasOneUse() ? dyn_cast<BinaryOp>(*argument.user_begin()) : BinaryOp();
    if (!sum)
      continue;
    sum.getResult().replaceAllUsesWith(sum.getLhs() == argument ? sum.getRhs() : sum.getLhs());
    sum.erase();
    group.getBody().eraseArgument(number);
    group->eraseOperand(number);
  }
}

/// The first micro-batch has nothing to add to: the additions fall away. False for an operation
/// that reads nothing carried.
bool MeshWriter::writeFirst(Operation *op, int64_t microBatch, IRMapping &mapping) {
  auto isCarried = [](Value operand) { return operand.getDefiningOp<CarriedOp>() != nullptr; };
  if (llvm::none_of(op->getOperands(), isCarried))
    return false;
  if (auto sum = dyn_cast<BinaryOp>(op)) {
    Value rest = isCarried(sum.getLhs()) ? sum.getRhs() : sum.getLhs();
    mapping.map(sum.getResult(), resolve(rest, microBatch));
    return true;
  }
  SmallVector<unsigned> numbers;
  for (OpOperand &operand : op->getOpOperands()) {
    mapping.map(operand.get(), resolve(operand.get(), microBatch));
    if (isCarried(operand.get()))
      numbers.push_back(operand.getOperandNumber());
  }
  if (auto group = dyn_cast<GroupOp>(clone(op, microBatch, mapping)))
    dropAdditions(group, numbers);
  return true;
}

//===-- Results ------------------------------------------------------------------------------===//

/// Tells another mesh a metric.
void MeshWriter::tell(unsigned result, Value value, int64_t other, bool isTowardsLoss) {
  auto send = [&](DenseI32ArrayAttr peers) {
    auto sent = SendOp::create(builder, value.getLoc(), value, other,
                               source.tagOfMetric(result, other), isTowardsLoss, peers);
    setOpId(sent, "metric." + Twine(result));
  };
  std::optional<TransferRoute> route =
      source.routeOfMetric(cast<RankedTensorType>(value.getType()).getRank(), mesh, other);
  if (!route)
    return send({});
  for (const TransferRoute::Message &message : route->sends)
    send(builder.getDenseI32ArrayAttr(message.peers));
}

/// What another mesh tells.
Value MeshWriter::hear(unsigned result, Value value, int64_t other) {
  std::optional<TransferRoute> route =
      source.routeOfMetric(cast<RankedTensorType>(value.getType()).getRank(), other, mesh);
  DenseI32ArrayAttr peers =
      route ? builder.getDenseI32ArrayAttr(route->receives.front().peers) : DenseI32ArrayAttr();
  auto received = ReceiveOp::create(builder, value.getLoc(), value.getType(), other,
                                    source.tagOfMetric(result, mesh),
                                    source.phases.isTowardsLoss(value.getDefiningOp()), peers);
  setOpId(received, "metric." + Twine(result));
  return received;
}

void MeshWriter::writeReturn() {
  func::FuncOp function = source.function;
  auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> attributes;
  for (OpOperand &operand : terminator->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    int64_t stage = source.stages.of(operand.get());
    // What is on no stage is returned by the first mesh.
    bool isOwn = schedule.meshOf(std::max<int64_t>(stage, 0)) == mesh;
    bool isMetric = function.getResultAttr(index, "autopar.metric") != nullptr;
    if (!isOwn && !isMetric)
      continue;
    Value value;
    if (isOwn || stage == Stages::kNone) {
      value = resolve(operand.get(), kOnce);
    } else {
      value = hear(index, operand.get(), schedule.meshOf(stage));
    }
    // Every mesh knows the metrics: they guard the state, and any rank may report them.
    for (int32_t other = 0; isMetric && isOwn && stage != Stages::kNone && other < schedule.meshes;
         ++other)
      if (other != mesh)
        tell(index, value, other, source.phases.isTowardsLoss(operand.get().getDefiningOp()));
    values.push_back(value);
    attributes.push_back(function.getResultAttrDict(index));
  }
  func::ReturnOp::create(builder, terminator.getLoc(), values);
  dropArguments();
  target.setFunctionType(builder.getFunctionType(target.getBody().front().getArgumentTypes(),
                                                 ValueRange(values).getTypes()));
  target.removeResAttrsAttr();
  target.setAllResultAttrs(attributes);
}

/// Arguments that this mesh neither reads nor keeps. The first mesh takes inputs that nobody reads.
void MeshWriter::dropArguments() {
  llvm::BitVector dropped(target.getNumArguments());
  for (BlockArgument argument : source.function.getArguments()) {
    unsigned number = argument.getArgNumber();
    int64_t stage = source.stages.of(argument);
    bool isOwn = schedule.meshOf(std::max<int64_t>(stage, 0)) == mesh;
    dropped[number] = target.getArgument(number).use_empty() &&
                      !(isOwn && (stage != Stages::kNone || argument.use_empty()));
  }
  (void)target.eraseArguments(dropped);
}
