// SPDX-License-Identifier: Apache-2.0
// See the header. A row is walked over in strips of as many sums as a vector holds. The bytes of a
// side that the kernel makes (halves of bytes) are made for a strip first, element by element, in a
// buffer, where rows of the product share them; bytes that stand in memory are read there.
#include "ByteSums.h"

#include "ByteDotSums.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Parts that are written out.
constexpr int64_t mostParts = 8;

/// One side of the products: bytes at an index over the sum's row domain.
struct Side {
  Value bytes;
  SmallVector<AffineExpr> index;
};

/// What a sum of i32 multiplies, if that is bytes; through operations that only move elements.
std::optional<Side> bytesOf(Value value, SmallVector<AffineExpr> index) {
  bool isWidened = false;
  while (auto op = value.getDefiningOp<ElementLoweringOpInterface>()) {
    AffineMap map = op->getNumOperands() == 1 ? op.getOperandMap(0) : AffineMap();
    bool widens = isa<CastOp>(*op) && !isWidened && elementTypeOf(op->getOperand(0)).isInteger(8);
    if (!map || op.getRowDomain() || !op.getPositionDimensions().empty() ||
        !(widens || op.getElementCost() == 0))
      break;
    isWidened |= widens;
    index = applyMap(map, index);
    value = op->getOperand(0);
  }
  return isWidened ? std::optional(Side{value, index}) : std::nullopt;
}

/// One sum of a kernel, and where its dimensions are in its row domain.
class ByteSumEmitter {
public:
  ByteSumEmitter(KernelFrame &kernel, ElementEmitter &emitter, ReduceOp op, ByteDots dots)
      : kernel(kernel), emitter(emitter), plan(emitter.plan), op(op), dots(dots), loc(op.getLoc()),
        context(op.getContext()), domain(shapeOf(op.getInput())) {}

  /// Whether the sum is one per place of the kernel's rows, of bytes side by side.
  bool match();
  void emit(OpBuilder &builder);

private:
  bool takeSides();
  bool liesAlong(Value value, ArrayRef<AffineExpr> index) const;
  bool dependsOnRows(const Side &side) const;
  SmallVector<AffineExpr> placed(const Side &side, int64_t part) const;
  Value made(OpBuilder &builder, const Side &side);
  Value vectorAt(OpBuilder &builder, const Side &side, Value buffer, int64_t part, int64_t first);
  Value sumsOf(OpBuilder &builder, SmallVector<Value> vectors);
  void emitStrip(OpBuilder &builder, Value start);
  SmallVector<AffineExpr> partIndex(int64_t part) const;

  KernelFrame &kernel;
  ElementEmitter &emitter;
  const KernelPlan &plan;
  ReduceOp op;
  ByteDots dots;
  Location loc;
  MLIRContext *context;

  ArrayRef<int64_t> domain;
  SmallVector<int64_t> kept;  ///< dimensions of the domain that are not summed
  SmallVector<int64_t> parts; ///< that are summed, but for `along`
  int64_t row = -1;           ///< the dimension along the kernel's rows
  int64_t along = -1;         ///< the summed one along which bytes lie side by side
  int64_t run = 0;            ///< bytes of it
  int64_t rowLength = 0, partCount = 1;
  ByteVectors size;
  Side sides[2]; ///< without a sign, with one
  KeptElements sums;
  unsigned place = 0, byte = 0; ///< atoms: first sum of the strip, byte of it
};

//===-- what is summed -----------------------------------------------------------------------===//

bool ByteSumEmitter::takeSides() {
  auto product = op.getInput().getDefiningOp<BinaryOp>();
  if (!product || product.getKind() != BinaryKind::Mul)
    return false;
  SmallVector<AffineExpr> identity;
  for (unsigned dim = 0; dim < domain.size(); ++dim)
    identity.push_back(getAffineDimExpr(dim, context));
  for (Value operand : product->getOperands()) {
    std::optional<Side> side = bytesOf(operand, identity);
    if (!side)
      return false;
    sides[elementTypeOf(side->bytes).isUnsignedInteger() ? 0 : 1] = *side;
  }
  return sides[0].bytes && sides[1].bytes;
}

