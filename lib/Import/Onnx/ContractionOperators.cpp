// SPDX-License-Identifier: Apache-2.0
// Matrix products: MatMul and Gemm keep their dimensions apart (nothing is flattened), so that each
// can be sharded; transposition is a choice of contracted dimension. Einsum is products and sums of
// its letters.
#include "Contractions.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;
using namespace mlir::autopar;

Value mlir::autopar::matrixProduct(Node &node, Value lhs, Value rhs) {
  TensorBuilder &b = node.b;
  int64_t lhsRank = TensorBuilder::rankOf(lhs), rhsRank = TensorBuilder::rankOf(rhs);
  if (lhsRank == 0 || rhsRank == 0) {
    (void)node.error("needs operands of at least one dimension");
    return lhs;
  }
  int64_t contracted = TensorBuilder::shapeOf(rhs)[std::max<int64_t>(rhsRank - 2, 0)];
  if (TensorBuilder::shapeOf(lhs).back() != contracted) {
    (void)node.error("cannot multiply " + printShape(TensorBuilder::shapeOf(lhs)) + " by " +
                     printShape(TensorBuilder::shapeOf(rhs)));
    return lhs;
  }
  int64_t lhsBatch = std::max<int64_t>(lhsRank - 2, 0),
          rhsBatch = std::max<int64_t>(rhsRank - 2, 0);
  if (rhsBatch == 0) // all of lhs stays free
    return b.dot(lhs, rhs, {}, {}, {lhsRank - 1}, {0});
  std::optional<Shape> batch =
      TensorBuilder::commonShape(TensorBuilder::shapeOf(lhs).take_front(lhsBatch),
                                 TensorBuilder::shapeOf(rhs).take_front(rhsBatch));
  if (!batch) {
    (void)node.error("batch dimensions of " + printShape(TensorBuilder::shapeOf(lhs)) + " and " +
                     printShape(TensorBuilder::shapeOf(rhs)) + " do not broadcast");
    return lhs;
  }
  if (lhsRank == 1) // result [batch..., n]
    return b.dot(rhs, lhs, {}, {}, {rhsRank - 2}, {0});
  auto widen = [&](Value side, int64_t count) {
    Shape shape(*batch);
    llvm::append_range(shape, TensorBuilder::shapeOf(side).drop_front(count));
    return b.broadcastTo(side, shape);
  };
  lhs = widen(lhs, lhsBatch), rhs = widen(rhs, rhsBatch);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, batch->size()));
  return b.dot(lhs, rhs, dims, dims, {TensorBuilder::rankOf(lhs) - 1},
               {static_cast<int64_t>(batch->size())});
}

/// What `value` was before an exporter flattened its leading dimensions for a matrix product;
/// `value` itself otherwise. Kept apart, batch and sequence can be sharded on their own, and the
/// reshape back behind the product cancels.
static Value unflattened(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape || TensorBuilder::rankOf(value) != 2)
    return value;
  ArrayRef<int64_t> before = TensorBuilder::shapeOf(reshape.getInput());
  bool flattens = before.size() > 2 && before.back() == TensorBuilder::shapeOf(value).back();
  return flattens ? reshape.getInput() : value;
}

static LogicalResult importMatMul(Node &node) {
  Value lhs = node.input(0), rhs = node.input(1), whole = unflattened(lhs);
  if (whole == lhs || TensorBuilder::rankOf(rhs) != 2)
    return node.result(matrixProduct(node, lhs, rhs));
  Value product = matrixProduct(node, whole, rhs);
  return node.result(node.b.reshape(
      product, {TensorBuilder::shapeOf(lhs)[0], TensorBuilder::shapeOf(product).back()}));
}

/// A Gemm's bias, if it is the same for every row.
static bool isRowBias(Value bias) {
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(bias);
  return shape.size() < 2 || (shape.size() == 2 && shape[0] == 1);
}

FailureOr<Value> mlir::autopar::gemm(Node &node) {
  TensorBuilder &b = node.b;
  Value lhs = node.input(0), rhs = node.input(1);
  if (TensorBuilder::rankOf(lhs) != 2 || TensorBuilder::rankOf(rhs) != 2)
    return node.error("needs matrices, got " + printShape(TensorBuilder::shapeOf(lhs)) + " and " +
                      printShape(TensorBuilder::shapeOf(rhs)));
  int64_t lhsDim = node.integer("transA", 0) ? 0 : 1, rhsDim = node.integer("transB", 0) ? 1 : 0;
  if (TensorBuilder::shapeOf(lhs)[lhsDim] != TensorBuilder::shapeOf(rhs)[rhsDim])
    return node.error("cannot multiply " + printShape(TensorBuilder::shapeOf(lhs)) + " by " +
                      printShape(TensorBuilder::shapeOf(rhs)));
  double alpha = node.floating("alpha", 1), beta = node.floating("beta", 1);
  bool hasBias = node.hasInput(2) && beta != 0;
  Shape result{TensorBuilder::shapeOf(lhs)[1 - lhsDim], TensorBuilder::shapeOf(rhs)[1 - rhsDim]};
  if (lhsDim == 1 && (!hasBias || isRowBias(node.input(2)))) {
    lhs = unflattened(lhs);
    lhsDim = TensorBuilder::rankOf(lhs) - 1;
  }
  Value product = b.dot(lhs, rhs, {}, {}, {lhsDim}, {rhsDim});
  if (alpha != 1)
    product = b.binary(BinaryKind::Mul, product, alpha);
  if (hasBias) {
    Value bias = node.input(2);
    if (TensorBuilder::rankOf(bias) == 2 && TensorBuilder::rankOf(product) > 2)
      bias = b.squeeze(bias, {0});
    if (beta != 1)
      bias = b.binary(BinaryKind::Mul, bias, beta);
    product = b.add(product, b.broadcastTo(bias, TensorBuilder::shapeOf(product)));
  }
  return b.reshape(product, result);
}

