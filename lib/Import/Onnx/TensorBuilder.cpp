// SPDX-License-Identifier: Apache-2.0
// Creation, verification and folding of operations during import.
#include "TensorBuilder.h"

#include "TensorData.h"

#include "autopar/Interfaces/ElementTypes.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::autopar;

std::string mlir::autopar::printShape(ArrayRef<int64_t> shape) {
  return "[" +
         llvm::join(llvm::map_range(shape, [](int64_t d) { return std::to_string(d); }), ", ") +
         "]";
}

TensorBuilder::TensorBuilder(Location file, Block *block)
    : builder(OpBuilder::atBlockEnd(block)), location(file), fileLocation(file), block(block) {}

LogicalResult TensorBuilder::fail(const Twine &message) {
  if (!hasFailed)
    emitError(fileLocation) << subject << message << advice;
  hasFailed = true;
  return failure();
}

std::vector<Operation *> TensorBuilder::takeCreated() { return std::exchange(created, {}); }

void TensorBuilder::requeue(std::vector<Operation *> operations) {
  operations.insert(operations.end(), created.begin(), created.end());
  created = std::move(operations);
}

/// Whether an operation computes with what is only moved and cast: narrow integers.
static bool computesNarrow(Operation *op) {
  auto isNarrow = [](Value value) { return isNarrowInteger(TensorBuilder::elementOf(value)); };
  return !isa<ViewOpInterface, CastOp, BroadcastOp, PadOp, ConcatOp, GatherOp, GatherElementsOp,
              SelectOp>(op) &&
         (llvm::any_of(op->getOperands(), isNarrow) || llvm::any_of(op->getResults(), isNarrow));
}

Value TensorBuilder::finish(Operation *op) {
  if (!hasFailed && computesNarrow(op))
    (void)fail("integers of 2 and 4 bits are only moved, cast and quantized; cast them to INT8 "
               "first");
  if (hasFailed) {
    created.push_back(op);
    return op->getResult(0);
  }
  if (mlir::failed(op->getName().verifyInvariants(op))) {
    hasFailed = true;
    created.push_back(op);
    return op->getResult(0);
  }
  SmallVector<DenseElementsAttr> operands;
  for (Value operand : op->getOperands()) {
    auto constant = operand.getDefiningOp<ConstantOp>();
    auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    if (!dense)
      break;
    operands.push_back(dense);
  }
  if (operands.size() == op->getNumOperands()) {
    if (auto values = evaluateConstant(op, operands)) {
      op->erase();
      return constant(values->front());
    }
  }
  created.push_back(op);
  return op->getResult(0);
}

bool TensorBuilder::hasDims(Value value, ArrayRef<int64_t> dims) {
  if (llvm::all_of(dims, [&](int64_t dim) { return dim >= 0 && dim < rankOf(value); }))
    return true;
  (void)fail("a tensor of shape " + printShape(shapeOf(value)) + " lacks dimensions " +
             printShape(dims));
  return false;
}

std::optional<DenseElementsAttr> TensorBuilder::constantOf(Value value) {
  return knownValue(value, lookUpValue, !hasFailed);
}

std::optional<SmallVector<int64_t>> TensorBuilder::integersOf(Value value) {
  std::optional<DenseElementsAttr> known = constantOf(value);
  return known ? integersIn(*known) : std::nullopt;
}

std::optional<SmallVector<double>> TensorBuilder::floatsOf(Value value) {
  std::optional<DenseElementsAttr> known = constantOf(value);
  return known ? floatsIn(*known) : std::nullopt;
}

RankedTensorType TensorBuilder::type(ArrayRef<int64_t> shape, Type element) {
  if (std::optional<RankedTensorType> checked = checkedTensorType(shape, element))
    return *checked;
  (void)fail("result shape " + printShape(shape) + " is negative or too large");
  return RankedTensorType::get(SmallVector<int64_t>(std::min<size_t>(shape.size(), 64), 1),
                               element);
}