/// Whether `value` is made of what lies side by side along the row: over `run` bytes, and those of
/// one place behind those of the place before.
bool ByteSumEmitter::liesAlong(Value value, ArrayRef<AffineExpr> index) const {
  if (emitter.bufferOf(value)) {
    LinearForm form = linearize(flatten(index, shapeOf(value), context), domain);
    int64_t step = form.coefficientOf(along);
    bool isWhole = value == sides[0].bytes || value == sides[1].bytes; // read as vectors
    return !form.isNonlinearIn(along) && !form.isNonlinearIn(row) &&
           (step == 1 || (step == 0 && !isWhole)) && form.coefficientOf(row) == step * run;
  }
  auto made = value.getDefiningOp<ElementLoweringOpInterface>();
  if (!made || made.getRowDomain())
    return false;
  for (int64_t dim : made.getPositionDimensions())
    if (index[dim].isFunctionOfDim(row) || index[dim].isFunctionOfDim(along))
      return false;
  for (auto [number, operand] : llvm::enumerate(made->getOperands())) {
    AffineMap map = made.getOperandMap(number);
    if (!map || !liesAlong(operand, applyMap(map, index)))
      return false;
  }
  return true;
}

bool ByteSumEmitter::match() {
  if (plan.columnLoop >= 0 || plan.rows.rowDims.size() != 1 ||
      plan.rows.rowDims.front() + 1 != static_cast<int64_t>(plan.domainShape.size()) ||
      ArrayRef<int64_t>(plan.domainShape) != shapeOf(op.getResult()) || op.getDims().empty() ||
      !takeSides())
    return false;
  for (int64_t dim = 0; dim < static_cast<int64_t>(domain.size()); ++dim)
    (llvm::is_contained(op.getDims(), dim) ? parts : kept).push_back(dim);
  row = kept.back();
  along = parts.pop_back_val();
  run = domain[along];
  rowLength = domain[row];
  for (int64_t dim : parts)
    partCount *= domain[dim];
  size = ByteVectors::of(dots, rowLength, run);
  return size && partCount <= mostParts &&
         llvm::all_of(sides, [&](Side &side) { return liesAlong(side.bytes, side.index); });
}

//===-- vectors ------------------------------------------------------------------------------===//

/// Where a side is read for byte `byte` of the strip from `place` on.
SmallVector<AffineExpr> ByteSumEmitter::placed(const Side &side, int64_t part) const {
  SmallVector<AffineExpr> dims(domain.size());
  for (auto [number, dim] : llvm::enumerate(kept))
    dims[dim] = plan.domainIndex[number];
  for (int64_t dim : llvm::reverse(parts)) {
    dims[dim] = getAffineConstantExpr(part % domain[dim], context);
    part /= domain[dim];
  }
  dims[row] = getAffineDimExpr(place, context);
  dims[along] = getAffineDimExpr(byte, context);
  return llvm::map_to_vector(side.index, [&](AffineExpr expr) { return expr.replaceDims(dims); });
}

bool ByteSumEmitter::dependsOnRows(const Side &side) const {
  return llvm::any_of(placed(side, 0), [&](AffineExpr expr) {
    return llvm::any_of(plan.partLoops, [&](unsigned loop) { return expr.isFunctionOfDim(loop); });
  });
}

/// A buffer with the strip's bytes of a side, part by part; null if they stand in memory.
Value ByteSumEmitter::made(OpBuilder &builder, const Side &side) {
  if (emitter.bufferOf(side.bytes))
    return {};
  int64_t length = size.strip * run;
  Value buffer = emitBuffer(kernel, loc, partCount * length, builder.getI8Type());
  LoopBounds bytes{byte, indexConstant(builder, loc, 0), indexConstant(builder, loc, length)};
  emitNest(builder, emitter, bytes, {}, [&](OpBuilder &inner, ValueRange) {
    for (int64_t part = 0; part < partCount; ++part) {
      Value element = emitter.evaluate(inner, side.bytes, placed(side, part));
      KeptElements slot{buffer, getAffineDimExpr(byte, context) + part * length,
                        builder.getI8Type()};
      emitter.storeAt(inner, slot, element);
    }
    return SmallVector<Value>();
  });
  return buffer;
}

Value ByteSumEmitter::vectorAt(OpBuilder &builder, const Side &side, Value buffer, int64_t part,
                               int64_t first) {
  VectorType type = ByteDotSums::bytes(builder, dots);
  if (buffer)
    return vector::LoadOp::create(builder, loc, type, buffer,
                                  indexConstant(builder, loc, part * size.strip * run + first));
  emitter.bind(byte, indexConstant(builder, loc, first));
  Value offset = emitter.offsetOf(builder, side.bytes, placed(side, part));
  return vector::LoadOp::create(builder, loc, type, emitter.bufferOf(side.bytes), offset);
}

