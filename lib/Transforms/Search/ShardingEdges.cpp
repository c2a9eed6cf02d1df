// SPDX-License-Identifier: Apache-2.0
// The edges of the cost graph of ShardingProblem.h: the time of the resharding that two choices
// imply. Matrices are interned, so that a layer's copies share them.
#include "Cost/OpTime.h"
#include "ShardingProblem.h"

#include "autopar/Cost/CostModel.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Interfaces/TensorLayout.h"
#include "autopar/Transforms/TransferRoute.h"

using namespace mlir;
using namespace mlir::autopar;

const ::autopar::MeshGroup &ShardingProblem::groupOf(const AxisList &list, Site &site) {
  std::vector<int8_t> key(list.begin(), list.end());
  auto it = site.groups.find(key);
  if (it == site.groups.end()) {
    std::vector<std::string> names;
    for (int8_t axis : list)
      names.push_back(site.axes.names[axis].str());
    it = site.groups.emplace(key, ::autopar::meshGroup(cluster, *site.mesh, names)).first;
    // What is on no stage may be made on any mesh: the dearest counts.
    bool isOnAny = sites.size() > 1 && &site == &sites.back();
    for (const ::autopar::Mesh &mesh : isOnAny ? ArrayRef(meshes) : ArrayRef<::autopar::Mesh>())
      if (::autopar::MeshGroup group = ::autopar::meshGroup(cluster, mesh, names);
          ::autopar::slownessOf(group) > ::autopar::slownessOf(it->second))
        it->second = std::move(group);
  }
  return it->second;
}

/// Of a copy that puts parts in order which do not lie one behind the other, in stages: as much as
/// decides between equals. In full, two stages of gpt2-124m were cut so that kernels take 13 %
/// longer.
static constexpr double kOrderShare = 0.01;

/// `bytes` gets what a rank holds of the larger side.
ShardingProblem::ReshardTime ShardingProblem::stepTime(RankedTensorType type,
                                                       const TensorSharding &current,
                                                       const ReshardStep &step, Site &site,
                                                       double &bytes) {
  using Kind = ReshardStep::Kind;
  using Collective = ::autopar::CollectiveKind;
  // Types of local tensors are not made: there are very many.
  SmallVector<int64_t> from = localShape(type.getShape(), current, site.axes),
                       to = localShape(type.getShape(), step.after, site.axes);
  int64_t all = type.getNumElements(), elementBytes = all > 0 ? tensorBytes(type) / all : 0;
  double before = elementBytes * ShapedType::getNumElements(from),
         after = elementBytes * ShapedType::getNumElements(to);
  bytes = step.kind == Kind::AllGather ? after : before;
  auto collectiveUs = [&](Collective kind, double size) {
    return ::autopar::collectiveTimeUs(kind, size, groupOf(step.axes, site));
  };
  auto copyUs = [&](double size) {
    return ::autopar::opTimeUs(0, 2 * size, dataTypeOf(type.getElementType()), *site.device);
  };
  auto orderUs = [&](ArrayRef<int64_t> whole, int64_t dim, double size) {
    return isOutermost(whole, dim) ? 0 : (meshes.size() > 1 ? kOrderShare : 1) * copyUs(size);
  };
  switch (step.kind) {
  case Kind::AllReduce:
    return {collectiveUs(Collective::AllReduce, before), 0};
  case Kind::ReduceScatter:
    return {collectiveUs(Collective::ReduceScatter, before), orderUs(from, step.dim, before)};
  case Kind::AllGather:
    return {collectiveUs(Collective::AllGather, after), orderUs(to, step.dim, after)};
  case Kind::AllToAll:
    return {collectiveUs(Collective::AllToAll, before),
            orderUs(from, step.dim, before) + orderUs(to, step.concatDim, after)};
  case Kind::Slice:
  case Kind::Mask:
    return {0, copyUs(after) - site.device->launchUs};
  }
  llvm_unreachable("all kinds are listed");
}

