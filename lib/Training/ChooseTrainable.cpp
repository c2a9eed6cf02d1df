// SPDX-License-Identifier: Apache-2.0
// The pass autopar-choose-trainable: see Passes.td for the rule.
#include "autopar/Training/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/GlobPattern.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_CHOOSETRAINABLEPASS
#include "autopar/Training/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {
/// One name pattern, and whether it met a parameter.
struct Pattern {
  std::string text;
  llvm::GlobPattern glob;
  bool isUsed = false;
};

struct ChooseTrainablePass : mlir::autopar::impl::ChooseTrainablePassBase<ChooseTrainablePass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(choose()))
      signalPassFailure();
  }

private:
  FailureOr<SmallVector<Pattern>> compile(StringRef flag, ArrayRef<std::string> texts) {
    SmallVector<Pattern> patterns;
    for (const std::string &text : texts) {
      llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(text);
      if (!glob)
        return getOperation().emitError()
               << flag << ": \"" << text
               << "\" is no pattern: " << llvm::toString(glob.takeError());
      patterns.push_back({text, std::move(*glob)});
    }
    return patterns;
  }

  static bool matches(MutableArrayRef<Pattern> patterns, StringRef name) {
    bool found = false;
    for (Pattern &pattern : patterns)
      if (pattern.glob.match(name))
        found = pattern.isUsed = true;
    return found;
  }

  LogicalResult checkUsed(StringRef flag, ArrayRef<Pattern> patterns) {
    for (const Pattern &pattern : patterns)
      if (!pattern.isUsed)
        return getOperation().emitError()
               << flag << ": no parameter is called \"" << pattern.text
               << "\"; names as in the model file, * stands for any characters";
    return success();
  }

  LogicalResult choose() {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function)
      return getOperation().emitError("expected a function @main to train");
    FailureOr<SmallVector<Pattern>> frozen = compile("freeze", freeze),
                                    only = compile("train-only", trainOnly);
    if (failed(frozen) || failed(only))
      return failure();
    for (BlockArgument argument : function.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (!function.getArgAttr(number, "autopar.origin"))
        continue;
      auto attribute = function.getArgAttrOfType<StringAttr>(number, "autopar.name");
      StringRef name = attribute ? attribute.getValue() : StringRef();
      bool isFrozen = matches(*frozen, name), isNamed = matches(*only, name);
      StringRef why = isFrozen                     ? "frozen by name"
                      : !only->empty() && !isNamed ? "not among those to be trained"
                                                   : reasonAgainst(argument, name);
      if (!why.empty()) {
        emitRemark(function.getLoc()) << "parameter \"" << name << "\" is not trained: " << why;
        continue;
      }
      bool decays = cast<RankedTensorType>(argument.getType()).getRank() >= 2;
      function.setArgAttr(number, "autopar.trainable",
                          StringAttr::get(&getContext(), decays ? "decay" : "no_decay"));
      emitRemark(function.getLoc())
          << "parameter \"" << name << "\" is trained" << (decays ? "" : ", without weight decay");
    }
    if (failed(checkUsed("freeze", *frozen)) || failed(checkUsed("train-only", *only)))
      return failure();
    return success();
  }

  /// Why the default rule leaves a parameter alone; empty if it does not.
  static StringRef reasonAgainst(BlockArgument argument, StringRef name) {
    auto type = cast<RankedTensorType>(argument.getType());
    if (!isa<FloatType>(type.getElementType()))
      return "it holds no floats";
    if (type.getNumElements() <= 1)
      return "it is a single number";
    if (name.ends_with("running_mean") || name.ends_with("running_var"))
      return "it is a running statistic";
    return "";
  }
};
} // namespace
