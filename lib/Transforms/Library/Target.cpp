// SPDX-License-Identifier: Apache-2.0
// The names of targets.
#include "autopar/Transforms/Target.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::autopar;
using llvm::StringRef;

static constexpr Target kTargets[] = {Target::Cpu, Target::Cuda};

StringRef mlir::autopar::nameOf(Target target) {
  switch (target) {
  case Target::Cpu:
    return "cpu";
  case Target::Cuda:
    return "cuda";
  }
  llvm_unreachable("not a target");
}

std::optional<Target> mlir::autopar::targetFromName(StringRef name) {
  const Target *found = llvm::find_if(kTargets, [&](Target one) { return nameOf(one) == name; });
  return found == std::end(kTargets) ? std::nullopt : std::optional(*found);
}

std::string mlir::autopar::targetNames() {
  return llvm::join(llvm::map_range(kTargets, nameOf), " or ");
}

bool llvm::cl::parser<Target>::parse(Option &option, StringRef, StringRef text, Target &value) {
  std::optional<Target> found = targetFromName(text);
  if (!found)
    return option.error("unknown target \"" + text + "\"; expected " + targetNames());
  value = *found;
  return false;
}

void llvm::cl::parser<Target>::print(raw_ostream &os, Target value) { os << nameOf(value); }