//===-- values from nothing ------------------------------------------------------------------===//

Value TensorBuilder::constant(DenseElementsAttr value) {
  Value &known = constants[value];
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(builder);
  if (lastConstant)
    builder.setInsertionPointAfter(lastConstant);
  else
    builder.setInsertionPointToStart(block);
  auto op = ConstantOp::create(builder, location, value);
  lastConstant = op;
  return known = op.getResult();
}

Value TensorBuilder::scalar(Type element, double value) {
  auto tensor = RankedTensorType::get({}, element);
  if (auto floating = dyn_cast<FloatType>(element)) {
    APFloat rounded(value);
    bool lossy;
    rounded.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    return constant(DenseElementsAttr::get(tensor, rounded));
  }
  return scalar(element, static_cast<int64_t>(std::clamp(value, -9.2e18, 9.2e18)));
}

Value TensorBuilder::scalar(Type element, int64_t value) {
  if (isa<FloatType>(element))
    return scalar(element, static_cast<double>(value));
  APInt bits(64, static_cast<uint64_t>(value));
  return constant(DenseElementsAttr::get(RankedTensorType::get({}, element),
                                         bits.trunc(element.getIntOrFloatBitWidth())));
}

Value TensorBuilder::integers(ArrayRef<int64_t> values) {
  auto tensor = RankedTensorType::get({static_cast<int64_t>(values.size())}, builder.getI64Type());
  return constant(DenseElementsAttr::get(tensor, values));
}

Value TensorBuilder::floats(ArrayRef<double> values, ArrayRef<int64_t> shape, Type element) {
  RankedTensorType wide = type(shape, builder.getF64Type());
  if (wide.getNumElements() != static_cast<int64_t>(values.size()))
    return splat(wide.getShape(), element, 0); // after a failure
  DenseElementsAttr dense = DenseElementsAttr::get(wide, values);
  if (!isa<FloatType>(element))
    return cast(constant(dense), element);
  if (!element.isF64())
    dense = dense.mapValues(element, [&](const APFloat &value) {
      APFloat rounded = value;
      bool lossy;
      rounded.convert(mlir::cast<FloatType>(element).getFloatSemantics(),
                      APFloat::rmNearestTiesToEven, &lossy);
      return rounded.bitcastToAPInt();
    });
  return constant(dense);
}

Value TensorBuilder::splat(ArrayRef<int64_t> shape, Type element, double value) {
  return broadcast(scalar(element, value), shape, {});
}

Value TensorBuilder::iota(ArrayRef<int64_t> shape, Type element, int64_t dim) {
  return create<IotaOp>(type(shape, element), dim);
}

Value TensorBuilder::random(RandomKind kind, ArrayRef<int64_t> shape, Type element, int64_t seed,
                            int64_t stream) {
  return create<RandomOp>(type(shape, element), kind, ValueRange(), seed, stream, shape);
}

//===-- elementwise --------------------------------------------------------------------------===//

std::optional<Shape> TensorBuilder::commonShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Shape shape(a);
  size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &extent = shape[lead + i];
    if (extent == 1)
      extent = b[i];
    else if (b[i] != 1 && b[i] != extent)
      return std::nullopt;
  }
  return shape;
}

Value TensorBuilder::unary(UnaryKind kind, Value input) {
  return create<UnaryOp>(input.getType(), kind, input);
}

Value TensorBuilder::binary(BinaryKind kind, Value lhs, Value rhs) {
  std::optional<Shape> shape = commonShape(shapeOf(lhs), shapeOf(rhs));
  if (!shape || elementOf(lhs) != elementOf(rhs)) {
    std::string text;
    llvm::raw_string_ostream(text) << lhs.getType() << " and " << rhs.getType();
    (void)fail("operands " + text +
               (shape ? " differ in element type" : " do not broadcast to each other"));
    return lhs;
  }
  lhs = broadcastTo(lhs, *shape);
  return create<BinaryOp>(lhs.getType(), kind, lhs, broadcastTo(rhs, *shape));
}

