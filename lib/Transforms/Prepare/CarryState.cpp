// SPDX-License-Identifier: Apache-2.0
// The pass autopar-carry-state: outputs that are inputs of the next step, such as key/value caches,
// become state that stays where it is computed.
#include "StandIns.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/VaryingExtents.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace mlir::autopar {
#define GEN_PASS_DEF_CARRYSTATEPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A name, or what stands before and behind a `*` in it.
struct Pattern {
  StringRef before, behind;
  bool hasStar;

  explicit Pattern(StringRef text) : hasStar(text.contains('*')) {
    std::tie(before, behind) = text.split('*');
  }

  /// What the `*` stands for in a name.
  std::optional<StringRef> match(StringRef name) const {
    if (!hasStar)
      return name == before ? std::optional<StringRef>("") : std::nullopt;
    if (name.size() < before.size() + behind.size() || !name.starts_with(before) ||
        !name.ends_with(behind))
      return std::nullopt;
    return name.drop_front(before.size()).drop_back(behind.size());
  }

  std::string with(StringRef middle) const { return (before + middle + behind).str(); }
};

struct CarryStatePass : mlir::autopar::impl::CarryStatePassBase<CarryStatePass> {
  using Base::Base;

  void runOnOperation() override {
    function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal()) {
      getOperation().emitError("carry: expected a function @main with a body");
      return signalPassFailure();
    }
    results.emplace(SignatureAttributes::ofResults(function));
    arguments.emplace(SignatureAttributes::ofArguments(function));
    for (const std::string &pair : carry)
      if (failed(carryAll(pair)))
        return signalPassFailure();
    results->write();
    arguments->write();
  }

private:
  func::FuncOp function;
  std::optional<SignatureAttributes> results, arguments;

  InFlightDiagnostic error() { return function.emitError("carry: "); }

  LogicalResult carryAll(StringRef pair) {
    auto [output, input] = pair.split('=');
    output = output.trim(), input = input.trim();
    if (output.empty() || input.empty() || output.count('*') > 1 ||
        output.count('*') != input.count('*'))
      return error() << "expected OUTPUT=INPUT, with one `*` on both sides or none, such as "
                        "present.*=past_key_values.*, got \""
                     << pair << "\"";
    Pattern from(output), to(input);
    bool isFound = false;
    for (unsigned number = 0; number < function.getNumResults(); ++number) {
      auto name = dyn_cast_or_null<StringAttr>(results->get(number, "autopar.name"));
      std::optional<StringRef> middle = name ? from.match(name.getValue()) : std::nullopt;
      if (!middle)
        continue;
      isFound = true;
      if (failed(carryOne(number, name, to.with(*middle))))
        return failure();
    }
    if (!isFound)
      return error() << "there is no output \"" << output << "\"; the outputs are "
                     << names(*results, function.getNumResults());
    return success();
  }

  LogicalResult carryOne(unsigned result, StringAttr name, StringRef input) {
    unsigned number = 0;
    while (number < function.getNumArguments() &&
           dyn_cast_or_null<StringAttr>(arguments->get(number, "autopar.name")) != input)
      ++number;
    if (number == function.getNumArguments())
      return error() << "output \"" << name.getValue() << "\" goes on as input \"" << input
                     << "\", which there is not; the inputs are "
                     << names(*arguments, function.getNumArguments());
    if (!isFed(function.getArgument(number)) || arguments->get(number, "autopar.donated"))
      return error() << "\"" << input << "\" is a parameter, or is carried already";
    if (arguments->get(number, kVaryingAttribute))
      return error()
             << "\"" << input
             << "\" has a dimension that is bound to a range; what is carried has one extent";
    keepLast(result, function.getArgument(number));
    Type from = function.getResultTypes()[result], to = function.getArgumentTypes()[number];
    if (from != to)
      return error() << "output \"" << name.getValue() << "\" is " << from << " and input \""
                     << input << "\" " << to
                     << ": what is carried keeps its type, or is the input with rows behind it";
    Builder builder(&getContext());
    arguments->set(number, "autopar.donated", builder.getUnitAttr());
    results->set(result, "autopar.name", builder.getStringAttr(input));
    return success();
  }

  /// Of a result that is `argument` with rows behind it, gives the last ones alone, as many as
  /// `argument` has.
  void keepLast(unsigned result, BlockArgument argument) {
    Operation *terminator = function.getBody().front().getTerminator();
    Value grown = terminator->getOperand(result);
    auto concat = grown.getDefiningOp<ConcatOp>();
    if (!concat || concat.getInputs().front() != argument)
      return;
    auto kept = cast<RankedTensorType>(argument.getType()),
         type = cast<RankedTensorType>(grown.getType());
    SmallVector<int64_t> starts(type.getRank()), steps(type.getRank(), 1);
    starts[concat.getDim()] = type.getDimSize(concat.getDim()) - kept.getDimSize(concat.getDim());
    OpBuilder builder(terminator);
    auto slice = SliceOp::create(builder, grown.getLoc(), kept, grown, starts, steps);
    nameAfter(slice, concat, "kept");
    terminator->setOperand(result, slice);
    SmallVector<Type> results(function.getResultTypes());
    results[result] = kept;
    function.setType(builder.getFunctionType(function.getArgumentTypes(), results));
  }

  static std::string names(const SignatureAttributes &attributes, unsigned count) {
    std::string text;
    for (unsigned i = 0; i < count; ++i)
      if (auto name = dyn_cast_or_null<StringAttr>(attributes.get(i, "autopar.name"));
          name && !attributes.get(i, "autopar.origin"))
        text += (text.empty() ? "" : ", ") + name.getValue().str();
    return text.empty() ? "none" : text;
  }
};

} // namespace
