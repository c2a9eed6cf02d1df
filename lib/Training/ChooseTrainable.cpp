// SPDX-License-Identifier: Apache-2.0
// The pass autopar-choose-trainable: see Passes.td for the rule.
#include "autopar/Training/Passes.h"

#include "NamePatterns.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Training/Adapters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_CHOOSETRAINABLEPASS
#include "autopar/Training/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {
/// Where a value comes from, or goes to, that is only shaped or rounded on the way.
bool keepsNumbers(Operation *op) { return isWholeView(op) || isa<BroadcastOp, CastOp>(op); }

bool isOfProduct(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && keepsNumbers(op))
    op = op->getOperand(0).getDefiningOp();
  return op && isa<DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp>(op);
}

/// Whether a product or convolution reads the value, or it is added to the result of one.
bool isWeightOrBias(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (keepsNumbers(user))
      return isWeightOrBias(user->getResult(0));
    if (auto binary = dyn_cast<BinaryOp>(user); binary && binary.getKind() == BinaryKind::Add)
      return llvm::any_of(binary->getOperands(), isOfProduct);
    return isa<DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp>(user);
  });
}

/// Matrices, and what has extents along two dimensions: not the scales and biases of
/// normalizations, which may be stored as [16, 1, 1].
bool isDecayed(RankedTensorType type) {
  return type.getRank() == 2 ||
         llvm::count_if(type.getShape(), [](int64_t extent) { return extent > 1; }) >= 2;
}

using Match = NamePatterns::Match;

struct ChooseTrainablePass : mlir::autopar::impl::ChooseTrainablePassBase<ChooseTrainablePass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(choose()))
      signalPassFailure();
  }

private:
  LogicalResult choose() {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function)
      return getOperation().emitError("expected a function @main to train");
    FailureOr<NamePatterns> frozen = NamePatterns::of(getOperation(), "freeze", freeze),
                            only = NamePatterns::of(getOperation(), "train-only", trainOnly),
                            undecayed = NamePatterns::of(getOperation(), "no-decay", noDecay);
    if (failed(frozen) || failed(only) || failed(undecayed))
      return failure();
    // What becomes of the parameters, and which; in the order in which they come.
    llvm::MapVector<StringRef, SmallVector<std::string>> groups;
    int64_t tensors = 0, numbers = 0;
    SmallVector<std::string> folded; // trained, but made of parameters in an unknown way
    auto attributes = SignatureAttributes::ofArguments(function);
    auto isAdapter = [&](BlockArgument argument) {
      return attributes.get(argument.getArgNumber(), kAdapterAttribute) != nullptr;
    };
    bool isAdapted = llvm::any_of(function.getArguments(), isAdapter);
    for (BlockArgument argument : function.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (!isParameter(argument))
        continue;
      ParameterNames names(argument);
      bool isFrozen = frozen->match(names) != Match::None;
      Match asked = only->match(names);
      StringRef cannot = reasonWhyNever(argument);
      if (!isFrozen && asked == Match::Name && !cannot.empty())
        return getOperation().emitError()
               << "train-only: \"" << names.own << "\" cannot be trained: " << cannot;
      StringRef why = isFrozen                                 ? "frozen by name"
                      : isAdapter(argument)                    ? ""
                      : !only->empty() && asked == Match::None ? "not among those to be trained"
                      : only->empty() && isAdapted             ? "not an adapter"
                      : !cannot.empty() || asked == Match::Name
                          ? cannot
                          : reasonAgainst(argument, names, asked);
      auto type = cast<RankedTensorType>(argument.getType());
      bool decays = why.empty() && undecayed->match(names) == Match::None && isDecayed(type);
      groups[!why.empty() ? why
             : decays     ? "trained"
                          : "trained without weight decay"]
          .push_back(patternOf(names.text()));
      if (!why.empty())
        continue;
      if (!names.sources.empty() && !attributes.get(number, "autopar.fixed") &&
          !attributes.get(number, "autopar.transpose_of"))
        folded.push_back(names.text());
      ++tensors;
      numbers += type.getNumElements();
      attributes.set(number, "autopar.trainable",
                     StringAttr::get(&getContext(), decays ? "decay" : "no_decay"));
    }
    attributes.write();
    if (failed(frozen->checkUsed(getOperation())) || failed(only->checkUsed(getOperation())) ||
        failed(undecayed->checkUsed(getOperation(), "parameter that is trained")))
      return failure();
    if (tensors == 0 && !groups.empty()) {
      InFlightDiagnostic error = getOperation().emitError("nothing is left to train");
      describe(error, groups);
      return error;
    }
    report(function, groups, tensors, numbers);
    if (!folded.empty())
      emitWarning(function.getLoc())
          << folded.size() << (folded.size() == 1 ? " tensor is" : " tensors are")
          << " trained as the exporter computed " << (folded.size() == 1 ? "it" : "them")
          << " from what its source trains: " << folded.front()
          << (folded.size() == 1 ? "" : ", ...")
          << "; export with torch.onnx.export(..., dynamo=True, optimize=False) to train that";
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
    describe(remark, groups);
  }

  static void describe(InFlightDiagnostic &to,
                       const llvm::MapVector<StringRef, SmallVector<std::string>> &groups) {
    for (const auto &[what, names] : groups) {
      llvm::MapVector<StringRef, int64_t> counts;
      for (const std::string &name : names)
        ++counts[name];
      to << "\n  " << what << ": ";
      llvm::interleave(
          counts,
          [&](const auto &entry) {
            to << entry.first;
            if (entry.second > 1)
              to << " (" << entry.second << ")";
          },
          [&] { to << ", "; });
    }
  }

  /// Why no rule trains a parameter; empty if one may.
  static StringRef reasonWhyNever(BlockArgument argument) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (function.getArgAttr(argument.getArgNumber(), "autopar.donated"))
      return "the model updates it itself";
    auto type = cast<RankedTensorType>(argument.getType());
    if (!isa<FloatType>(type.getElementType()))
      return "it holds no floats";
    if (isByteFloat(type.getElementType()))
      return "it holds quantized floats";
    return "";
  }

  /// Why the default rule leaves a parameter alone that could be trained; empty if it does not.
  static StringRef reasonAgainst(BlockArgument argument, const ParameterNames &names, Match asked) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto fixed = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "autopar.fixed");
    // Where the export leaves it open, who names one of the sources knows.
    bool isOpen = !names.sources.empty();
    if (fixed && !(isOpen && asked == Match::Some))
      return fixed.getValue();
    for (StringRef name : names.all())
      if (StringRef why = reasonAgainst(argument, name); !why.empty())
        return why;
    return "";
  }

  static StringRef reasonAgainst(BlockArgument argument, StringRef name) {
    StringRef last = name.substr(name.find_last_of("./") + 1);
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    bool isKnown = function.getArgAttr(argument.getArgNumber(), "autopar.source_trains") ||
                   last == "weight" || last == "bias" || isWeightOrBias(argument);
    if (cast<RankedTensorType>(argument.getType()).getNumElements() <= 1 && !isKnown)
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