Value TensorBuilder::compare(ComparePredicate predicate, Value lhs, Value rhs) {
  std::optional<Shape> shape = commonShape(shapeOf(lhs), shapeOf(rhs));
  if (!shape) {
    (void)fail("operands " + printShape(shapeOf(lhs)) + " and " + printShape(shapeOf(rhs)) +
               " do not broadcast to each other");
    shape = Shape(shapeOf(lhs));
    rhs = lhs;
  }
  return create<CompareOp>(type(*shape, builder.getI1Type()), predicate, broadcastTo(lhs, *shape),
                           broadcastTo(rhs, *shape));
}

Value TensorBuilder::select(Value condition, Value onTrue, Value onFalse) {
  std::optional<Shape> shape = commonShape(shapeOf(onTrue), shapeOf(onFalse));
  if (shape)
    shape = commonShape(*shape, shapeOf(condition));
  if (!shape) {
    (void)fail("operands " + printShape(shapeOf(condition)) + ", " + printShape(shapeOf(onTrue)) +
               " and " + printShape(shapeOf(onFalse)) + " do not broadcast to each other");
    return onTrue;
  }
  onTrue = broadcastTo(onTrue, *shape);
  return create<SelectOp>(onTrue.getType(), broadcastTo(condition, *shape), onTrue,
                          broadcastTo(onFalse, *shape));
}

Value TensorBuilder::cast(Value input, Type element, bool overflows) {
  if (elementOf(input) == element)
    return input;
  return create<CastOp>(type(shapeOf(input), element), input, overflows && isByteFloat(element));
}

Value TensorBuilder::bitcast(Value input, Type element) {
  if (elementOf(input) == element)
    return input;
  return create<BitcastOp>(type(shapeOf(input), element), input);
}

//===-- data movement ------------------------------------------------------------------------===//

Value TensorBuilder::broadcastTo(Value input, ArrayRef<int64_t> shape) {
  int64_t lead = static_cast<int64_t>(shape.size()) - rankOf(input);
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < rankOf(input); ++i)
    dims.push_back(lead + i);
  if (lead < 0) {
    (void)fail(printShape(shapeOf(input)) + " does not broadcast to " + printShape(shape));
    return input;
  }
  return broadcast(input, shape, dims);
}

Value TensorBuilder::broadcast(Value input, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  if (shapeOf(input) == shape)
    return input;
  // A repeated number is always the scalar repeated, whatever shape the model gave it.
  if (auto constant = input.getDefiningOp<ConstantOp>(); constant && rankOf(input) > 0)
    if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
        dense && dense.isSplat() && dense.getNumElements() > 0)
      if (llvm::all_of(llvm::zip(dims, shapeOf(input)), [&](auto pair) {
            auto [dim, extent] = pair;
            return dim >= 0 && dim < static_cast<int64_t>(shape.size()) &&
                   (extent == 1 || extent == shape[dim]);
          }))
        return broadcast(
            this->constant(dense.resizeSplat(RankedTensorType::get({}, dense.getElementType()))),
            shape, {});
  return create<BroadcastOp>(type(shape, elementOf(input)), input, dims);
}

Value TensorBuilder::reshape(Value input, ArrayRef<int64_t> shape) {
  if (shapeOf(input) == shape)
    return input;
  // Undoing a reshape cancels; chains that do something are left for canonicalization, since
  // products look through them.
  if (auto producer = input.getDefiningOp<ReshapeOp>();
      producer && shapeOf(producer.getInput()) == shape)
    return producer.getInput();
  return create<ReshapeOp>(type(shape, elementOf(input)), input);
}

Value TensorBuilder::transpose(Value input, ArrayRef<int64_t> permutation) {
  if (!hasDims(input, permutation))
    return input;
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, rankOf(input))))
    return input;
  return create<TransposeOp>(input, permutation);
}

