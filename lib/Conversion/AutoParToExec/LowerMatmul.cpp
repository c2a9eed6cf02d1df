// SPDX-License-Identifier: Apache-2.0
// dot_general becomes a library call on strided views: batch, row, column and contracted dimensions
// are merged where the strides allow it, so that transposes and reshapes around a product cost
// nothing; an operand whose strides do not allow it is copied into order first.
#include "LibraryCall.h"

#include "autopar/Artifact/CudaScratch.h"
#include "autopar/CpuMath/PackedSize.h"
#include "autopar/Dialect/Exec/IR/Geometry.h"
#include "autopar/Transforms/LibraryContraction.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

SmallVector<int64_t> pick(ArrayRef<int64_t> list, ArrayRef<int64_t> which) {
  return llvm::map_to_vector(which, [&](int64_t i) { return list[i]; });
}

/// The dimensions of one operand (or the result) by their part in the product.
struct Part {
  SmallVector<int64_t> extents, strides;
  int64_t extent() const { return llvm::product_of(extents); }
  std::optional<int64_t> merged() const { return mergedStride(extents, strides); }
};
struct Operand {
  StridedView view;
  Part batch, outer, inner; ///< a: batch, M, K; b: batch, K, N; c: batch, M, N
};

Operand operandOf(RankedTensorType type, StridedView view, ArrayRef<int64_t> batch,
                  ArrayRef<int64_t> outer, ArrayRef<int64_t> inner) {
  auto part = [&](ArrayRef<int64_t> dims) {
    return Part{pick(type.getShape(), dims), pick(view.strides, dims)};
  };
  Operand operand{view, part(batch), part(outer), part(inner)};
  return operand;
}

/// Whether the library can walk the operand as [batch..., outer, inner] with one unit stride.
bool isWalkable(const Operand &operand) {
  std::optional<int64_t> outer = operand.outer.merged(), inner = operand.inner.merged();
  return outer && inner &&
         (*inner == 1 || *outer == 1 || operand.inner.extent() == 1 || operand.outer.extent() == 1);
}

/// Copies an operand into [batch..., outer..., inner...] order.
FailureOr<Operand> copyInOrder(ProgramBuilder &program, Operation *op, Value value,
                               ArrayRef<int64_t> batch, ArrayRef<int64_t> outer,
                               ArrayRef<int64_t> inner) {
  auto scope = program.placeWith(value);
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> order = llvm::to_vector(llvm::concat<const int64_t>(batch, outer, inner));
  FailureOr<Value> source = program.rowMajorBuffer(value);
  if (failed(source))
    return failure();
  auto ordered = RankedTensorType::get(pick(type.getShape(), order), type.getElementType());
  Value buffer = program.createBuffer(getOpId(op) + ".ordered", ordered);
  auto permute = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
    return {TransposeOp::create(builder, op->getLoc(), inputs[0], order)};
  };
  if (failed(program.launchGroup(op, {type}, {*source}, {ordered}, {buffer}, permute)))
    return failure();
  StridedView view{buffer, denseStrides(ordered.getShape())};
  SmallVector<int64_t> numbers = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  ArrayRef<int64_t> all(numbers);
  return operandOf(ordered, view, all.take_front(batch.size()),
                   all.slice(batch.size(), outer.size()), all.take_back(inner.size()));
}

/// Joins neighbouring batch dimensions that all three operands can walk as one.
void mergeBatch(Operand &a, Operand &b, Operand &c) {
  SmallVector<int64_t> extents, strides[3];
  Operand *operands[] = {&a, &b, &c};
  for (size_t i = 0; i < c.batch.extents.size(); ++i) {
    int64_t extent = c.batch.extents[i];
    if (extent == 1)
      continue;
    bool joins = !extents.empty();
    for (int k = 0; k < 3 && joins; ++k)
      joins = strides[k].back() == operands[k]->batch.strides[i] * extent;
    if (joins)
      extents.back() *= extent;
    else
      extents.push_back(extent);
    for (int k = 0; k < 3; ++k) {
      if (joins)
        strides[k].back() = operands[k]->batch.strides[i];
      else
        strides[k].push_back(operands[k]->batch.strides[i]);
    }
  }
  for (int k = 0; k < 3; ++k)
    operands[k]->batch = Part{extents, strides[k]};
}

