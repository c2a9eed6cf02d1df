// SPDX-License-Identifier: Apache-2.0
// Linear forms of index expressions, and the rules by which divisions and remainders disappear.
#include "autopar/Interfaces/IndexExpressions.h"

#include "mlir/IR/Builders.h"
#include <numeric>
#include <optional>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Structural order, the same in every run.
int compareExprs(AffineExpr a, AffineExpr b) {
  if (a == b)
    return 0;
  if (a.getKind() != b.getKind())
    return a.getKind() < b.getKind() ? 1 : -1;
  if (auto dim = dyn_cast<AffineDimExpr>(a))
    return dim.getPosition() < cast<AffineDimExpr>(b).getPosition() ? -1 : 1;
  if (auto constant = dyn_cast<AffineConstantExpr>(a))
    return constant.getValue() < cast<AffineConstantExpr>(b).getValue() ? -1 : 1;
  auto left = cast<AffineBinaryOpExpr>(a), right = cast<AffineBinaryOpExpr>(b);
  if (int order = compareExprs(left.getLHS(), right.getLHS()))
    return order;
  return compareExprs(left.getRHS(), right.getRHS());
}

struct Range {
  int64_t low, high; ///< inclusive
};

class Linearizer {
public:
  explicit Linearizer(ArrayRef<int64_t> extents) : extents(extents) {}

  LinearForm run(AffineExpr expr) {
    LinearForm form;
    accumulate(form, expr, 1);
    pairDivisions(form);
    return form;
  }

private:
  void addTerm(LinearForm &form, AffineExpr term, int64_t factor) {
    auto *place = llvm::lower_bound(form.terms, term, [](const auto &entry, AffineExpr key) {
      return compareExprs(entry.first, key) < 0;
    });
    if (place == form.terms.end() || place->first != term)
      place = form.terms.insert(place, {term, 0});
    place->second += factor;
    if (place->second == 0)
      form.terms.erase(place);
  }
  void addForm(LinearForm &form, const LinearForm &other, int64_t factor) {
    form.constant += other.constant * factor;
    for (auto [term, coefficient] : other.terms)
      addTerm(form, term, coefficient * factor);
  }

  void accumulate(LinearForm &form, AffineExpr expr, int64_t factor) {
    switch (expr.getKind()) {
    case AffineExprKind::Constant:
      form.constant += factor * cast<AffineConstantExpr>(expr).getValue();
      return;
    case AffineExprKind::DimId: {
      unsigned position = cast<AffineDimExpr>(expr).getPosition();
      if (position >= extents.size() || extents[position] != 1)
        addTerm(form, expr, factor);
      return;
    }
    case AffineExprKind::Add:
      accumulate(form, cast<AffineBinaryOpExpr>(expr).getLHS(), factor);
      accumulate(form, cast<AffineBinaryOpExpr>(expr).getRHS(), factor);
      return;
    case AffineExprKind::Mul: {
      auto mul = cast<AffineBinaryOpExpr>(expr);
      accumulate(form, mul.getLHS(), factor * cast<AffineConstantExpr>(mul.getRHS()).getValue());
      return;
    }
    case AffineExprKind::FloorDiv:
    case AffineExprKind::Mod: {
      auto binary = cast<AffineBinaryOpExpr>(expr);
      int64_t divisor = cast<AffineConstantExpr>(binary.getRHS()).getValue();
      LinearForm inner = run(binary.getLHS());
      addForm(form,
              expr.getKind() == AffineExprKind::Mod ? remainder(inner, divisor)
                                                    : quotient(inner, divisor),
              factor);
      return;
    }
    default:
      addTerm(form, expr, factor);
    }
  }