Value TensorBuilder::slice(Value input, ArrayRef<int64_t> starts, ArrayRef<int64_t> sizes,
                           ArrayRef<int64_t> steps) {
  bool whole = shapeOf(input) == sizes;
  for (auto [start, step] : llvm::zip(starts, steps))
    whole &= start == 0 && step == 1;
  if (whole)
    return input;
  return create<SliceOp>(type(sizes, elementOf(input)), input, starts, steps);
}

Value TensorBuilder::sliceDim(Value input, int64_t dim, int64_t start, int64_t size, int64_t step) {
  if (!hasDims(input, {dim}))
    return input;
  SmallVector<int64_t> starts(rankOf(input), 0), steps(rankOf(input), 1), sizes(shapeOf(input));
  starts[dim] = start;
  steps[dim] = step;
  sizes[dim] = size;
  return slice(input, starts, sizes, steps);
}

Value TensorBuilder::pad(Value input, Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> shape) {
  if (shapeOf(input) == shape)
    return input;
  return create<PadOp>(type(shape, elementOf(input)), input, value, low);
}

Value TensorBuilder::concat(ArrayRef<Value> inputs, int64_t dim) {
  if (!(!inputs.empty() && hasDims(inputs.front(), {dim})))
    return inputs.empty() ? scalar(builder.getF32Type(), 0.0) : inputs.front();
  if (inputs.size() == 1)
    return inputs.front();
  Shape shape(shapeOf(inputs.front()));
  int64_t extent = 0;
  for (Value input : inputs) {
    if (rankOf(input) != static_cast<int64_t>(shape.size())) {
      (void)fail("operands of concat have ranks " + Twine(shape.size()) + " and " +
                 Twine(rankOf(input)));
      return inputs.front();
    }
    if (elementOf(input) != elementOf(inputs.front())) {
      (void)fail("operands of concat differ in element type");
      return inputs.front();
    }
    shape[dim] = typeOf(input).getDimSize(dim);
    extent += shape[dim];
    if (shapeOf(input) != ArrayRef<int64_t>(shape)) {
      (void)fail("operands " + printShape(shapeOf(inputs.front())) + " and " +
                 printShape(shapeOf(input)) + " of concat differ in more than dimension " +
                 Twine(dim));
      return inputs.front();
    }
  }
  shape[dim] = extent;
  return create<ConcatOp>(type(shape, elementOf(inputs.front())), inputs, dim);
}

Value TensorBuilder::gather(Value input, Value indices, ArrayRef<int64_t> dims, int64_t batch) {
  if (!(!dims.empty() && hasDims(input, dims) && hasDims(indices, {batch})))
    return input;
  Shape shape(shapeOf(input).take_front(dims.front()));
  llvm::append_range(shape, shapeOf(indices).drop_front(batch).drop_back());
  llvm::append_range(shape, shapeOf(input).drop_front(dims.back() + 1));
  return create<GatherOp>(type(shape, elementOf(input)), input, indices, dims, batch);
}

Value TensorBuilder::take(Value input, ArrayRef<int64_t> positions, int64_t dim) {
  if (positions.size() == 1)
    return sliceDim(input, dim, positions[0], 1);
  return gather(input, reshape(integers(positions), {static_cast<int64_t>(positions.size()), 1}),
                {dim}, 0);
}

Value TensorBuilder::gatherElements(Value input, Value indices, int64_t dim) {
  return create<GatherElementsOp>(type(shapeOf(indices), elementOf(input)), input, indices, dim);
}

Value TensorBuilder::scatter(ScatterKind kind, Value input, Value indices, Value updates) {
  return create<ScatterOp>(input.getType(), kind, input, indices, updates);
}

Value TensorBuilder::scatterElements(ScatterKind kind, Value input, Value indices, Value updates,
                                     int64_t dim) {
  return create<ScatterElementsOp>(input.getType(), kind, input, indices, updates, dim);
}