exec::StridedAttr stridedAttr(Type elementType, const Operand &operand) {
  SmallVector<int64_t> dims = operand.batch.extents, strides = operand.batch.strides;
  int64_t outer = operand.outer.extent(), inner = operand.inner.extent();
  int64_t outerStride = *operand.outer.merged(), innerStride = *operand.inner.merged();
  // The stride along an extent of 1 is free: say what a dense matrix would have.
  if (inner == 1 && outer != 1)
    innerStride = outerStride == 1 ? outer : 1;
  if (outer == 1)
    outerStride = innerStride == 1 ? inner : 1;
  dims.append({outer, inner});
  strides.append({outerStride, innerStride});
  return exec::StridedAttr::get(elementType.getContext(), elementType, dims, strides);
}

/// Operands of a product, decided.
struct Product {
  Operand a, b, c;
  Value rhs; ///< the value that b shows
  std::optional<PackSource> packed;
};

Operand resultOperand(DotGeneralOp op, const StridedView &view) {
  size_t batch = op.getLhsBatch().size(), rows = op.getLhsFree().size();
  SmallVector<int64_t> numbers = llvm::to_vector(llvm::seq<int64_t>(0, op.getType().getRank()));
  ArrayRef<int64_t> all(numbers);
  return operandOf(op.getType(), view, all.take_front(batch), all.slice(batch, rows),
                   all.drop_front(batch + rows));
}

} // namespace

/// Sum of products as broadcast, multiply, reduce: for element types that the library does not
/// know.
static LogicalResult lowerAsLoops(ProgramBuilder &program, DotGeneralOp op) {
  auto result = op.getType();
  FailureOr<Value> lhs = program.rowMajorBuffer(op.getLhs()),
                   rhs = program.rowMajorBuffer(op.getRhs());
  if (failed(lhs) || failed(rhs))
    return failure();
  Value output = program.createRowMajorResult(op.getResult());
  SmallVector<int64_t> shape(result.getShape()), lhsDims(op.getLhs().getType().getRank()),
      rhsDims(op.getRhs().getType().getRank());
  int64_t next = 0;
  for (auto [l, r] : llvm::zip(op.getLhsBatch(), op.getRhsBatch()))
    lhsDims[l] = rhsDims[r] = next++;
  for (int64_t l : op.getLhsFree())
    lhsDims[l] = next++;
  for (int64_t r : op.getRhsFree())
    rhsDims[r] = next++;
  SmallVector<int64_t> contracted;
  for (auto [l, r] : llvm::zip(op.getLhsContract(), op.getRhsContract())) {
    shape.push_back(op.getLhs().getType().getDimSize(l));
    contracted.push_back(next);
    lhsDims[l] = rhsDims[r] = next++;
  }
  bool half = result.getElementType().isF16() || result.getElementType().isBF16();
  auto build = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
    Location loc = op.getLoc();
    Type element = half ? builder.getF32Type() : result.getElementType();
    auto spread = [&](Value value, ArrayRef<int64_t> dims) -> Value {
      auto type = cast<RankedTensorType>(value.getType());
      if (type.getElementType() != element)
        value = CastOp::create(builder, loc, type.clone(element), value);
      SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, dims.size()));
      llvm::sort(order, [&](int64_t x, int64_t y) { return dims[x] < dims[y]; });
      if (!llvm::is_sorted(dims))
        value = TransposeOp::create(builder, loc, value, order);
      return BroadcastOp::create(builder, loc, RankedTensorType::get(shape, element), value,
                                 pick(dims, order));
    };
    Value product = BinaryOp::create(builder, loc, BinaryKind::Mul, spread(inputs[0], lhsDims),
                                     spread(inputs[1], rhsDims));
    Value sum =
        ReduceOp::create(builder, loc, result.clone(element), ReduceKind::Sum, product, contracted);
    return {half ? CastOp::create(builder, loc, result, sum).getResult() : sum};
  };
  return program.launchGroup(op, {op.getLhs().getType(), op.getRhs().getType()}, {*lhs, *rhs},
                             {result}, {output}, build);
}

bool mlir::autopar::isRoundedByProduct(Operation *op) {
  auto rounding = dyn_cast<CastOp>(op);
  return rounding && rounding.getInput().getType().getElementType().isF32() &&
         rounding.getType().getElementType().isBF16() && rounding.getType().getNumElements() > 0 &&
         op->hasOneUse() && isa<DotGeneralOp>(*op->user_begin()) &&
         op->use_begin()->getOperandNumber() == 1;
}

