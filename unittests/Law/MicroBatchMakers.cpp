// SPDX-License-Identifier: Apache-2.0
// Micro-batches and what becomes of them; what changes stage; updates.
#include "Drawer.h"

using namespace autopar_law;

namespace {

/// All graphs have as many.
constexpr int64_t microBatches = 2;

DrawnValue microBatch(Drawer &d) {
  SmallVector<int64_t> shape = d.shape(1 + d.below(2)), all{microBatches};
  llvm::append_range(all, shape);
  DrawnValue x = d.argument(all, d.f32());
  return {MicroBatchOp::create(d.builder, d.loc, d.type(shape, d.f32()), x.value), true, x.bound,
          x.fractionBits};
}

DrawnValue stack(Drawer &d, const DrawnValue &part) {
  SmallVector<int64_t> all{microBatches};
  llvm::append_range(all, d.typeOf(part).getShape());
  Value result = StackMicroBatchesOp::create(d.builder, d.loc, d.type(all, d.f32()), part.value);
  return {result, part.exact, part.bound, part.fractionBits};
}

/// Some combined over all micro-batches, of which the first may be a partial value on a mesh.
DrawnValue accumulate(Drawer &d, DrawnValue x) {
  static constexpr ReduceKind kinds[] = {ReduceKind::Sum, ReduceKind::Sum, ReduceKind::Max};
  if (d.below(2)) {
    double extent = d.typeOf(x).getDimSize(0);
    x = d.exactly(
        ReduceOp::create(d.builder, d.loc, ReduceKind::Sum, x.value, ArrayRef<int64_t>{0}),
        x.bound * extent, x.fractionBits);
  }
  Value result =
      AccumulateOp::create(d.builder, d.loc, x.value.getType(), kinds[d.below(3)], x.value);
  return d.exactly(result, x.bound * microBatches, x.fractionBits, x.exact);
}

std::optional<DrawnValue> makeMicroBatch(Drawer &d) {
  return d.below(2) ? stack(d, microBatch(d)) : accumulate(d, microBatch(d));
}

std::optional<DrawnValue> makeMicroBatchIndex(Drawer &d) {
  Value number = MicroBatchIndexOp::create(d.builder, d.loc, d.type({}, d.builder.getI64Type()));
  Value line = BroadcastOp::create(d.builder, d.loc, d.type({d.extent()}, d.f32()),
                                   CastOp::create(d.builder, d.loc, d.type({}, d.f32()), number),
                                   ArrayRef<int64_t>{});
  return stack(d, {line, true, microBatches, 0});
}

std::optional<DrawnValue> makeAccumulate(Drawer &d) { return accumulate(d, microBatch(d)); }
std::optional<DrawnValue> makeStack(Drawer &d) { return stack(d, microBatch(d)); }

/// From a stage to itself: stages proper are cut after the draw.
std::optional<DrawnValue> makeTransfer(Drawer &d) {
  DrawnValue x = d.argument(d.shape(1 + d.below(2)), d.f32());
  x.value = TransferOp::create(d.builder, d.loc, x.value.getType(), x.value, 0);
  return x;
}

/// Behind a gradient of another shape.
std::optional<DrawnValue> makeFence(Drawer &d) {
  DrawnValue x = d.argument(d.shape(1 + d.below(2)), d.f32());
  DrawnValue gradient = d.argument(d.shape(1), d.f32());
  auto fence = FenceOp::create(d.builder, d.loc, x.value.getType(), x.value, gradient.value);
  x.value = fence.getResult(0);
  return x;
}

/// a - rate * b by a formula of its own.
std::optional<DrawnValue> makeUpdate(Drawer &d) {
  SmallVector<int64_t> shape = d.shape(1 + d.below(2));
  DrawnValue a = d.argument(shape, d.f32()), b = d.argument(shape, d.f32()),
             rate = d.argument({}, d.f32());
  auto module = d.function->getParentOfType<ModuleOp>();
  std::string name = "formula." + std::to_string(d.function.getNumArguments());
  {
    OpBuilder::InsertionGuard guard(d.builder);
    d.builder.setInsertionPointToStart(module.getBody());
    Block &body = FormulaOp::create(d.builder, d.loc, name).getBody().emplaceBlock();
    body.addArguments(SmallVector<Type>(3, d.type({}, d.f32())), SmallVector<Location>(3, d.loc));
    d.builder.setInsertionPointToEnd(&body);
    Value step = d.binary(BinaryKind::Mul, body.getArgument(2), body.getArgument(1));
    YieldOp::create(d.builder, d.loc, d.binary(BinaryKind::Sub, body.getArgument(0), step));
  }
  auto next = UpdateOp::create(d.builder, d.loc, a.value.getType(), name,
                               ValueRange{a.value, b.value, rate.value});
  return d.exactly(next.getResult(0), a.bound + b.bound * rate.bound,
                   std::max(a.fractionBits, b.fractionBits + rate.fractionBits));
}

constexpr MakerRow makers[] = {
    {"micro_batch", makeMicroBatch}, {"micro_batch_index", makeMicroBatchIndex},
    {"accumulate", makeAccumulate},  {"stack_micro_batches", makeStack},
    {"transfer", makeTransfer},      {"fence", makeFence},
    {"update", makeUpdate}};

} // namespace

ArrayRef<MakerRow> autopar_law::microBatchMakers() { return makers; }