ShardingProblem::ReshardTime ShardingProblem::reshardTime(RankedTensorType type,
                                                          const TensorSharding &from,
                                                          const TensorSharding &to, Site &site) {
  ReshardTime total;
  double bytes = 0;
  const TensorSharding *current = &from;
  SmallVector<ReshardStep> steps = planReshard(type.getShape(), from, to, site.axes);
  for (const ReshardStep &step : steps) {
    ReshardTime time = stepTime(type, *current, step, site, bytes);
    total.collectiveUs += time.collectiveUs;
    total.kernelUs += time.kernelUs;
    current = &step.after;
  }
  return total;
}

const TensorSharding &ShardingProblem::sourceOfEdge(size_t edge, ArrayRef<int32_t> choice) const {
  return lists[reshards[edge].from][choice[reshards[edge].node]];
}

void ShardingProblem::forEachStep(
    size_t edge, ArrayRef<int32_t> choice,
    function_ref<void(const ReshardStep &, double bytes, double us)> call) {
  if (edge >= reshards.size())
    return; // to a follower
  const Reshard &reshard = reshards[edge];
  int32_t before = listMembers[reshard.from][choice[reshard.node]],
          after = listMembers[reshard.to][choice[costGraph.edges[edge].b]];
  if (before == after && reshard.target == Stages::kNone)
    return; // as it lies
  auto type = tensorTypeOf(reshard.value);
  Site &site = siteOf(reshard.stage);
  auto [current, to] = endsOf(reshard, sourceOfEdge(edge, choice),
                              lists[reshard.to][choice[costGraph.edges[edge].b]]);
  for (const ReshardStep &step : planReshard(type.getShape(), current, to, site.axes)) {
    double bytes = 0;
    ReshardTime time = stepTime(type, current, step, site, bytes);
    call(step, reshard.runs * bytes, countedUs(reshard, time));
    current = step.after;
  }
}

bool ShardingProblem::isFixed(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  func::FuncOp function = this->function;
  return argument && !function.getArgAttr(argument.getArgNumber(), "autopar.donated");
}

std::pair<TensorSharding, TensorSharding> ShardingProblem::endsOf(const Reshard &reshard,
                                                                  const TensorSharding &from,
                                                                  const TensorSharding &to) const {
  const MeshAxes &near = siteOf(reshard.stage).axes;
  TensorSharding have = from.on(near);
  if (reshard.target == Stages::kNone)
    return {have, to.on(near)};
  if (isFixed(reshard.value))
    return {have, have}; // read from the model's weights
  TransferForms forms = transferForms(tensorTypeOf(reshard.value).getShape(), have, near, to,
                                      siteOf(reshard.target).axes);
  return {have, forms.sent};
}

double ShardingProblem::countedUs(const Reshard &reshard, ReshardTime time) const {
  double share = reshard.isBeside ? siteOf(reshard.stage).waitedShare : 1;
  return static_cast<double>(reshard.runs) * (share * time.collectiveUs + time.kernelUs);
}

int32_t ShardingProblem::reshardMatrix(size_t edge, Change change) {
  const Reshard &reshard = reshards[edge];
  auto [it, isNew] = matrices.try_emplace(
      {reshard.value.getType().getAsOpaquePointer(), reshard.from, reshard.to, reshard.runs, change,
       siteNumberOf(reshard.stage), siteNumberOf(reshard.target), reshard.isBeside},
      0);
  if (isNew) {
    it->second = costGraph.addMatrix(costsOf(reshard, change));
    priced.push_back({edge, change});
  }
  return it->second;
}

void ShardingProblem::wait(double waitedShare) {
  for (Site &site : sites)
    site.waitedShare = waitedShare > 0 ? waitedShare : site.leftShare;
  for (auto [edge, change] : priced)
    if (reshards[edge].isBeside)
      costGraph.matrices[costGraph.edges[edge].matrix] = costsOf(reshards[edge], change);
}