/// What a product reads as its right side.
static Value readAsRhs(ProgramBuilder &program, DotGeneralOp op) {
  Operation *producer = op.getRhs().getDefiningOp();
  bool looksThrough = producer && isRoundedByProduct(producer) && !program.isLowered(op.getRhs());
  return looksThrough ? producer->getOperand(0) : Value(op.getRhs());
}

/// Lays the operand that the library sums up so that its terms are no neighbours.
static LogicalResult orderForSums(ProgramBuilder &program, DotGeneralOp op, exec::Epilogue epilogue,
                                  Product &product) {
  bool isOfA = epilogue == exec::Epilogue::SumsOfA;
  Operand &operand = isOfA ? product.a : product.b;
  Part &terms = isOfA ? operand.inner : operand.outer,
       &kept = isOfA ? operand.outer : operand.inner;
  if (kept.merged() == 1 || terms.extent() == 1)
    return success();
  FailureOr<Operand> copy = isOfA ? copyInOrder(program, op, op.getLhs(), op.getLhsBatch(),
                                                op.getLhsContract(), op.getLhsFree())
                                  : copyInOrder(program, op, product.rhs, op.getRhsBatch(),
                                                op.getRhsContract(), op.getRhsFree());
  if (failed(copy))
    return failure();
  operand = *copy;
  if (isOfA)
    std::swap(operand.outer, operand.inner);
  return success();
}

static FailureOr<Product> decide(ProgramBuilder &program, DotGeneralOp op, Value output,
                                 exec::Epilogue epilogue) {
  Product product;
  product.rhs = readAsRhs(program, op);
  SmallVector<int64_t> lhsFree = op.getLhsFree(), rhsFree = op.getRhsFree();
  auto rhsType = cast<RankedTensorType>(product.rhs.getType());
  product.packed = program.packSource(product.rhs, op);
  StridedView rhs =
      product.packed ? StridedView{Value(), product.packed->strides} : program.viewOf(product.rhs);
  product.a = operandOf(op.getLhs().getType(), program.viewOf(op.getLhs()), op.getLhsBatch(),
                        lhsFree, op.getLhsContract());
  product.b = operandOf(rhsType, rhs, op.getRhsBatch(), op.getRhsContract(), rhsFree);
  if (!isWalkable(product.a)) {
    FailureOr<Operand> copy =
        copyInOrder(program, op, op.getLhs(), op.getLhsBatch(), lhsFree, op.getLhsContract());
    if (failed(copy))
      return failure();
    product.a = *copy;
  }
  if (!isWalkable(product.b)) {
    product.packed.reset();
    FailureOr<Operand> copy =
        copyInOrder(program, op, product.rhs, op.getRhsBatch(), op.getRhsContract(), rhsFree);
    if (failed(copy))
      return failure();
    product.b = *copy;
  }
  bool sums = epilogue == exec::Epilogue::SumsOfA || epilogue == exec::Epilogue::SumsOfB;
  if (sums && failed(orderForSums(program, op, epilogue, product)))
    return failure();
  // Masks are of rows.
  bool hasMask = epilogue == exec::Epilogue::ReluAux || epilogue == exec::Epilogue::ReluGrad;
  auto fits = [&](ArrayRef<int64_t> strides) {
    Operand c = resultOperand(op, {Value(), SmallVector<int64_t>(strides)});
    return !hasMask && isWalkable(c) && (*c.inner.merged() == 1 || c.inner.extent() == 1);
  };
  product.c = resultOperand(op, program.createResult(output, fits));
  mergeBatch(product.a, product.b, product.c);
  return product;
}

/// A buffer for what the epilogue stores beside the result: what a GELU is given lies as the result
/// does.
static Value createAux(ProgramBuilder &program, const LibraryTail &tail,
                       const StridedView &result) {
  if (!tail.aux)
    return {};
  if (tail.epilogue != exec::Epilogue::GeluTanhAux)
    return program.createRowMajorResult(tail.aux);
  Value buffer = program.createRowMajorResult(tail.aux);
  program.setView(tail.aux, {buffer, result.strides});
  return buffer;
}