static LogicalResult importGemm(Node &node) {
  FailureOr<Value> y = gemm(node);
  return failed(y) ? failure() : node.result(*y);
}

//===-- einsum -------------------------------------------------------------------------------===//

namespace {
/// A tensor with a letter per dimension. Dimensions of an ellipsis have letters of their own: 0, 1,
/// ...
struct Lettered {
  Value value;
  std::string letters;
};
} // namespace

/// Takes diagonals of letters that stand twice.
static LogicalResult takeDiagonals(Node &node, Lettered &term) {
  TensorBuilder &b = node.b;
  for (size_t i = 0; i < term.letters.size(); ++i) {
    size_t j = term.letters.find(term.letters[i], i + 1);
    if (j == std::string::npos)
      continue;
    ArrayRef<int64_t> shape = TensorBuilder::shapeOf(term.value);
    if (shape[i] != shape[j])
      return node.error("letter '" + Twine(term.letters[i]) + "' has extents " + Twine(shape[i]) +
                        " and " + Twine(shape[j]));
    Type i64 = b.opBuilder().getI64Type();
    Value hit = b.compare(ComparePredicate::Eq, b.iota(shape, i64, static_cast<int64_t>(i)),
                          b.iota(shape, i64, static_cast<int64_t>(j)));
    Value diagonal = b.select(hit, term.value, b.splatLike(term.value, 0));
    term.value = b.reduce(ReduceKind::Sum, diagonal, {static_cast<int64_t>(j)});
    term.letters.erase(j, 1);
    --i;
  }
  return success();
}

/// Sums over letters that nobody else has.
static void sumAlone(TensorBuilder &b, Lettered &term, StringRef others) {
  SmallVector<int64_t> dims;
  std::string kept;
  for (auto [i, letter] : llvm::enumerate(term.letters))
    if (others.contains(letter))
      kept.push_back(letter);
    else
      dims.push_back(static_cast<int64_t>(i));
  term.value = b.reduce(ReduceKind::Sum, term.value, dims);
  term.letters = kept;
}

static FailureOr<Lettered> multiply(Node &node, Lettered lhs, Lettered rhs, StringRef wanted) {
  sumAlone(node.b, lhs, (rhs.letters + wanted).str());
  sumAlone(node.b, rhs, (lhs.letters + wanted).str());
  // A letter of extent 1 on one side only is broadcast by dropping it there.
  auto dropUnits = [&](Lettered &side, const Lettered &other) {
    for (size_t i = 0; i < side.letters.size(); ++i) {
      size_t j = other.letters.find(side.letters[i]);
      if (j == std::string::npos || TensorBuilder::shapeOf(side.value)[i] != 1 ||
          TensorBuilder::shapeOf(other.value)[j] == 1)
        continue;
      side.value = node.b.squeeze(side.value, {static_cast<int64_t>(i)});
      side.letters.erase(i--, 1);
    }
  };
  dropUnits(lhs, rhs);
  dropUnits(rhs, lhs);
  SmallVector<int64_t> lhsBatch, rhsBatch, lhsContract, rhsContract;
  std::string batch, lhsFree, rhsFree;
  for (auto [i, letter] : llvm::enumerate(lhs.letters)) {
    size_t j = rhs.letters.find(letter);
    if (j == std::string::npos) {
      lhsFree.push_back(letter);
      continue;
    }
    if (TensorBuilder::shapeOf(lhs.value)[i] != TensorBuilder::shapeOf(rhs.value)[j])
      return node.error("letter '" + Twine(letter) + "' has extents " +
                        Twine(TensorBuilder::shapeOf(lhs.value)[i]) + " and " +
                        Twine(TensorBuilder::shapeOf(rhs.value)[j]));
    bool kept = wanted.contains(letter);
    (kept ? lhsBatch : lhsContract).push_back(static_cast<int64_t>(i));
    (kept ? rhsBatch : rhsContract).push_back(static_cast<int64_t>(j));
    if (kept)
      batch.push_back(letter);
  }
  for (char letter : rhs.letters)
    if (lhs.letters.find(letter) == std::string::npos)
      rhsFree.push_back(letter);
  Value product = node.b.dot(lhs.value, rhs.value, lhsBatch, rhsBatch, lhsContract, rhsContract);
  return Lettered{product, batch + lhsFree + rhsFree};
}

