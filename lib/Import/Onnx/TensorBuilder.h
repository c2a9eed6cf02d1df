// SPDX-License-Identifier: Apache-2.0
// Creates operations of the dialect, with ONNX's broadcasting, and evaluates at once those whose
// operands are known. Operator importers speak only this language.
#pragma once

#include "KnownValue.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Dialect/AutoPar/IR/ConstantFolding.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace mlir::autopar {

using Shape = SmallVector<int64_t>;

/// Window of a pooling, one entry per dimension of the input.
struct Window {
  SmallVector<int64_t> size, strides, padBegin, padEnd, dilations;
};

/// Builds into one block. Every operation is verified when it is made; the first that does not hold
/// (and any shape that is negative or too large) reports a diagnostic and sets `failed()`. Building
/// may go on afterwards and stays memory-safe, but its results mean nothing.
class TensorBuilder {
public:
  TensorBuilder(Location file, Block *block);

  bool failed() const { return hasFailed; }
  /// Reports `message`, with the subject in front, for the file being imported; sets failed().
  LogicalResult fail(const Twine &message);

  MLIRContext *getContext() const { return builder.getContext(); }
  Location getLoc() const { return location; }
  void setLoc(Location loc) { location = loc; }
  /// What errors are about, as in "node 'fc1' (Gemm): "; empty for the whole model.
  const std::string &getSubject() const { return subject; }
  void setSubject(std::string text) { subject = std::move(text); }
  std::string advice; ///< what errors end with
  OpBuilder &opBuilder() { return builder; }
  /// Operations created since the last call, in order, constants and folded ones left out.
  std::vector<Operation *> takeCreated();
  /// Puts operations back in front of those created since.
  void requeue(std::vector<Operation *> operations);

  /// Values whose tensors can be had on demand although they are no constants (parameters).
  LookUpValue lookUpValue;
  /// The value of `value` if it is known at compile time, evaluating what folding left to run time.
  std::optional<DenseElementsAttr> constantOf(Value value);
  /// As integers; nothing if unknown or not of integer type.
  std::optional<SmallVector<int64_t>> integersOf(Value value);
  std::optional<SmallVector<double>> floatsOf(Value value);

  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
  static ArrayRef<int64_t> shapeOf(Value value) { return typeOf(value).getShape(); }
  static Type elementOf(Value value) { return typeOf(value).getElementType(); }
  static int64_t rankOf(Value value) { return typeOf(value).getRank(); }
  static bool isFloat(Value value) { return isa<FloatType>(elementOf(value)); }
  /// A checked tensor type; of unit extents after a failure.
  RankedTensorType type(ArrayRef<int64_t> shape, Type element);

  // Values from nothing.
  Value constant(DenseElementsAttr value);
  Value scalar(Type element, double value);
  Value scalar(Type element, int64_t value);
  Value integers(ArrayRef<int64_t> values); ///< i64 vector
  Value floats(ArrayRef<double> values, ArrayRef<int64_t> shape, Type element);
  Value splat(ArrayRef<int64_t> shape, Type element, double value);
  Value splatLike(Value like, double value) { return splat(shapeOf(like), elementOf(like), value); }
  Value iota(ArrayRef<int64_t> shape, Type element, int64_t dim);
  Value random(RandomKind kind, ArrayRef<int64_t> shape, Type element, int64_t seed,
               int64_t stream);

  // Elementwise; operands of `binary`, `compare` and `select` are broadcast to each other.
  Value unary(UnaryKind kind, Value input);
  Value binary(BinaryKind kind, Value lhs, Value rhs);
  Value compare(ComparePredicate predicate, Value lhs, Value rhs);
  Value select(Value condition, Value onTrue, Value onFalse);
  Value cast(Value input, Type element, bool overflows = false);
  Value bitcast(Value input, Type element); ///< of the same width
  Value add(Value a, Value b) { return binary(BinaryKind::Add, a, b); }
  Value sub(Value a, Value b) { return binary(BinaryKind::Sub, a, b); }
  Value mul(Value a, Value b) { return binary(BinaryKind::Mul, a, b); }
  Value div(Value a, Value b) { return binary(BinaryKind::Div, a, b); }
  Value maximum(Value a, Value b) { return binary(BinaryKind::Max, a, b); }
  Value minimum(Value a, Value b) { return binary(BinaryKind::Min, a, b); }
  /// With a number as second operand.
  Value binary(BinaryKind kind, Value lhs, double rhs) {
    return binary(kind, lhs, scalar(elementOf(lhs), rhs));
  }

