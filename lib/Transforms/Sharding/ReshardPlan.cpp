// SPDX-License-Identifier: Apache-2.0
// Resharding by at most one pass over the dimensions: complete partial values, exchange dimensions,
// slice what is free, gather what has to go, slice the rest. Uneven dimensions are only ever
// gathered and sliced whole, since blocks of different shard counts do not line up. Partial values
// that stay partial are moved as they are.
#include "autopar/Transforms/ReshardPlan.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

using Kind = ReshardStep::Kind;

class Planner {
public:
  Planner(ArrayRef<int64_t> shape, const TensorSharding &from, const TensorSharding &to,
          const MeshAxes &mesh)
      : shape(shape), current(from), target(to), mesh(mesh) {}

  SmallVector<ReshardStep> run() {
    completePartial();
    exchange();
    sliceFree();
    gather();
    sliceFree();
    mask();
    assert(current == target && "resharding must arrive");
    return std::move(steps);
  }

private:
  void add(Kind kind, int64_t dim, int64_t concatDim, AxisList axes) {
    steps.push_back({kind, dim, concatDim, std::move(axes), current});
  }

  bool isEven(int64_t dim, const AxisList &axes) const {
    return shape[dim] % mesh.shards(axes) == 0;
  }

  /// The axes of `list` behind its first `prefix` ones.
  static AxisList suffix(const AxisList &list, size_t prefix) {
    return AxisList(list.begin() + prefix, list.end());
  }

  static bool startsWith(const AxisList &list, const AxisList &prefix) {
    return prefix.size() <= list.size() && std::equal(prefix.begin(), prefix.end(), list.begin());
  }

  /// The axes whose partial values have to be completed: all that the target does not keep.
  AxisList toComplete() const {
    AxisList axes;
    bool mayKeep = current.reduction == target.reduction;
    for (int8_t axis : current.partial)
      if (!mayKeep || !llvm::is_contained(target.partial, axis))
        axes.push_back(axis);
    return axes;
  }

  void dropPartial(const AxisList &axes) {
    llvm::erase_if(current.partial, [&](int8_t axis) { return llvm::is_contained(axes, axis); });
  }

  void completePartial() {
    for (auto [dim, wanted] : llvm::enumerate(target.dims)) {
      AxisList &have = current.dims[dim];
      AxisList open = toComplete();
      if (open.empty() || !startsWith(wanted, have) || wanted == have)
        continue;
      AxisList extra = suffix(wanted, have.size());
      bool allPartial =
          llvm::all_of(extra, [&](int8_t axis) { return llvm::is_contained(open, axis); });
      if (!allPartial || (!have.empty() && !isEven(dim, wanted)))
        continue;
      have = wanted;
      dropPartial(extra);
      add(Kind::ReduceScatter, dim, -1, extra);
    }
    AxisList axes = toComplete();
    if (axes.empty())
      return;
    dropPartial(axes);
    add(Kind::AllReduce, -1, -1, axes);
  }

  void mask() {
    AxisList missing;
    for (int8_t axis : target.partial)
      if (!llvm::is_contained(current.partial, axis))
        missing.push_back(axis);
    if (missing.empty())
      return;
    current.partial = target.partial;
    current.reduction = target.reduction;
    add(Kind::Mask, -1, -1, missing);
  }

  /// Axes that leave the end of one dimension for the end of another move in one all-to-all.
  void exchange() {
    for (size_t source = 0; source < shape.size(); ++source)
      for (size_t dest = 0; dest < shape.size(); ++dest) {
        const AxisList &have = current.dims[source], &wanted = target.dims[source];
        if (source == dest || have.size() <= wanted.size() || !startsWith(have, wanted))
          continue;
        AxisList moving = suffix(have, wanted.size());
        AxisList joined = current.dims[dest];
        llvm::append_range(joined, moving);
        if (!startsWith(target.dims[dest], joined) || !isEven(source, have) ||
            !isEven(dest, joined) || !isEven(dest, target.dims[dest]))
          continue;
        current.dims[source] = wanted;
        current.dims[dest] = joined;
        add(Kind::AllToAll, dest, source, moving);
      }
  }

  bool isFree(int8_t axis) const {
    return llvm::none_of(current.dims,
                         [&](const AxisList &list) { return llvm::is_contained(list, axis); });
  }

  void sliceFree() {
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      AxisList &have = current.dims[dim];
      const AxisList &wanted = target.dims[dim];
      if (have == wanted || !startsWith(wanted, have) || (!have.empty() && !isEven(dim, wanted)))
        continue;
      AxisList extra = suffix(wanted, have.size());
      if (!llvm::all_of(extra, [&](int8_t axis) { return isFree(axis); }))
        continue;
      have = wanted;
      add(Kind::Slice, dim, -1, extra);
    }
  }

  void gather() {
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      AxisList &have = current.dims[dim];
      const AxisList &wanted = target.dims[dim];
      if (have == wanted)
        continue;
      size_t keep = 0;
      while (keep < have.size() && keep < wanted.size() && have[keep] == wanted[keep])
        ++keep;
      if (!isEven(dim, have) || !isEven(dim, wanted))
        keep = 0;
      if (keep == have.size())
        continue;
      AxisList axes = suffix(have, keep);
      have.resize(keep);
      add(Kind::AllGather, dim, -1, axes);
    }
  }

  ArrayRef<int64_t> shape;
  TensorSharding current;
  const TensorSharding &target;
  const MeshAxes &mesh;
  SmallVector<ReshardStep> steps;
};

} // namespace

StringRef mlir::autopar::nameOf(ReshardStep::Kind kind) {
  switch (kind) {
  case Kind::AllReduce:
    return "all_reduce";
  case Kind::ReduceScatter:
    return "reduce_scatter";
  case Kind::AllGather:
    return "all_gather";
  case Kind::AllToAll:
    return "all_to_all";
  case Kind::Slice:
    return "slice";
  case Kind::Mask:
    return "mask";
  }
  llvm_unreachable("all kinds are listed");
}

SmallVector<ReshardStep> mlir::autopar::planReshard(ArrayRef<int64_t> shape,
                                                    const TensorSharding &from,
                                                    const TensorSharding &to,
                                                    const MeshAxes &mesh) {
  if (from == to)
    return {};
  return Planner(shape, from, to, mesh).run();
}
