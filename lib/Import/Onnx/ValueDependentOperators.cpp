// SPDX-License-Identifier: Apache-2.0
// Operators whose result shape depends on values: computed where those are known at compile time,
// refused by name otherwise. And a few that need neither: determinants, inverses, n-gram counts.
#include "AlongAxis.h"

#include <map>

using namespace mlir;
using namespace mlir::autopar;

/// Values of any numeric input as f64.
static FailureOr<SmallVector<double>> knownNumbers(Node &node, size_t i) {
  if (auto floats = node.b.floatsOf(node.input(i)))
    return *floats;
  if (auto integers = node.b.integersOf(node.input(i)))
    return SmallVector<double>(integers->begin(), integers->end());
  return node.unknownInput(i, ": the result's shape depends on its values");
}

static LogicalResult importNonZero(Node &node) {
  FailureOr<SmallVector<double>> values = knownNumbers(node, 0);
  if (failed(values))
    return failure();
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  std::vector<SmallVector<int64_t>> positions(shape.size());
  int64_t count = 0;
  for (auto [linear, value] : llvm::enumerate(*values)) {
    if (value == 0)
      continue;
    ++count;
    auto rest = static_cast<int64_t>(linear);
    for (size_t dim = shape.size(); dim-- > 0; rest /= shape[dim])
      positions[dim].push_back(rest % shape[dim]);
  }
  SmallVector<int64_t> all;
  for (ArrayRef<int64_t> row : positions)
    llvm::append_range(all, row);
  return node.result(
      node.b.reshape(node.b.integers(all), {static_cast<int64_t>(shape.size()), count}));
}

/// com.microsoft's keeps the order of the input and does not tell where an element stands first.
template <bool isOnnxruntimes>
static LogicalResult importUnique(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<SmallVector<double>> values = knownNumbers(node, 0);
  if (failed(values))
    return failure();
  FailureOr<AlongAxis> input = inputAlongAxis(node);
  if (failed(input))
    return failure();
  auto [x, along] = *input;
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(x);
  int64_t extent = shape[along], inner = llvm::product_of(shape.drop_front(along + 1));
  std::vector<std::vector<double>> rows(extent);
  for (auto [linear, value] : llvm::enumerate(*values))
    rows[static_cast<int64_t>(linear) / inner % extent].push_back(value);
  std::map<std::vector<double>, int64_t> first; // row -> where it stands first
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < extent; ++i)
    if (first.try_emplace(rows[i], i).second)
      order.push_back(i);
  if (!isOnnxruntimes && node.integer("sorted", 1)) {
    order.clear();
    for (const auto &[row, position] : first)
      order.push_back(position);
  }
  std::map<int64_t, int64_t> rank; // first position -> place in the result
  for (auto [place, position] : llvm::enumerate(order))
    rank[position] = static_cast<int64_t>(place);
  SmallVector<int64_t> inverse, counts(order.size(), 0);
  for (int64_t i = 0; i < extent; ++i) {
    inverse.push_back(rank[first[rows[i]]]);
    ++counts[inverse.back()];
  }
  node.setOutput(0, order.empty() ? b.sliceDim(x, along, 0, 0) : b.take(x, order, along));
  size_t next = 1;
  if (!isOnnxruntimes)
    node.setOutput(next++, b.integers(order));
  node.setOutput(next++, b.integers(inverse));
  node.setOutput(next, b.integers(counts));
  return success();
}

//===-- non-maximum suppression --------------------------------------------------------------===//

namespace {
struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};
} // namespace

static double overlap(const Box &a, const Box &b) {
  double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1),
         width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0)
    return 0;
  return height * width / (a.area() + b.area() - height * width);
}

static Box boxAt(ArrayRef<double> numbers, bool center) {
  if (center) // x, y, width, height
    return {numbers[1] - numbers[3] / 2, numbers[0] - numbers[2] / 2, numbers[1] + numbers[3] / 2,
            numbers[0] + numbers[2] / 2};
  return {std::min(numbers[0], numbers[2]), std::min(numbers[1], numbers[3]),
          std::max(numbers[0], numbers[2]), std::max(numbers[1], numbers[3])};
}