  std::optional<Range> rangeOf(AffineExpr term) {
    if (auto dim = dyn_cast<AffineDimExpr>(term)) {
      unsigned position = dim.getPosition();
      if (position >= extents.size() || extents[position] == unknownExtent)
        return std::nullopt;
      return Range{0, std::max<int64_t>(extents[position] - 1, 0)};
    }
    auto binary = dyn_cast<AffineBinaryOpExpr>(term);
    if (!binary)
      return std::nullopt;
    int64_t divisor = cast<AffineConstantExpr>(binary.getRHS()).getValue();
    if (term.getKind() == AffineExprKind::Mod)
      return Range{0, divisor - 1};
    std::optional<Range> inner = rangeOf(run(binary.getLHS()));
    if (!inner)
      return std::nullopt;
    return Range{0, std::max<int64_t>(inner->high, 0) / divisor};
  }
  std::optional<Range> rangeOf(const LinearForm &form) {
    Range sum{form.constant, form.constant};
    for (auto [term, coefficient] : form.terms) {
      std::optional<Range> range = rangeOf(term);
      if (!range)
        return std::nullopt;
      sum.low += std::min(range->low * coefficient, range->high * coefficient);
      sum.high += std::max(range->low * coefficient, range->high * coefficient);
    }
    return sum;
  }

  static int64_t floorDivide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

  /// Splits into a part divisible by `divisor` (returned divided) and the rest.
  std::pair<LinearForm, LinearForm> split(const LinearForm &form, int64_t divisor) {
    LinearForm multiple, rest;
    multiple.constant = floorDivide(form.constant, divisor);
    rest.constant = form.constant - multiple.constant * divisor;
    for (auto [term, coefficient] : form.terms) {
      if (coefficient % divisor == 0)
        multiple.terms.push_back({term, coefficient / divisor});
      else
        rest.terms.push_back({term, coefficient});
    }
    return {multiple, rest};
  }

  LinearForm quotient(const LinearForm &form, int64_t divisor) {
    if (divisor == 1)
      return form;
    auto [multiple, rest] = split(form, divisor);
    if (rest.terms.empty())
      return multiple;
    if (std::optional<Range> range = rangeOf(rest))
      if (floorDivide(range->low, divisor) == floorDivide(range->high, divisor)) {
        multiple.constant += floorDivide(range->low, divisor);
        return multiple;
      }
    // (g * x + r) floordiv (g * c) = x floordiv c, where r is less than g
    for (const auto &entry : rest.terms) {
      int64_t common = std::gcd(entry.second, divisor);
      if (common == 1)
        continue;
      auto [high, low] = split(rest, common);
      std::optional<Range> range = rangeOf(low);
      if (range && range->low >= 0 && range->high < common) {
        addForm(multiple, quotient(high, divisor / common), 1);
        return multiple;
      }
    }
    AffineExpr inner = rest.toExpr(rest.terms.front().first.getContext());
    // (x floordiv a) floordiv b = x floordiv (a * b)
    if (inner.getKind() == AffineExprKind::FloorDiv) {
      auto nested = cast<AffineBinaryOpExpr>(inner);
      divisor *= cast<AffineConstantExpr>(nested.getRHS()).getValue();
      addForm(multiple, quotient(run(nested.getLHS()), divisor), 1);
      return multiple;
    }
    addTerm(multiple, inner.floorDiv(divisor), 1);
    return multiple;
  }

  LinearForm remainder(const LinearForm &form, int64_t divisor) {
    LinearForm rest = split(form, divisor).second;
    if (divisor == 1)
      return LinearForm();
    if (rest.terms.empty())
      return rest;
    if (std::optional<Range> range = rangeOf(rest)) {
      int64_t base = floorDivide(range->low, divisor);
      if (base == floorDivide(range->high, divisor)) {
        rest.constant -= base * divisor;
        return rest;
      }
    }
    LinearForm result;
    AffineExpr inner = rest.toExpr(rest.terms.front().first.getContext());
    addTerm(result, inner % divisor, 1);
    return result;
  }

  /// k * (e mod c) + k * c * (e floordiv c) = k * e
  void pairDivisions(LinearForm &form) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < form.terms.size(); ++i) {
        auto [term, coefficient] = form.terms[i];
        if (term.getKind() != AffineExprKind::Mod)
          continue;
        auto mod = cast<AffineBinaryOpExpr>(term);
        int64_t divisor = cast<AffineConstantExpr>(mod.getRHS()).getValue();
        LinearForm inner = run(mod.getLHS()), divided = quotient(inner, divisor);
        bool present = !divided.terms.empty();
        for (const auto &part : divided.terms)
          present &= llvm::is_contained(
              form.terms, std::make_pair(part.first, part.second * coefficient * divisor));
        if (!present)
          continue;
        addTerm(form, term, -coefficient);
        addForm(form, divided, -coefficient * divisor);
        addForm(form, inner, coefficient);
        changed = true;
        break;
      }
    }
  }

  ArrayRef<int64_t> extents;
};

} // namespace

