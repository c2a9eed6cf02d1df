// SPDX-License-Identifier: Apache-2.0
// The pass autopar-gather-ahead: parameters are gathered while what stands before their readers
// computes, as those who write sharded data parallelism by hand prefetch them (Zhao et al.,
// "PyTorch FSDP", 2023, section 3.3.2). Where the program has a collective is when it starts, so it
// moves as far up as it takes time, and no further: what is gathered takes memory.
#include "Stages/MadeFrom.h"
#include "StepParts.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Interfaces/TensorLayout.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Sharding.h"
#include "autopar/Transforms/Views.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_GATHERAHEADPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

/// A gather with what it is made of, in order.
struct Gather {
  SmallVector<Operation *> chain;
  SmallVector<size_t, 1> of;        ///< gathers whose results it gathers along another axis
  SmallVector<Operation *> sources; ///< what else it reads of this part, which stays
  bool stays = false;               ///< those end too late for it to be there in time
  double us = 0;                    ///< that it takes
  double neededUs = kForever;       ///< when its first reader could start
  int64_t bytes = 0;
  size_t place = 0; ///< before the anchor of this number
};

/// The gathers of one part.
class Gatherer {
public:
  Gatherer(const StepPart &part, const llvm::SetVector<Operation *> &ofParameters)
      : part(part), ofParameters(ofParameters) {}

  void gatherAhead() {
    own.insert_range(part.ops);
    findGathers();
    if (gathers.empty())
      return;
    walk();
    placeSources();
    placeLate();
    for (Gather &gather : gathers)
      if (!gather.stays)
        move(gather);
  }

private:
  static void forEachSource(const Gather &gather, function_ref<void(Operation *)> visit) {
    for (Operation *op : gather.chain)
      for (Value operand : op->getOperands())
        if (Operation *source = operand.getDefiningOp();
            source && !llvm::is_contained(gather.chain, source))
          visit(source);
  }

  /// Where what gathers read of other parts stands. To ask a block for an order after something in
  /// it was moved is to number all of it again, so places are known before that.
  void placeSources() {
    for (const Gather &gather : gathers)
      forEachSource(gather, [&](Operation *source) {
        if (!own.contains(source) && !anchorsBefore.contains(source))
          anchorsBefore[source] =
              llvm::partition_point(
                  anchors, [&](Operation *anchor) { return anchor->isBeforeInBlock(source); }) -
              anchors.begin();
      });
  }

  void move(Gather &gather) {
    size_t place = gather.place;
    forEachSource(gather, [&](Operation *source) {
      size_t before = anchorsBefore.at(source);
      bool isAnchor = before < anchors.size() && anchors[before] == source;
      place = std::max(place, before + (isAnchor ? 1 : 0));
    });
    if (place == anchors.size())
      return;
    for (Operation *op : gather.chain)
      if (size_t &before = anchorsBefore[op]; before > place) {
        op->moveBefore(anchors[place]);
        before = place;
      }
  }

  /// What `value` is made of here: what goes where the gather goes (looks at values, and kernels of
  /// the rank's own share of a parameter), other gathers, and what stays.
  void addSources(Value value, Gather &gather) {
    Operation *op = value.getDefiningOp();
    if (!op || !own.contains(op) || llvm::is_contained(gather.chain, op))
      return;
    if (auto number = numbers.find(op); number != numbers.end())
      return gather.of.push_back(number->second);
    if (!mayGoAlong(op))
      return gather.sources.push_back(op);
    for (Value operand : op->getOperands())
      addSources(operand, gather);
    gather.chain.push_back(op);
  }

  /// Whether what makes a gathered value goes where its gather goes.
  bool mayGoAlong(Operation *op) {
    auto fence = dyn_cast<FenceOp>(op);
    bool waits = fence && fence.getGradient();
    bool isLook = looksAt(op) || isa<FenceOp, HoldOp>(op) || op->hasTrait<OpTrait::ConstantLike>();
    return !waits && (isLook || isOfParameters(op));
  }

  /// isView(), which asks all results of a group, once for each operation: a group may make what
  /// all gathers read.
  bool looksAt(Operation *op) {
    auto [known, isNew] = views.try_emplace(op);
    if (isNew)
      known->second = isView(op);
    return known->second;
  }