/// Best boxes of one class, each far enough from those chosen before.
static SmallVector<int64_t> chooseBoxes(ArrayRef<Box> boxes, ArrayRef<double> scores, int64_t most,
                                        double overlapLimit, std::optional<double> scoreLimit) {
  SmallVector<int64_t> order, chosen;
  for (int64_t i = 0; i < static_cast<int64_t>(scores.size()); ++i)
    if (!scoreLimit || scores[i] > *scoreLimit)
      order.push_back(i);
  llvm::sort(order, [&](int64_t a, int64_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  for (int64_t candidate : order) {
    if (static_cast<int64_t>(chosen.size()) >= most)
      break;
    if (llvm::all_of(chosen, [&](int64_t other) {
          return overlap(boxes[candidate], boxes[other]) <= overlapLimit;
        }))
      chosen.push_back(candidate);
  }
  return chosen;
}

static LogicalResult importNonMaxSuppression(Node &node) {
  FailureOr<SmallVector<double>> boxes = knownNumbers(node, 0), scores = knownNumbers(node, 1);
  if (failed(boxes) || failed(scores))
    return failure();
  ArrayRef<int64_t> boxShape = node.inputType(0).getShape(),
                    scoreShape = node.inputType(1).getShape();
  if (boxShape.size() != 3 || scoreShape.size() != 3 || boxShape[2] != 4 ||
      boxShape[0] != scoreShape[0] || boxShape[1] != scoreShape[2])
    return node.error("boxes " + printShape(boxShape) + " and scores " + printShape(scoreShape) +
                      " do not fit");
  constexpr int64_t mostBoxes = 1 << 14;
  if (boxShape[1] > mostBoxes)
    return node.error("has more than " + Twine(mostBoxes) + " boxes");
  int64_t most = 0;
  double overlapLimit = 0;
  std::optional<double> scoreLimit;
  for (size_t i = 2; i < 5; ++i) {
    if (!node.hasInput(i))
      continue;
    FailureOr<SmallVector<double>> given = knownNumbers(node, i);
    if (failed(given) || given->size() != 1)
      return failed(given) ? failure() : node.inputError(i, "must be a scalar");
    if (i == 2)
      most = static_cast<int64_t>(given->front());
    else if (i == 3)
      overlapLimit = given->front();
    else
      scoreLimit = given->front();
  }
  SmallVector<int64_t> rows;
  int64_t count = boxShape[1], classes = scoreShape[1];
  bool center = node.integer("center_point_box", 0) != 0;
  for (int64_t batch = 0; batch < boxShape[0]; ++batch) {
    SmallVector<Box> parsed;
    for (int64_t i = 0; i < count; ++i)
      parsed.push_back(boxAt(ArrayRef<double>(*boxes).slice((batch * count + i) * 4, 4), center));
    for (int64_t label = 0; label < classes; ++label)
      for (int64_t chosen : chooseBoxes(
               parsed, ArrayRef<double>(*scores).slice((batch * classes + label) * count, count),
               most, overlapLimit, scoreLimit))
        rows.append({batch, label, chosen});
  }
  return node.result(
      node.b.reshape(node.b.integers(rows), {static_cast<int64_t>(rows.size()) / 3, 3}));
}

//===-- determinant and inverse --------------------------------------------------------------===//
//-----------------------------------------------------------------===//

/// Expansion along the first of the remaining rows; `columns` are those not used yet.
static Value determinant(TensorBuilder &b, ArrayRef<SmallVector<Value>> matrix, size_t row,
                         ArrayRef<size_t> columns) {
  if (columns.size() == 1)
    return matrix[row][columns.front()];
  Value sum;
  for (size_t i = 0; i < columns.size(); ++i) {
    SmallVector<size_t> rest(columns);
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(i));
    Value term = b.mul(matrix[row][columns[i]], determinant(b, matrix, row + 1, rest));
    sum = !sum ? term : i % 2 ? b.sub(sum, term) : b.add(sum, term);
  }
  return sum;
}

/// The elements of input 0, square matrices of a few rows.
static FailureOr<std::vector<SmallVector<Value>>> smallMatrix(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  constexpr int64_t largest = 5;
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2] || shape.back() < 1 ||
      shape.back() > largest)
    return node.inputError(0, "must hold square matrices of at most " + Twine(largest) +
                                  " rows: larger ones need pivoting, which has no operation");
  auto rank = static_cast<int64_t>(shape.size());
  std::vector<SmallVector<Value>> matrix;
  for (int64_t i = 0; i < shape.back(); ++i) {
    matrix.emplace_back();
    Value row = b.squeeze(b.sliceDim(node.input(0), rank - 2, i, 1), {rank - 2});
    for (int64_t j = 0; j < shape.back(); ++j)
      matrix.back().push_back(b.squeeze(b.sliceDim(row, rank - 2, j, 1), {rank - 2}));
  }
  return matrix;
}

