// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "NamePatterns.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::autopar;

ParameterNames::ParameterNames(BlockArgument argument) : own(nameOfArgument(argument)) {
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (auto from =
          function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), "autopar.computed_from"))
    llvm::append_range(sources, from.getAsValueRange<StringAttr>());
}

SmallVector<StringRef> ParameterNames::all() const {
  SmallVector<StringRef> names{own};
  llvm::append_range(names, sources);
  return names;
}

std::string ParameterNames::text() const {
  return sources.empty() ? own : own + " (of " + llvm::join(sources, " and ") + ")";
}

FailureOr<NamePatterns> NamePatterns::of(Operation *module, StringRef flag,
                                         ArrayRef<std::string> texts) {
  NamePatterns made;
  made.flag = flag;
  for (const std::string &text : texts) {
    auto own = std::make_shared<const std::string>(text);
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(*own);
    if (!glob)
      return module->emitError() << flag << ": \"" << text
                                 << "\" is no pattern: " << llvm::toString(glob.takeError());
    made.patterns.push_back({std::move(own), std::move(*glob)});
  }
  return made;
}

NamePatterns::Match NamePatterns::match(const ParameterNames &names) {
  Match found = Match::None;
  for (Pattern &pattern : patterns)
    if (llvm::any_of(names.all(), [&](StringRef name) { return pattern.glob.match(name); })) {
      pattern.isUsed = true;
      found = std::max(found, pattern.isName()       ? Match::Name
                              : pattern.isSpecific() ? Match::Some
                                                     : Match::All);
    }
  return found;
}

LogicalResult NamePatterns::checkUsed(Operation *module, StringRef what) const {
  for (const Pattern &pattern : patterns)
    if (!pattern.isUsed)
      return module->emitError() << flag << ": no " << what << " is called \"" << *pattern.text
                                 << "\"; names as in the model file, * stands for any characters";
  return success();
}