Value TensorBuilder::unsqueeze(Value input, ArrayRef<int64_t> dims) {
  Shape shape;
  size_t next = 0;
  for (int64_t dim = 0; dim < rankOf(input) + static_cast<int64_t>(dims.size()); ++dim)
    shape.push_back(llvm::is_contained(dims, dim) || next >= shapeOf(input).size()
                        ? 1
                        : shapeOf(input)[next++]);
  return reshape(input, shape);
}

Value TensorBuilder::squeeze(Value input, ArrayRef<int64_t> dims) {
  Shape shape;
  for (int64_t dim = 0; dim < rankOf(input); ++dim)
    if (!llvm::is_contained(dims, dim))
      shape.push_back(shapeOf(input)[dim]);
  return reshape(input, shape);
}

//===-- contractions, reductions, rows -------------------------------------------------------===//

Value TensorBuilder::groupedDot(Value lhs, Value rhs, Value group, bool transposed) {
  Shape shape(shapeOf(group));
  shape.push_back(shapeOf(rhs)[transposed ? 1 : 2]);
  return create<GroupedDotOp>(type(shape, elementOf(lhs)), lhs, rhs, group, transposed,
                              IntegerAttr());
}

Value TensorBuilder::dot(Value lhs, Value rhs, ArrayRef<int64_t> lhsBatch,
                         ArrayRef<int64_t> rhsBatch, ArrayRef<int64_t> lhsContract,
                         ArrayRef<int64_t> rhsContract) {
  if (!(hasDims(lhs, lhsBatch) && hasDims(lhs, lhsContract) && hasDims(rhs, rhsBatch) &&
        hasDims(rhs, rhsContract)))
    return lhs;
  Shape shape;
  for (int64_t dim : lhsBatch)
    shape.push_back(shapeOf(lhs)[dim]);
  for (int64_t dim = 0; dim < rankOf(lhs); ++dim)
    if (!llvm::is_contained(lhsBatch, dim) && !llvm::is_contained(lhsContract, dim))
      shape.push_back(shapeOf(lhs)[dim]);
  for (int64_t dim = 0; dim < rankOf(rhs); ++dim)
    if (!llvm::is_contained(rhsBatch, dim) && !llvm::is_contained(rhsContract, dim))
      shape.push_back(shapeOf(rhs)[dim]);
  return create<DotGeneralOp>(type(shape, elementOf(lhs)), lhs, rhs, lhsBatch, rhsBatch,
                              lhsContract, rhsContract);
}

Value TensorBuilder::reduce(ReduceKind kind, Value input, ArrayRef<int64_t> dims, bool keepDims) {
  Shape shape(shapeOf(input)), reduced;
  for (int64_t dim = 0; dim < rankOf(input); ++dim)
    if (llvm::is_contained(dims, dim))
      shape[dim] = 1;
    else
      reduced.push_back(shape[dim]);
  Value result =
      dims.empty() ? input : create<ReduceOp>(type(reduced, elementOf(input)), kind, input, dims);
  return keepDims ? reshape(result, shape) : result;
}

Value TensorBuilder::argReduce(ReduceKind kind, Value input, int64_t dim, bool selectLast) {
  if (!hasDims(input, {dim}))
    return input;
  Shape shape(shapeOf(input));
  shape.erase(shape.begin() + dim);
  return create<ArgReduceOp>(type(shape, builder.getI64Type()), kind, input, dim, selectLast);
}

static Shape pooledShape(ArrayRef<int64_t> input, const Window &window) {
  Shape shape;
  for (size_t i = 0; i < input.size(); ++i) {
    int64_t padded = input[i] + window.padBegin[i] + window.padEnd[i];
    int64_t extent = (window.size[i] - 1) * window.dilations[i] + 1;
    shape.push_back(padded < extent ? 0 : (padded - extent) / window.strides[i] + 1);
  }
  return shape;
}

