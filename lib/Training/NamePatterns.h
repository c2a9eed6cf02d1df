// SPDX-License-Identifier: Apache-2.0
// Parameters by name: patterns of command lines against what a parameter is called.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/GlobPattern.h"

#include <memory>

namespace mlir::autopar {

/// What a parameter is called: by the model file and, where the exporter computed it from tensors
/// of the source under a name that it made up, by those.
struct ParameterNames {
  std::string own;
  SmallVector<StringRef> sources;

  explicit ParameterNames(BlockArgument argument);
  SmallVector<StringRef> all() const;
  std::string text() const;
};

/// Name patterns (`*` and `?`) that one flag was given.
class NamePatterns {
public:
  /// What a name is met by: nothing, a pattern of `*` and `?` alone, one that says more, itself.
  enum class Match { None, All, Some, Name };

  /// Reports what is no pattern.
  static FailureOr<NamePatterns> of(Operation *module, StringRef flag, ArrayRef<std::string> texts);
  bool empty() const { return patterns.empty(); }
  Match match(const ParameterNames &names);
  /// Reports a pattern that nothing met; `what` was looked for.
  LogicalResult checkUsed(Operation *module, StringRef what = "parameter") const;

private:
  struct Pattern {
    std::shared_ptr<const std::string> text; ///< which the glob refers to
    llvm::GlobPattern glob;
    bool isUsed = false;

    bool isName() const { return StringRef(*text).find_first_of("*?[{\\") == StringRef::npos; }
    bool isSpecific() const { return StringRef(*text).find_first_not_of("*?") != StringRef::npos; }
  };
  StringRef flag;
  SmallVector<Pattern> patterns;
};

} // namespace mlir::autopar