static LogicalResult importDet(Node &node) {
  FailureOr<std::vector<SmallVector<Value>>> matrix = smallMatrix(node);
  if (failed(matrix))
    return failure();
  return node.result(
      determinant(node.b, *matrix, 0, llvm::to_vector(llvm::seq<size_t>(0, matrix->size()))));
}

/// By Cramer's rule.
static LogicalResult importInverse(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<std::vector<SmallVector<Value>>> matrix = smallMatrix(node);
  if (failed(matrix))
    return failure();
  size_t count = matrix->size();
  SmallVector<size_t> all = llvm::to_vector(llvm::seq<size_t>(0, count));
  Value whole = determinant(b, *matrix, 0, all);
  SmallVector<Value> elements;
  for (size_t row : all)
    for (size_t column : all) { // the minor without its transposed place
      std::vector<SmallVector<Value>> minor = *matrix;
      minor.erase(minor.begin() + static_cast<ptrdiff_t>(column));
      SmallVector<size_t> columns(all);
      columns.erase(columns.begin() + static_cast<ptrdiff_t>(row));
      Value share = columns.empty() ? b.splatLike(whole, 1) : determinant(b, minor, 0, columns);
      if ((row + column) % 2)
        share = b.unary(UnaryKind::Neg, share);
      elements.push_back(b.unsqueeze(b.div(share, whole), {TensorBuilder::rankOf(whole)}));
    }
  return node.result(
      b.reshape(b.concat(elements, TensorBuilder::rankOf(whole)), node.inputType(0).getShape()));
}

//===-- n-grams ------------------------------------------------------------------------------===//

/// How often each n-gram of `pool` (rows of `length`) stands in x [batch, words], words up to
/// `skips` apart: [batch, rows].
static Value countGrams(TensorBuilder &b, Value x, ArrayRef<int64_t> pool, int64_t length,
                        int64_t skips) {
  int64_t batch = TensorBuilder::shapeOf(x)[0], words = TensorBuilder::shapeOf(x)[1];
  auto rows = static_cast<int64_t>(pool.size()) / length;
  Type f32 = b.opBuilder().getF32Type();
  Value sum = b.splat({batch, rows}, f32, 0);
  for (int64_t skip = 0; skip <= (length == 1 ? 0 : skips); ++skip) {
    int64_t starts = words - (length - 1) * (skip + 1);
    if (starts < 1)
      break;
    Value match;
    for (int64_t k = 0; k < length; ++k) {
      SmallVector<int64_t> column;
      for (int64_t row = 0; row < rows; ++row)
        column.push_back(pool[row * length + k]);
      Value here = b.unsqueeze(b.sliceDim(x, 1, k * (skip + 1), starts), {2});
      Value equal =
          b.compare(ComparePredicate::Eq, here, b.reshape(b.integers(column), {1, 1, rows}));
      match = match ? b.binary(BinaryKind::And, match, equal) : equal;
    }
    sum = b.add(sum, b.reduce(ReduceKind::Sum, b.cast(match, f32), {1}));
  }
  return sum;
}

