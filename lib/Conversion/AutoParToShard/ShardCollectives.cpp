// SPDX-License-Identifier: Apache-2.0
// The table of collectives that autopar and shard share, read in both directions.
#include "ShardCollectives.h"

#include "mlir/Dialect/Shard/IR/ShardOps.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct Names {
  StringLiteral ours, theirs;
};
/// A collective, and its attributes besides mesh and axes.
struct Collective {
  Names names;
  std::initializer_list<Names> attributes;
};

template <typename Ours, typename Theirs>
constexpr Names namesOf = {Ours::getOperationName(), Theirs::getOperationName()};

} // namespace

static constexpr Names kReduction{"kind", "reduction"};
static constexpr Names kMesh{"mesh", "grid"}, kAxes{"axes", "grid_axes"};

static const Collective kCollectives[] = {
    {namesOf<AllReduceOp, shard::AllReduceOp>, {kReduction}},
    {namesOf<AllGatherOp, shard::AllGatherOp>, {{"dim", "gather_axis"}}},
    {namesOf<ReduceScatterOp, shard::ReduceScatterOp>, {kReduction, {"dim", "scatter_axis"}}},
    {namesOf<AllToAllOp, shard::AllToAllOp>,
     {{"splitDim", "split_axis"}, {"concatDim", "concat_axis"}}},
};

static constexpr std::pair<ReduceKind, shard::ReductionKind> kReductions[] = {
    {ReduceKind::Sum, shard::ReductionKind::Sum},
    {ReduceKind::Prod, shard::ReductionKind::Product},
    {ReduceKind::Max, shard::ReductionKind::Max},
    {ReduceKind::Min, shard::ReductionKind::Min},
    {ReduceKind::And, shard::ReductionKind::BitwiseAnd},
    {ReduceKind::Or, shard::ReductionKind::BitwiseOr},
};

/// The same reduction in the other dialect; null where there is none.
static Attribute reductionInOther(Attribute reduction) {
  for (auto [ours, theirs] : kReductions) {
    Attribute here = ReduceKindAttr::get(reduction.getContext(), ours);
    Attribute there = shard::ReductionKindAttr::get(reduction.getContext(), theirs);
    if (reduction == here || reduction == there)
      return reduction == here ? there : here;
  }
  return {};
}

/// Dimensions are i64 here, indices there.
static Attribute dimensionInOther(IntegerAttr dim) {
  Builder builder(dim.getContext());
  int64_t number = dim.getValue().getSExtValue();
  return dim.getType().isIndex() ? builder.getI64IntegerAttr(number) : builder.getIndexAttr(number);
}

FailureOr<Attribute> mlir::autopar::axesInOther(Operation *op, FlatSymbolRefAttr mesh,
                                                Attribute axes, const AxisNames &meshes) {
  ArrayAttr names = meshes.lookup(mesh.getAttr());
  if (!names)
    return op->emitOpError() << "refers to mesh " << mesh << ", which is not in this module";
  Builder builder(op->getContext());
  if (auto numbers = dyn_cast<DenseI16ArrayAttr>(axes))
    return builder.getArrayAttr(
        llvm::map_to_vector(numbers.asArrayRef(), [&](int16_t number) { return names[number]; }));
  auto numberOf = [&](Attribute name) { return int16_t(llvm::find(names, name) - names.begin()); };
  return builder.getDenseI16ArrayAttr(llvm::map_to_vector(cast<ArrayAttr>(axes), numberOf));
}

FailureOr<Operation *> mlir::autopar::collectiveInOther(Operation *op, const AxisNames &meshes) {
  StringRef name = op->getName().getStringRef();
  const Collective *found = llvm::find_if(kCollectives, [&](const Collective &one) {
    return name == one.names.ours || name == one.names.theirs;
  });
  if (found == std::end(kCollectives))
    return nullptr;
  bool isOurs = name == found->names.ours;
  auto here = [&](Names names) { return isOurs ? names.ours : names.theirs; };
  auto there = [&](Names names) { return isOurs ? names.theirs : names.ours; };
  auto mesh = op->getAttrOfType<FlatSymbolRefAttr>(here(kMesh));
  FailureOr<Attribute> axes = axesInOther(op, mesh, op->getAttr(here(kAxes)), meshes);
  if (failed(axes))
    return failure();
  OperationState state(op->getLoc(), there(found->names), op->getOperands(), op->getResultTypes());
  state.addAttribute(there(kMesh), mesh);
  state.addAttribute(there(kAxes), *axes);
  for (Names names : found->attributes) {
    Attribute value = op->getAttr(here(names));
    auto dim = dyn_cast<IntegerAttr>(value);
    Attribute same = dim ? dimensionInOther(dim) : reductionInOther(value);
    if (!same)
      return op->emitOpError("has a reduction that AutoPar has no equal for");
    state.addAttribute(there(names), same);
  }
  return OpBuilder(op).create(state);
}