  // Data movement.
  Value broadcastTo(Value input, ArrayRef<int64_t> shape); ///< aligned at the last dimension
  Value broadcast(Value input, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims);
  Value reshape(Value input, ArrayRef<int64_t> shape);
  Value transpose(Value input, ArrayRef<int64_t> permutation);
  Value slice(Value input, ArrayRef<int64_t> starts, ArrayRef<int64_t> sizes,
              ArrayRef<int64_t> steps);
  /// Positions [start, start + size) along `dim`.
  Value sliceDim(Value input, int64_t dim, int64_t start, int64_t size, int64_t step = 1);
  Value pad(Value input, Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> shape);
  Value concat(ArrayRef<Value> inputs, int64_t dim);
  Value gather(Value input, Value indices, ArrayRef<int64_t> dims, int64_t batch);
  /// Slices at constant positions along `dim`.
  Value take(Value input, ArrayRef<int64_t> positions, int64_t dim);
  Value gatherElements(Value input, Value indices, int64_t dim);
  Value scatter(ScatterKind kind, Value input, Value indices, Value updates);
  Value scatterElements(ScatterKind kind, Value input, Value indices, Value updates, int64_t dim);
  Value unsqueeze(Value input, ArrayRef<int64_t> dims); ///< ascending positions in the result
  Value squeeze(Value input, ArrayRef<int64_t> dims);

  // Contractions, reductions, rows.
  Value dot(Value lhs, Value rhs, ArrayRef<int64_t> lhsBatch, ArrayRef<int64_t> rhsBatch,
            ArrayRef<int64_t> lhsContract, ArrayRef<int64_t> rhsContract);
  /// Rows [rows..., depth] times the matrix of their group, [groups, depth, columns] or transposed.
  Value groupedDot(Value lhs, Value rhs, Value group, bool transposed);
  Value reduce(ReduceKind kind, Value input, ArrayRef<int64_t> dims, bool keepDims = false);
  Value argReduce(ReduceKind kind, Value input, int64_t dim, bool selectLast);
  Value pool(ReduceKind kind, Value input, const Window &window);
  Value argPool(Value input, const Window &window, bool columnMajor);
  Value cumulative(ReduceKind kind, Value input, int64_t dim, bool exclusive, bool reverse);
  Value softmax(Value input, int64_t dim, bool log);
  Value normalize(Value input, ArrayRef<int64_t> dims, double epsilon, bool rms);
  std::pair<Value, Value> topK(Value input, int64_t k, int64_t dim, bool smallest);
  /// A transposed convolution: the gradient of the input, of this shape, of the convolution with
  /// these attributes.
  Value transposedConvolution(Value image, Value filter, ArrayRef<int64_t> shape,
                              ArrayRef<int64_t> strides, ArrayRef<int64_t> padBegin,
                              ArrayRef<int64_t> padEnd, ArrayRef<int64_t> filterDilation,
                              int64_t groups);
  Value convolution(Value input, Value filter, ArrayRef<int64_t> strides,
                    ArrayRef<int64_t> padBegin, ArrayRef<int64_t> padEnd,
                    ArrayRef<int64_t> inputDilation, ArrayRef<int64_t> filterDilation,
                    int64_t groups);

  /// The shape that two broadcast shapes have in common; nothing if they do not fit.
  static std::optional<Shape> commonShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b);

private:
  template <typename OpTy, typename... Args>
  Value create(Args &&...args) {
    return finish(OpTy::create(builder, location, std::forward<Args>(args)...));
  }
  /// Verifies and folds an operation.
  Value finish(Operation *op);
  /// Do `dims` exist in `value`? Fails the builder otherwise.
  bool hasDims(Value value, ArrayRef<int64_t> dims);

  OpBuilder builder;
  Location location, fileLocation;
  std::string subject;
  bool hasFailed = false;
  std::vector<Operation *> created;
  DenseMap<Attribute, Value> constants;
  Operation *lastConstant = nullptr;
  Block *block;
};

/// "[2, 3]"
std::string printShape(ArrayRef<int64_t> shape);

} // namespace mlir::autopar