  /// Whether an operation is a kernel that reads nothing of this part but looks at what is older,
  /// or of parameters alone, as rounding by the largest numbers of all ranks is.
  bool isOfParameters(Operation *op) {
    if (ofParameters.contains(op))
      return isa<GroupOp, CastOp, AllReduceOp>(op);
    return isa<GroupOp, CastOp>(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
             Operation *source = operand.getDefiningOp();
             while (source && own.contains(source) && looksAt(source) &&
                    source->getNumOperands() == 1)
               source = source->getOperand(0).getDefiningOp();
             return !source || !own.contains(source) || source->hasTrait<OpTrait::ConstantLike>();
           });
  }

  void findGathers() {
    for (Operation *op : part.ops)
      if (auto gather = dyn_cast<AllGatherOp>(op)) {
        KernelTime::Parts parts = part.times.of(op);
        Gather found;
        if (!part.times.goesBeside(parts) || parts.afterUs > 0)
          continue;
        addSources(gather.getInput(), found);
        found.chain.push_back(op);
        for (Operation *link : found.chain)
          if (isa<CollectiveOpInterface>(link))
            found.us += part.times.of(link).collectiveUs;
        found.bytes = tensorBytes(tensorTypeOf(gather.getResult()));
        moved.insert_range(found.chain);
        numbers[op] = gathers.size();
        gathers.push_back(std::move(found));
      }
  }

  /// When every operation that stays starts, if no gather were waited for, and when collectives
  /// that stay keep their queue busy.
  void walk() {
    DenseMap<Value, double> ready;
    DenseMap<Value, SmallVector<size_t, 1>> waits; // looks at what is gathered
    double computeUs = 0, collectiveUs = 0;
    for (Operation *op : part.ops) {
      anchorsBefore[op] = anchors.size();
      if (auto number = numbers.find(op); number != numbers.end()) {
        Gather &gather = gathers[number->second];
        for (Operation *source : gather.sources)
          gather.stays |= ready.lookup(source->getResult(0)) + gather.us > computeUs;
        for (size_t other : gather.of)
          gather.stays |= gathers[other].stays;
        if (!gather.stays) {
          waits[op->getResult(0)] = {number->second};
          continue;
        }
        moved.erase(op);
      }
      if (moved.contains(op))
        continue;
      anchors.push_back(op);
      startsUs.push_back(computeUs);
      double start = 0;
      SmallVector<size_t, 1> waited;
      for (Value operand : op->getOperands()) {
        start = std::max(start, ready.lookup(operand));
        if (auto found = waits.find(operand); found != waits.end())
          llvm::append_range(waited, found->second);
      }
      if (part.work.free.contains(op) || isa<TransferOp>(op)) {
        for (Value result : op->getResults()) {
          ready[result] = start;
          if (!waited.empty())
            waits[result] = waited;
        }
        continue;
      }
      KernelTime::Parts parts = part.times.of(op);
      start = std::max(start, computeUs);
      for (size_t number : waited)
        gathers[number].neededUs = std::min(gathers[number].neededUs, start);
      if (part.times.goesBeside(parts)) {
        computeUs = std::max(computeUs, parts.beforeUs > 0 ? start + parts.beforeUs : 0);
        start = std::max(start + parts.beforeUs, collectiveUs);
        collectiveUs = start + parts.collectiveUs;
        busy.push_back({start, collectiveUs});
        start = collectiveUs;
        if (parts.afterUs > 0)
          start = computeUs = std::max(computeUs, collectiveUs) + parts.afterUs;
      } else {
        start = computeUs = start + parts.sum();
      }
      for (Value result : op->getResults())
        ready[result] = start;
    }
  }

  /// The end of `us` on the queue of collectives, where those that stay are out of its way. They go
  /// one behind the other: who ends too early to be in the way stands behind all who do.
  double lastEndUs(double us, double end) const {
    ArrayRef<std::pair<double, double>> before = busy;
    before = before.take_front(
        llvm::partition_point(before, [&](const auto &one) { return one.first < end; }) -
        before.begin());
    for (; !before.empty() && before.back().second > end - us; before = before.drop_back())
      end = before.back().first;
    return end;
  }

  /// As late as they are there in time, one behind the other; not before what is gathered already
  /// leaves them memory.
  void placeLate() {
    SmallVector<double> starts(gathers.size());
    double free = kForever;
    for (size_t k = gathers.size(); k-- > 0;) {
      if (gathers[k].stays)
        continue; // its time is among the busy ones
      double end = lastEndUs(gathers[k].us, std::min(gathers[k].neededUs, free));
      free = starts[k] = end - gathers[k].us;
      for (size_t other : gathers[k].of)
        gathers[other].neededUs = std::min(gathers[other].neededUs, starts[k]);
    }
    int64_t held = 0;
    size_t first = 0; // that is held
    for (auto [k, gather] : llvm::enumerate(gathers)) {
      if (gather.stays)
        continue;
      held += gather.bytes;
      for (; held > part.waitingBytes && first < k; ++first)
        held -= gathers[first].stays ? 0 : gathers[first].bytes;
      if (first > 0 && gathers[first - 1].neededUs < kForever)
        starts[k] = std::max(starts[k], gathers[first - 1].neededUs);
      size_t place = llvm::upper_bound(startsUs, starts[k]) - startsUs.begin();
      gather.place = std::max<size_t>(place, 1) - 1;
    }
  }

  const StepPart &part;
  const llvm::SetVector<Operation *> &ofParameters; ///< of all parts
  DenseSet<Operation *> own;                        ///< of this part
  SmallVector<Gather> gathers;
  DenseMap<Operation *, size_t> numbers; ///< of gathers
  DenseMap<Operation *, bool> views;
  DenseSet<Operation *> moved;
  SmallVector<Operation *> anchors;            ///< what stays
  DenseMap<Operation *, size_t> anchorsBefore; ///< how many stand before an operation
  SmallVector<double> startsUs;                ///< of the compute queue when it comes to an anchor
  SmallVector<std::pair<double, double>> busy;
};

