// SPDX-License-Identifier: Apache-2.0
// What moves elements about.
#include "Drawer.h"

using namespace autopar_law;

namespace {

std::optional<DrawnValue> makeBroadcast(Drawer &d) {
  DrawnValue x = d.argument(d.shape(1 + d.below(2)), d.f32());
  SmallVector<int64_t> shape(d.typeOf(x).getShape()), dims;
  int64_t position = d.below(shape.size() + 1);
  shape.insert(shape.begin() + position, d.extent());
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    if (i != position)
      dims.push_back(i);
  Value result = BroadcastOp::create(d.builder, d.loc, d.type(shape, d.f32()), x.value, dims);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeReshape(Drawer &d) {
  int64_t a = d.extent(), b = d.extent(), c = d.extent();
  bool split = d.below(2);
  SmallVector<int64_t> flat{a, b * c}, deep{a, b, c};
  if (d.below(4) == 0)
    flat = {a * b * c};
  DrawnValue x = d.argument(split ? flat : deep, d.f32());
  Value result = ReshapeOp::create(d.builder, d.loc, d.type(split ? deep : flat, d.f32()), x.value);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeTranspose(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, d.typeOf(x).getRank()));
  std::shuffle(permutation.begin(), permutation.end(), d.random);
  return DrawnValue{TransposeOp::create(d.builder, d.loc, x.value, permutation), x.exact, x.bound,
                    x.fractionBits};
}

std::optional<DrawnValue> makeSlice(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> shape(d.typeOf(x).getShape()), starts(shape.size(), 0),
      steps(shape.size(), 1);
  int64_t dim = d.below(shape.size());
  if (d.below(2)) { // reversed
    starts[dim] = shape[dim] - 1;
    steps[dim] = -1;
  } else {
    starts[dim] = d.below(shape[dim]);
    shape[dim] = 1 + d.below(shape[dim] - starts[dim]);
  }
  Value result = SliceOp::create(d.builder, d.loc, d.type(shape, d.typeOf(x).getElementType()),
                                 x.value, starts, steps);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makePad(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> shape(d.typeOf(x).getShape()), low(shape.size(), 0);
  int64_t dim = d.below(shape.size());
  low[dim] = d.below(3);
  shape[dim] += low[dim] + d.below(3);
  Value result = PadOp::create(d.builder, d.loc, d.type(shape, d.f32()), x.value,
                               d.scalar(d.builder.getF32FloatAttr(1.5)), low);
  return d.exactly(result, std::max(1.5, x.bound), std::max(1, x.fractionBits), x.exact);
}

std::optional<DrawnValue> makeConcat(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> shape(d.typeOf(x).getShape());
  int64_t dim = d.below(shape.size());
  SmallVector<int64_t> other = shape;
  other[dim] = d.extent();
  DrawnValue y = d.argument(other, d.typeOf(x).getElementType());
  shape[dim] += other[dim];
  Value result = ConcatOp::create(d.builder, d.loc, d.type(shape, d.typeOf(x).getElementType()),
                                  ValueRange{x.value, y.value}, dim);
  return d.exactly(result, std::max(x.bound, y.bound), std::max(x.fractionBits, y.fractionBits),
                   x.exact);
}

std::optional<DrawnValue> makeDynamicSlice(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> shape(d.typeOf(x).getShape());
  SmallVector<Value> starts;
  for (int64_t &size : shape) {
    int64_t start = d.below(size);
    starts.push_back(d.scalar(d.builder.getI64IntegerAttr(start)));
    size = std::max<int64_t>(1, size - start);
  }
  Value result = DynamicSliceOp::create(
      d.builder, d.loc, d.type(shape, d.typeOf(x).getElementType()), x.value, starts);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeGather(Drawer &d) {
  DrawnValue x = d.floats(2, false, 3);
  RankedTensorType type = d.typeOf(x);
  int64_t dim = d.below(type.getRank()), count = d.extent(), batch = d.below(dim + 1);
  SmallVector<int64_t> shape(type.getShape()), places(type.getShape().take_front(batch));
  places.append({count, 1});
  Value positions = d.indices(places, type.getDimSize(dim));
  shape[dim] = count;
  Value result =
      GatherOp::create(d.builder, d.loc, d.type(shape, type.getElementType()), x.value, positions,
                       d.builder.getDenseI64ArrayAttr({dim}), d.builder.getI64IntegerAttr(batch));
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeGatherElements(Drawer &d) {
  DrawnValue x = d.floats(2);
  RankedTensorType type = d.typeOf(x);
  int64_t dim = d.below(type.getRank());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = d.extent();
  Value positions = d.indices(shape, type.getDimSize(dim));
  Value result = GatherElementsOp::create(d.builder, d.loc, d.type(shape, type.getElementType()),
                                          x.value, positions, dim);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeScatter(Drawer &d) {
  DrawnValue x = d.floats(2);
  RankedTensorType type = d.typeOf(x);
  int64_t batch = d.below(2), count = 1 + d.below(type.getDimSize(batch));
  SmallVector<int64_t> updates(type.getShape());
  updates[batch] = count;
  DrawnValue u = d.argument(updates, type.getElementType());
  ScatterKind kind = d.below(2) ? ScatterKind::Add : ScatterKind::Assign;
  Value positions =
      d.distinctIndices(type.getShape().take_front(batch), count, type.getDimSize(batch));
  Value result =
      ScatterOp::create(d.builder, d.loc, type, kind, x.value, positions, u.value, batch);
  return d.exactly(result, x.bound + u.bound, std::max(x.fractionBits, u.fractionBits), x.exact);
}

std::optional<DrawnValue> makeScatterElements(Drawer &d) {
  DrawnValue x = d.floats(2, true);
  RankedTensorType type = d.typeOf(x);
  int64_t dim = d.below(type.getRank());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = 1 + d.below(shape[dim]);
  Value positions = d.indices(shape, type.getDimSize(dim));
  DrawnValue u = d.argument(shape, type.getElementType());
  Value result = ScatterElementsOp::create(d.builder, d.loc, type, ScatterKind::Add, x.value,
                                           positions, u.value, dim);
  return d.exactly(result, x.bound + u.bound * shape[dim], std::max(x.fractionBits, u.fractionBits),
                   x.exact);
}

constexpr MakerRow makers[] = {{"broadcast", makeBroadcast},
                               {"reshape", makeReshape},
                               {"transpose", makeTranspose},
                               {"slice", makeSlice},
                               {"pad", makePad},
                               {"concat", makeConcat},
                               {"dynamic_slice", makeDynamicSlice},
                               {"gather", makeGather},
                               {"gather_elements", makeGatherElements},
                               {"scatter", makeScatter},
                               {"scatter_elements", makeScatterElements}};

} // namespace

ArrayRef<MakerRow> autopar_law::movementMakers() { return makers; }