/// Letters of one term, with those of an ellipsis over `rank - letters` dimensions written out; the
/// last dimension of every ellipsis is '0'.
static FailureOr<std::string> expandTerm(Node &node, StringRef term, int64_t rank) {
  std::string letters;
  auto [front, back] = term.split("...");
  bool hasEllipsis = term.contains("...");
  int64_t named = static_cast<int64_t>(front.size() + back.size()),
          open = hasEllipsis ? rank - named : 0;
  if (open < 0 || (rank >= 0 && named + open != rank) || open > 10)
    return node.error("term '" + term + "' does not fit an operand of rank " + Twine(rank));
  letters = front.str();
  for (int64_t i = open; i-- > 0;)
    letters.push_back(static_cast<char>('0' + i));
  letters += back;
  for (char letter : front.str() + back.str())
    if (!llvm::isAlpha(letter))
      return node.error("'" + Twine(letter) + "' in term '" + term + "' is no letter");
  return letters;
}

/// The inputs with a letter per dimension, none twice; counts in `uses` how often each stands.
static FailureOr<SmallVector<Lettered>> einsumOperands(Node &node, StringRef equation,
                                                       std::map<char, int> &uses) {
  SmallVector<StringRef> terms;
  equation.split("->").first.split(terms, ',');
  if (terms.size() != node.inputCount())
    return node.error("equation '" + equation + "' has " + Twine(terms.size()) + " terms for " +
                      Twine(node.inputCount()) + " inputs");
  SmallVector<Lettered> operands;
  for (auto [i, term] : llvm::enumerate(terms)) {
    if (!node.hasInput(i))
      return node.inputError(i, "is missing");
    FailureOr<std::string> letters = expandTerm(node, term, node.inputType(i).getRank());
    if (failed(letters))
      return failure();
    for (char letter : *letters)
      ++uses[letter];
    operands.push_back({node.input(i), *letters});
    if (failed(takeDiagonals(node, operands.back())))
      return failure();
  }
  return operands;
}

/// The letters behind the arrow; without one the ellipsis, then letters that stand once, in
/// alphabetical order.
static FailureOr<std::string> einsumResult(Node &node, StringRef equation,
                                           const std::map<char, int> &uses) {
  int64_t ellipsis = 0;
  for (auto [letter, count] : uses)
    if (!llvm::isAlpha(letter))
      ellipsis = std::max<int64_t>(ellipsis, letter - '0' + 1);
  if (equation.contains("->")) {
    StringRef term = equation.split("->").second;
    auto length = static_cast<int64_t>(term.size());
    return expandTerm(node, term, term.contains("...") ? length - 3 + ellipsis : length);
  }
  std::string letters;
  for (int64_t i = ellipsis; i-- > 0;)
    letters.push_back(static_cast<char>('0' + i));
  for (auto [letter, count] : uses)
    if (llvm::isAlpha(letter) && count == 1)
      letters.push_back(letter);
  return letters;
}

static LogicalResult importEinsum(Node &node) {
  std::string equation = node.string("equation", "");
  llvm::erase(equation, ' ');
  std::map<char, int> uses;
  FailureOr<SmallVector<Lettered>> operands = einsumOperands(node, equation, uses);
  if (failed(operands))
    return failure();
  FailureOr<std::string> wanted = einsumResult(node, equation, uses);
  if (failed(wanted))
    return failure();
  Lettered result = operands->front();
  for (size_t i = 1; i < operands->size(); ++i) {
    std::string later = *wanted;
    for (size_t j = i + 1; j < operands->size(); ++j)
      later += (*operands)[j].letters;
    FailureOr<Lettered> product = multiply(node, result, (*operands)[i], later);
    if (failed(product))
      return failure();
    result = *product;
  }
  sumAlone(node.b, result, *wanted);
  SmallVector<int64_t> permutation;
  for (char letter : *wanted) {
    size_t at = result.letters.find(letter);
    if (at == std::string::npos || llvm::count(*wanted, letter) != 1)
      return node.error("output letter '" + Twine(letter) + "' of equation '" + Twine(equation) +
                        "' stands in no input, or twice");
    permutation.push_back(static_cast<int64_t>(at));
  }
  return node.result(node.b.transpose(result.value, permutation));
}

void mlir::autopar::addContractionOperators(OperatorTable &table) {
  table.add("MatMul", {1}, {2, 2}, "", importMatMul);
  table.add("Gemm", {1, 6}, {3, 3}, "alpha beta broadcast transA transB", importGemm);
  table.add("Gemm", {7}, {2, 3}, "alpha beta transA transB", importGemm);
  table.add("Einsum", {12}, {1, -1}, "equation", importEinsum);
}