Value TensorBuilder::pool(ReduceKind kind, Value input, const Window &window) {
  if (!(hasDims(input, {static_cast<int64_t>(window.size.size()) - 1}) &&
        rankOf(input) == static_cast<int64_t>(window.size.size())))
    return input;
  return create<PoolOp>(type(pooledShape(shapeOf(input), window), elementOf(input)), kind, input,
                        window.size, window.strides, window.padBegin, window.padEnd,
                        window.dilations);
}

Value TensorBuilder::argPool(Value input, const Window &window, bool columnMajor) {
  if (!(hasDims(input, {static_cast<int64_t>(window.size.size()) - 1}) &&
        rankOf(input) == static_cast<int64_t>(window.size.size())))
    return input;
  return create<ArgPoolOp>(type(pooledShape(shapeOf(input), window), builder.getI64Type()), input,
                           window.size, window.strides, window.padBegin, window.padEnd,
                           window.dilations, columnMajor);
}

Value TensorBuilder::cumulative(ReduceKind kind, Value input, int64_t dim, bool exclusive,
                                bool reverse) {
  return create<CumulativeOp>(input.getType(), kind, input, dim, exclusive, reverse);
}

Value TensorBuilder::softmax(Value input, int64_t dim, bool log) {
  return create<SoftmaxOp>(input.getType(), input, dim, log);
}

Value TensorBuilder::normalize(Value input, ArrayRef<int64_t> dims, double epsilon, bool rms) {
  return create<NormalizeOp>(input.getType(), input, dims, llvm::APFloat(epsilon), rms);
}

std::pair<Value, Value> TensorBuilder::topK(Value input, int64_t k, int64_t dim, bool smallest) {
  if (!hasDims(input, {dim}))
    return std::pair(input, input);
  Shape shape(shapeOf(input));
  shape[dim] = k;
  Value values = create<TopKOp>(type(shape, elementOf(input)), type(shape, builder.getI64Type()),
                                input, dim, smallest);
  return {values, values.getDefiningOp()->getResult(1)};
}

Value TensorBuilder::transposedConvolution(Value image, Value filter, ArrayRef<int64_t> shape,
                                           ArrayRef<int64_t> strides, ArrayRef<int64_t> padBegin,
                                           ArrayRef<int64_t> padEnd,
                                           ArrayRef<int64_t> filterDilation, int64_t groups) {
  if (!(hasDims(image, {static_cast<int64_t>(strides.size()) + 1}) &&
        hasDims(filter, {static_cast<int64_t>(strides.size()) + 1})))
    return image;
  if (llvm::is_contained(shape, 0) || typeOf(image).getNumElements() == 0)
    return splat(shape, elementOf(image), 0);
  return create<ConvolutionInputGradOp>(type(shape, elementOf(image)), image, filter, strides,
                                        padBegin, padEnd, Shape(strides.size(), 1), filterDilation,
                                        groups);
}

Value TensorBuilder::convolution(Value input, Value filter, ArrayRef<int64_t> strides,
                                 ArrayRef<int64_t> padBegin, ArrayRef<int64_t> padEnd,
                                 ArrayRef<int64_t> inputDilation, ArrayRef<int64_t> filterDilation,
                                 int64_t groups) {
  if (!(hasDims(input, {static_cast<int64_t>(strides.size()) + 1}) &&
        hasDims(filter, {static_cast<int64_t>(strides.size()) + 1})))
    return input;
  Shape shape{shapeOf(input)[0], shapeOf(filter)[0]};
  auto dilated = [](int64_t extent, int64_t dilation) {
    return extent == 0 ? 0 : (extent - 1) * dilation + 1;
  };
  for (size_t i = 0; i < strides.size(); ++i) {
    int64_t padded = dilated(shapeOf(input)[i + 2], inputDilation[i]) + padBegin[i] + padEnd[i];
    int64_t window = dilated(shapeOf(filter)[i + 2], filterDilation[i]);
    shape.push_back(padded < window ? 0 : (padded - window) / strides[i] + 1);
  }
  return create<ConvolutionOp>(type(shape, elementOf(input)), input, filter, strides, padBegin,
                               padEnd, inputDilation, filterDilation, groups);
}