int64_t LinearForm::coefficientOf(unsigned position) const {
  for (auto [term, coefficient] : terms)
    if (auto dim = dyn_cast<AffineDimExpr>(term); dim && dim.getPosition() == position)
      return coefficient;
  return 0;
}

bool LinearForm::isNonlinearIn(unsigned position) const {
  return llvm::any_of(terms, [&](const auto &entry) {
    return !isa<AffineDimExpr>(entry.first) && entry.first.isFunctionOfDim(position);
  });
}

AffineExpr LinearForm::toExpr(MLIRContext *context) const {
  AffineExpr sum;
  for (auto [term, coefficient] : terms) {
    AffineExpr part = coefficient == 1 ? term : term * coefficient;
    sum = sum ? sum + part : part;
  }
  if (!sum)
    return getAffineConstantExpr(constant, context);
  return constant ? sum + constant : sum;
}

LinearForm autopar::linearize(AffineExpr expr, ArrayRef<int64_t> extents) {
  return Linearizer(extents).run(expr);
}

AffineExpr autopar::simplifyIndex(AffineExpr expr, ArrayRef<int64_t> extents) {
  return linearize(expr, extents).toExpr(expr.getContext());
}

AffineExpr autopar::flatten(ArrayRef<AffineExpr> indices, ArrayRef<int64_t> shape,
                            MLIRContext *context) {
  AffineExpr sum = getAffineConstantExpr(0, context);
  int64_t stride = 1;
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0; --dim) {
    if (shape[dim] != 1)
      sum = indices[dim] * stride + sum;
    stride *= shape[dim];
  }
  return sum;
}

AffineMap autopar::reshapeMap(ArrayRef<int64_t> from, ArrayRef<int64_t> to, MLIRContext *context) {
  SmallVector<AffineExpr> indices;
  for (unsigned dim = 0; dim < to.size(); ++dim)
    indices.push_back(getAffineDimExpr(dim, context));
  SmallVector<AffineExpr> results(from.size(), getAffineConstantExpr(0, context));
  if (llvm::is_contained(from, 0))
    return AffineMap::get(to.size(), 0, results, context);
  if (from == to) {
    for (auto [dim, size] : llvm::enumerate(to))
      if (size != 1)
        results[dim] = indices[dim];
    return AffineMap::get(to.size(), 0, results, context);
  }
  AffineExpr position = simplifyIndex(flatten(indices, to, context), to);
  int64_t stride = 1;
  for (int64_t dim = static_cast<int64_t>(from.size()) - 1; dim >= 0; --dim) {
    AffineExpr index = position.floorDiv(stride);
    bool isLeading = llvm::all_of(from.take_front(dim), [](int64_t size) { return size == 1; });
    if (!isLeading)
      index = index % from[dim];
    results[dim] = simplifyIndex(index, to);
    stride *= from[dim];
  }
  return AffineMap::get(to.size(), 0, results, context);
}

SmallVector<AffineExpr> autopar::applyMap(AffineMap map, ArrayRef<AffineExpr> indices) {
  SmallVector<AffineExpr> results;
  for (AffineExpr expr : map.getResults())
    results.push_back(expr.replaceDims(indices));
  return results;
}

bool autopar::isSamePosition(ArrayRef<AffineExpr> a, ArrayRef<int64_t> shapeA,
                             ArrayRef<AffineExpr> b, ArrayRef<int64_t> shapeB,
                             ArrayRef<int64_t> extents) {
  auto isSame = [](auto dimension) {
    auto [one, other, extent] = dimension;
    return one == other || extent == 1;
  };
  if ((a.empty() && b.empty()) ||
      (shapeA == shapeB && llvm::all_of(llvm::zip_equal(a, b, shapeA), isSame)))
    return true;
  MLIRContext *context = (a.empty() ? b : a).front().getContext();
  AffineExpr difference = flatten(a, shapeA, context) - flatten(b, shapeB, context);
  LinearForm form = linearize(difference, extents);
  return form.terms.empty() && form.constant == 0;
}