static LogicalResult importTfIdf(Node &node) {
  TensorBuilder &b = node.b;
  if (node.hasAttribute("pool_strings") || isa<FloatType>(node.inputType(0).getElementType()))
    return node.error("counts integers only, strings have no type in the dialect");
  auto counts = node.integers("ngram_counts"), places = node.integers("ngram_indexes"),
       pool = node.integers("pool_int64s");
  int64_t shortest = node.integer("min_gram_length", 1),
          longest = node.integer("max_gram_length", 1), skips = node.integer("max_skip_count", 0);
  std::string mode = node.string("mode", "TF");
  int64_t rank = node.inputType(0).getRank();
  constexpr int64_t mostLength = 64, mostPlaces = 1 << 24;
  if (!counts || !places || !pool || shortest < 1 || longest < shortest || longest > mostLength ||
      skips < 0 || skips > mostPlaces || rank < 1 || rank > 2 ||
      (mode != "TF" && mode != "IDF" && mode != "TFIDF"))
    return node.error("attributes do not describe n-grams, or the input is no vector or matrix");
  Value x = b.cast(rank == 1 ? b.unsqueeze(node.input(0), {0}) : node.input(0),
                   b.opBuilder().getI64Type());
  int64_t batch = TensorBuilder::shapeOf(x)[0], width = 0;
  for (int64_t place : *places) {
    if (place < 0 || place > mostPlaces)
      return node.error("attribute 'ngram_indexes' is out of range");
    width = std::max(width, place + 1);
  }
  SmallVector<Value> found;
  int64_t rows = 0;
  for (size_t i = 0; i < counts->size(); ++i) {
    int64_t length = static_cast<int64_t>(i) + 1, begin = (*counts)[i],
            end = i + 1 < counts->size() ? (*counts)[i + 1] : static_cast<int64_t>(pool->size());
    if (begin < 0 || end < begin || end > static_cast<int64_t>(pool->size()) ||
        (end - begin) % length || length > mostLength)
      return node.error("attribute 'ngram_counts' does not fit the pool");
    if (begin == end)
      continue;
    ArrayRef<int64_t> grams = ArrayRef<int64_t>(*pool).slice(begin, end - begin);
    rows += (end - begin) / length;
    bool wanted = length >= shortest && length <= longest;
    found.push_back(wanted
                        ? countGrams(b, x, grams, length, skips)
                        : b.splat({batch, (end - begin) / length}, b.opBuilder().getF32Type(), 0));
  }
  auto weights = node.floats("weights");
  if (found.empty() || rows != static_cast<int64_t>(places->size()) ||
      (weights && weights->size() != places->size()))
    return node.error("needs one index and weight per n-gram");
  Value all = b.concat(found, 1); // [batch, rows]
  if (mode == "IDF")
    all = b.cast(b.compare(ComparePredicate::Gt, all, b.splatLike(all, 0)),
                 TensorBuilder::elementOf(all));
  if (mode != "TF" && weights)
    all = b.mul(all, b.floats(*weights, {1, rows}, TensorBuilder::elementOf(all)));
  Value result =
      b.scatter(ScatterKind::Assign, b.splat({width, batch}, TensorBuilder::elementOf(all), 0),
                b.reshape(b.integers(*places), {rows, 1}), b.transpose(all, {1, 0}));
  result = b.transpose(result, {1, 0});
  return node.result(rank == 1 ? b.squeeze(result, {0}) : result);
}

void mlir::autopar::addValueDependentOperators(OperatorTable &table) {
  table.add("NonZero", {9}, {1, 1}, "", importNonZero);
  table.add("Unique", {11}, {1, 1}, "axis sorted", importUnique<false>);
  table.inDomain("com.microsoft");
  table.add("Unique", {1}, {1, 1}, "", importUnique<true>);
  table.inDomain("");
  table.add("NonMaxSuppression", {10}, {2, 5}, "center_point_box", importNonMaxSuppression);
  table.add("Det", {11}, {1, 1}, "", importDet);
  table.inDomain("com.microsoft");
  table.add("Inverse", {1}, {1, 1}, "", importInverse);
  table.inDomain("");
  table.add("TfIdfVectorizer", {9}, {1, 1},
            "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes "
            "pool_int64s pool_strings weights",
            importTfIdf);
  for (StringRef name : {"StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch"})
    table.refuse(name, "works on strings, which have no type in the dialect");
  table.refuse("ImageDecoder", "decodes files, which is no tensor operation");
}