/// The sums of `run` bytes each, from vectors of sums of four bytes: neighbours are added until one
/// is left of each.
Value ByteSumEmitter::sumsOf(OpBuilder &builder, SmallVector<Value> vectors) {
  auto lengthOf = [](Value value) { return cast<VectorType>(value.getType()).getDimSize(0); };
  for (int64_t length = run; length > ByteVectors::terms; length /= 2) {
    SmallVector<Value> halved;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      Value first = vectors[i], second = vectors.size() > 1 ? vectors[i + 1] : first;
      int64_t lanes = lengthOf(first), wanted = vectors.size() > 1 ? lanes : lanes / 2;
      Value sum;
      for (int64_t odd : {0, 1}) {
        SmallVector<int64_t> chosen;
        for (int64_t lane = 0; lane < wanted; ++lane)
          chosen.push_back(2 * lane + odd);
        Value half = vector::ShuffleOp::create(builder, loc, first, second, chosen);
        sum = sum ? arith::AddIOp::create(builder, loc, sum, half).getResult() : half;
      }
      halved.push_back(sum);
    }
    vectors = halved;
  }
  return vectors.front();
}

//===-- strips -------------------------------------------------------------------------------===//

void ByteSumEmitter::emitStrip(OpBuilder &builder, Value start) {
  emitter.rebind(place, start);
  Value buffers[2];
  for (auto [side, buffer] : llvm::zip(sides, buffers))
    if (!dependsOnRows(side))
      buffer = made(builder, side);
  int64_t rows = 1;
  for (unsigned loop : plan.partLoops)
    rows *= plan.loops[loop].extent;
  for (int64_t number = 0; number < rows; ++number) {
    int64_t rest = number;
    for (unsigned loop : llvm::reverse(plan.partLoops)) {
      emitter.rebind(loop, indexConstant(builder, loc, rest % plan.loops[loop].extent));
      rest /= plan.loops[loop].extent;
    }
    for (auto [side, buffer] : llvm::zip(sides, buffers))
      if (dependsOnRows(side))
        buffer = made(builder, side);
    ByteDotSums added(builder, loc, dots, mostBitsOf(dots), size.vectors);
    for (int64_t part = 0; part < partCount; ++part)
      for (int64_t i = 0; i < size.vectors; ++i) {
        int64_t first = i * size.bytes;
        Value a = vectorAt(builder, sides[0], buffers[0], part, first),
              b = vectorAt(builder, sides[1], buffers[1], part, first);
        added.add(builder, i, a, b);
      }
    Value slot = indexConstant(builder, loc, number * rowLength);
    slot = arith::AddIOp::create(builder, loc, slot, start);
    vector::StoreOp::create(builder, loc, sumsOf(builder, added.take(builder)), sums.memref, slot);
  }
}

void ByteSumEmitter::emit(OpBuilder &builder) {
  int64_t rows = 1;
  AffineExpr slot = getAffineConstantExpr(0, context);
  for (unsigned loop : plan.partLoops) {
    rows *= plan.loops[loop].extent;
    slot = slot * plan.loops[loop].extent + getAffineDimExpr(loop, context);
  }
  sums = {emitBuffer(kernel, loc, rows * rowLength, builder.getI32Type()),
          slot * rowLength + plan.domainIndex.back(), builder.getI32Type()};
  place = emitter.addAtom(rowLength);
  byte = emitter.addAtom(run);
  Value zero = indexConstant(builder, loc, 0), last = indexConstant(builder, loc, rowLength);
  emitFor(builder, loc, zero, last, indexConstant(builder, loc, size.strip), {},
          [&](OpBuilder &inner, Value start, ValueRange) {
            if (rowLength % size.strip != 0) // the last strip lies over the one before
              start = arith::MinSIOp::create(inner, loc, start,
                                             indexConstant(inner, loc, rowLength - size.strip));
            emitStrip(inner, start);
            return SmallVector<Value>();
          });
  emitter.forget();
  emitter.keep(op.getResult(), sums);
  if (dots != ByteDots::Vnni)
    return;
  auto function = builder.getInsertionBlock()->getParentOp()->getParentOfType<func::FuncOp>();
  if (!function)
    function = cast<func::FuncOp>(builder.getInsertionBlock()->getParentOp());
  function->setAttr(kMultipliesBytes, builder.getUnitAttr());
}

} // namespace

void autopar::emitByteSums(OpBuilder &builder, KernelFrame &kernel, ElementEmitter &emitter) {
  for (Operation *op : emitter.body.ops)
    if (std::optional<ByteDots> dots = byteDotsOf(op); dots && isa<ReduceOp>(op))
      if (ByteSumEmitter bytes(kernel, emitter, cast<ReduceOp>(op), *dots); bytes.match())
        bytes.emit(builder);
}