/// What the product reads as its residual: a mask has rows of its own.
static FailureOr<Value> residualBuffer(ProgramBuilder &program, const LibraryTail &tail,
                                       const StridedView &result) {
  if (!tail.residual)
    return Value();
  return tail.epilogue == exec::Epilogue::ReluGrad
             ? program.rowMajorBuffer(tail.residual)
             : program.bufferLaidOutAs(tail.residual, result.strides);
}

/// Bytes that the library may write on while it computes the product.
static FailureOr<int64_t> workspace(ProgramBuilder &program, DotGeneralOp op,
                                    exec::MatmulGeometryAttr geometry) {
  if (program.settings().target == Target::Cuda) {
    // For partial sums in f32 of up to 16 parts of the contracted dimension.
    constexpr int64_t most = int64_t{32} << 20;
    int64_t bytes = llvm::alignTo(64 * op.getType().getNumElements(),
                                  ::autopar::artifact::kCudaScratchAlignment);
    return std::min(most, bytes);
  }
  ::autopar::Result<int64_t> bytes =
      ::autopar::cpumath::scratchBytes(exec::toArtifact(geometry), program.settings().threads);
  if (!bytes.isOk())
    return op.emitOpError() << "the matrix library refuses this product: "
                            << bytes.status().message();
  return *bytes;
}

LogicalResult mlir::autopar::lowerDotGeneral(ProgramBuilder &program, DotGeneralOp op,
                                             const LibraryTail &tail, Value output) {
  RankedTensorType type = op.getType();
  bool contractsNothing = false;
  for (int64_t dim : op.getLhsContract())
    contractsNothing |= op.getLhs().getType().getDimSize(dim) == 0;
  bool isKnown =
      libraryKnows(type.getElementType(), program.settings().target) || isContractionOfBytes(op);
  if (!isKnown || contractsNothing) {
    if (!tail.isEmpty())
      return op.emitOpError("cannot be lowered with an epilogue for this element type");
    return lowerAsLoops(program, op);
  }
  FailureOr<Product> product = decide(program, op, output, tail.epilogue);
  if (failed(product))
    return failure();
  if (type.getNumElements() == 0)
    return success();
  FailureOr<Value> bias = Value(), residual = residualBuffer(program, tail, product->c.view);
  if (tail.bias)
    bias = program.rowMajorBuffer(tail.bias);
  if (failed(bias) || failed(residual))
    return failure();
  Value aux = createAux(program, tail, product->c.view);

  MLIRContext *context = op.getContext();
  Type biasType = tail.bias ? cast<RankedTensorType>(tail.bias.getType()).getElementType() : Type();
  FloatAttr scale =
      tail.scale == 1.0 ? FloatAttr() : FloatAttr::get(Float32Type::get(context), tail.scale);
  auto geometryWith = [&](bool packed) {
    return exec::MatmulGeometryAttr::get(
        context, stridedAttr(op.getLhs().getType().getElementType(), product->a),
        stridedAttr(cast<RankedTensorType>(product->rhs.getType()).getElementType(), product->b),
        stridedAttr(type.getElementType(), product->c), biasType, tail.residual != nullptr,
        tail.epilogue, scale, packed);
  };
  exec::MatmulGeometryAttr geometry = geometryWith(product->packed.has_value());
  Value b = product->b.view.buffer;
  if (product->packed) {
    b = program.packedForm(op, *product->packed, geometry);
    if (!b) {
      geometry = geometryWith(false);
      b = program.viewOf(product->rhs).buffer;
    }
  }
  FailureOr<int64_t> scratchBytes = workspace(program, op, geometry);
  if (failed(scratchBytes))
    return failure();
  Value scratch = program.createScratch(op, *scratchBytes);
  auto matmul =
      exec::MatmulOp::create(program.step(), op.getLoc(), product->a.view.buffer, b,
                             product->c.view.buffer, *bias, *residual, scratch, aux, geometry);
  program.describe(matmul, op, "product",
                   op.getFlops({op.getLhs().getType(), op.getRhs().getType()}, {type}));
  // The view of a strided operand spans more than what is read.
  int64_t bytes = 0;
  for (Value value : {Value(op.getLhs()), product->rhs, output, tail.bias, tail.residual, tail.aux})
    if (value)
      bytes += exec::tensorBytes(cast<RankedTensorType>(value.getType()));
  matmul->setAttr("bytes", Builder(context).getI64IntegerAttr(bytes));
  return success();
}
