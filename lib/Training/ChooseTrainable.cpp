// SPDX-License-Identifier: Apache-2.0
// The pass autopar-choose-trainable: see Passes.td for the rule.
#include "autopar/Training/Passes.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
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
    // What becomes of the parameters, and which; in the order in which they come.
    llvm::MapVector<StringRef, SmallVector<std::string>> groups;
    int64_t tensors = 0, numbers = 0;
    auto attributes = SignatureAttributes::ofArguments(function);
    for (BlockArgument argument : function.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (!isParameter(argument))
        continue;
      std::string name = nameOfArgument(argument);
      bool isFrozen = matches(*frozen, name), isNamed = matches(*only, name);
      StringRef why = isFrozen                     ? "frozen by name"
                      : !only->empty() && !isNamed ? "not among those to be trained"
                                                   : reasonAgainst(argument, name);
      auto type = cast<RankedTensorType>(argument.getType());
      bool decays = type.getRank() >= 2;
      groups[!why.empty() ? why
             : decays     ? "trained"
                          : "trained without weight decay"]
          .push_back(patternOf(name));
      if (!why.empty())
        continue;
      ++tensors;
      numbers += type.getNumElements();
      attributes.set(number, "autopar.trainable",
                     StringAttr::get(&getContext(), decays ? "decay" : "no_decay"));
    }
    attributes.write();
    if (failed(checkUsed("freeze", *frozen)) || failed(checkUsed("train-only", *only)))
      return failure();
    report(function, groups, tensors, numbers);
    return success();
  }

  /// A name with numbers replaced by `*`, so that layers that are alike have one entry: a pattern
  /// for --freeze, too.
  static std::string patternOf(StringRef name) {
    std::string pattern;
    for (auto [i, c] : llvm::enumerate(name)) {
      bool isLayer = llvm::isDigit(c) && (i == 0 || !llvm::isAlpha(name[i - 1]));
      if (!isLayer)
        pattern += c;
      else if (pattern.empty() || pattern.back() != '*')
        pattern += '*';
    }
    return pattern;
  }

  static void report(func::FuncOp function,
                     const llvm::MapVector<StringRef, SmallVector<std::string>> &groups,
                     int64_t tensors, int64_t numbers) {
    InFlightDiagnostic remark = emitRemark(function.getLoc())
                                << "trains " << tensors << " parameter" << (tensors == 1 ? "" : "s")
                                << ", " << numbers << " numbers";
    for (const auto &[what, names] : groups) {
      llvm::MapVector<StringRef, int64_t> counts;
      for (const std::string &name : names)
        ++counts[name];
      remark << "\n  " << what << ": ";
      llvm::interleave(
          counts,
          [&](const auto &entry) {
            remark << entry.first;
            if (entry.second > 1)
              remark << " (" << entry.second << ")";
          },
          [&] { remark << ", "; });
    }
  }

  /// Why the default rule leaves a parameter alone; empty if it does not.
  StringRef reasonAgainst(BlockArgument argument, StringRef name) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (function.getArgAttr(argument.getArgNumber(), "autopar.donated"))
      return "the model updates it itself";
    auto type = cast<RankedTensorType>(argument.getType());
    if (!isa<FloatType>(type.getElementType()))
      return "it holds no floats";
    if (type.getNumElements() <= 1)
      return "it is a single number";
    if (name.ends_with("running_mean") || name.ends_with("running_var"))
      return "it is a running statistic";
    if (name.ends_with("inv_freq") || name.ends_with("cos_cached") || name.ends_with("sin_cached"))
      return "it is a table of rotary embeddings";
    if (name.ends_with("attn_mask") || name.ends_with("attention_mask") ||
        name.ends_with("masked_bias"))
      return "it is a mask";
    return "";
  }
};
} // namespace