/// Where shards do not lie one behind the other in the result, a kernel puts them in order. It
/// stays where it is, or it would be waited for there.
void orderBehind(AllGatherOp op) {
  RankedTensorType input = tensorTypeOf(op.getInput()), output = tensorTypeOf(op.getResult());
  auto dim = static_cast<int64_t>(op.getDim());
  if (isOutermost(output.getShape(), dim))
    return;
  int64_t ranks = output.getDimSize(dim) / input.getDimSize(dim);
  SmallVector<int64_t> joined(input.getShape()), parts(input.getShape()), order;
  joined[0] *= ranks;
  parts.insert(parts.begin(), ranks);
  for (int64_t i = 0; i < input.getRank(); ++i) {
    if (i == dim)
      order.push_back(0);
    order.push_back(i + 1);
  }
  OpBuilder builder(op);
  Location loc = op.getLoc();
  auto made = [&](Operation *part) { return madeFrom(op, part); };
  Value gathered = made(AllGatherOp::create(builder, loc, input.clone(joined), op.getInput(), 0,
                                            op.getMesh(), op.getAxes()));
  auto group = GroupOp::create(builder, loc, TypeRange(output), gathered);
  made(group);
  Block &body = group.getBody().emplaceBlock();
  builder.setInsertionPointToStart(&body);
  Value value = body.addArgument(gathered.getType(), loc);
  value = made(ReshapeOp::create(builder, loc, input.clone(parts), value));
  value = made(TransposeOp::create(builder, loc, value, order));
  value = made(ReshapeOp::create(builder, loc, output, value));
  YieldOp::create(builder, loc, value);
  op.getResult().replaceAllUsesWith(group->getResult(0));
  op.erase();
}

struct GatherAheadPass : public mlir::autopar::impl::GatherAheadPassBase<GatherAheadPass> {
  using Base::Base;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || function.getOps<AllGatherOp>().empty())
      return;
    FailureOr<bool> isBeside = communicatesBeside(function, cluster);
    if (failed(isBeside))
      return signalPassFailure();
    if (*isBeside)
      for (AllGatherOp op : llvm::make_early_inc_range(function.getOps<AllGatherOp>()))
        orderBehind(op);
    llvm::SetVector<Operation *> ofParameters = madeOfParameters(function);
    auto gather = [&](const StepPart &part) { Gatherer(part, ofParameters).gatherAhead(); };
    auto &known = getAnalysis<KnownTimes>();
    known.forget();
    if (failed(forEachPart(getOperation(), cluster, target, memoryLimit, &known, gather)))
      return signalPassFailure();
    markAnalysesPreserved<KnownTimes>();
  }
};

} // namespace
