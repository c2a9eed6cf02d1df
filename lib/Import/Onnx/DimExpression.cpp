// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "DimExpression.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Deeper parentheses are no dimension that anyone writes.
constexpr int kDeepest = 32;

class Reader {
public:
  Reader(StringRef text, const std::map<std::string, int64_t> &bindings)
      : rest(text), bindings(bindings) {}

  std::optional<DimExpression> read() {
    std::optional<int64_t> value = sum(0);
    if (isWrong || !rest.trim().empty() || !isComposed)
      return std::nullopt;
    if (value && *value >= 0)
      made.extent = value;
    return made;
  }

private:
  /// A value is absent where a name is not bound or a number leaves its range; the text is read on.
  using Number = std::optional<int64_t>;

  Number sum(int depth) {
    Number total = product(depth);
    while (true) {
      if (take("+"))
        total = combine(total, product(depth), llvm::checkedAdd<int64_t>);
      else if (rest.starts_with(" - ") && take("-"))
        total = combine(total, product(depth), llvm::checkedSub<int64_t>);
      else
        return total;
      isComposed = true;
    }
  }

  Number product(int depth) {
    Number total = factor(depth);
    while (take("*")) {
      total = combine(total, factor(depth), llvm::checkedMul<int64_t>);
      isComposed = true;
    }
    return total;
  }

  Number factor(int depth) {
    rest = rest.ltrim();
    if (depth < kDeepest && take("(")) {
      Number value = sum(depth + 1);
      isWrong |= !take(")");
      return value;
    }
    StringRef word = rest.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '-' || c == ':'; });
    rest = rest.drop_front(word.size());
    int64_t number;
    if (!word.getAsInteger(10, number))
      return number;
    isWrong |= word.empty() || llvm::isDigit(word.front());
    if (!llvm::is_contained(made.names, word))
      made.names.push_back(word.str());
    auto bound = bindings.find(word.str());
    return bound == bindings.end() ? Number() : bound->second;
  }

  bool take(StringRef sign) {
    StringRef behind = rest.ltrim();
    if (!behind.consume_front(sign))
      return false;
    rest = behind;
    return true;
  }

  static Number combine(Number a, Number b, Number (*compute)(int64_t, int64_t)) {
    return a && b ? compute(*a, *b) : Number();
  }

  StringRef rest;
  const std::map<std::string, int64_t> &bindings;
  DimExpression made;
  bool isWrong = false, isComposed = false;
};

} // namespace

std::optional<DimExpression>
mlir::autopar::readDimExpression(StringRef text, const std::map<std::string, int64_t> &bindings) {
  return Reader(text, bindings).read();
}