std::vector<double> ShardingProblem::costsOf(const Reshard &reshard, Change change) {
  RankedTensorType type = tensorTypeOf(reshard.value);
  Site &site = siteOf(reshard.stage);
  ArrayRef<TensorSharding> rows = lists[reshard.from], columns = lists[reshard.to];
  ArrayRef<int32_t> rowMembers = listMembers[reshard.from];
  SmallVector<TensorSharding> here; // without axes that split nothing on this mesh
  SmallVector<int32_t> hereMembers;
  if (sites.size() > 1) {
    for (const TensorSharding &row : rows) {
      here.push_back(row.on(site.axes));
      hereMembers.push_back(memberId(here.back()));
    }
    rows = here;
    rowMembers = hereMembers;
  }
  std::vector<double> matrix(rows.size() * columns.size());
  auto bytesOfAll = [&](ArrayRef<TensorSharding> list) {
    std::vector<int64_t> bytes;
    for (const TensorSharding &sharding : list)
      bytes.push_back(change == Change::Part ? tensorBytes(localType(type, sharding, site.axes))
                                             : 0);
    return bytes;
  };
  std::vector<int64_t> rowBytes = bytesOfAll(rows), columnBytes = bytesOfAll(columns);
  for (size_t row = 0; row < rows.size(); ++row)
    for (size_t column = 0; column < columns.size(); ++column) {
      int32_t before = rowMembers[row], after = listMembers[reshard.to][column];
      double cost = before == after ? 0 : ::autopar::kForbidden;
      if (change == Change::Send) {
        auto [have, sent] = endsOf(reshard, rows[row], columns[column]);
        cost = countedUs(reshard, reshardTime(type, have, sent, site));
      } else if (change != Change::None) {
        auto [known, missing] =
            site.reshardTimes.try_emplace({type.getAsOpaquePointer(), before, after});
        if (missing)
          known->second = reshardTime(type, rows[row], columns[column], site);
        cost = countedUs(reshard, known->second);
      }
      // In the first half of the strategies the value stays where it is, in the second it moves.
      if (change == Change::CopyOrNone && (column < columns.size() / 2) != (before == after))
        cost = ::autopar::kForbidden;
      if (change == Change::Part && columnBytes[column] > rowBytes[row])
        cost = ::autopar::kForbidden;
      // Of equally dear places for a reduction the last one where micro-batches share it, else the
      // first: less waits.
      bool isShared = outline.microBatches().count() > 1;
      if (change == Change::Reduction && (isShared ? rows[row].partial != columns[column].partial
                                                   : !columns[column].partial.empty()))
        cost += kOtherPlace;
      matrix[row * columns.size() + column] = cost;
    }
  return matrix;
}

/// A value of one micro-batch is resharded in every micro-batch; `runs` is how often its reader
/// asks for that. A reader that is computed again asks for it a second time.
void ShardingProblem::connect(Value from, int32_t toNode, int32_t toShardings, int64_t stage,
                              Change change, int64_t runs, int64_t target, bool isAgain) {
  Source source = sources.lookup(from);
  Operation *producer = from.getDefiningOp();
  if (producer && !MicroBatches::joins(producer))
    runs = std::max(runs, outline.microBatches().runsOf(producer));
  if (isAgain && producer && again->isForward(producer) && !isa<HoldOp>(producer))
    runs *= 2;
  if (auto hold = dyn_cast_if_present<HoldOp>(producer);
      hold && !hold.getUnreduced() && change == Change::Any)
    change = Change::Part;
  if (source.isFixed)
    change = Change::None;
  bool isBeside = change == Change::CopyOrNone || change == Change::Reduction ||
                  isa_and_present<HoldOp>(producer) || (isWaitedShareGiven && overlapsParts());
  reshards.push_back(
      {from, source.node, source.shardings, toShardings, runs, stage, target, isBeside});
  costGraph.addEdge(source.node, toNode, reshardMatrix(reshards.size() - 1, change));
}
