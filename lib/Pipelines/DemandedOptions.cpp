// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "DemandedOptions.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// An option may become `demanded` where nobody gave it another value.
template <typename OptionType, typename T>
bool take(OptionType AutoShardOptions::*option, const T &demanded, const AutoShardOptions &given,
          AutoShardOptions &options) {
  const OptionType &own = given.*option;
  bool isGiven = own.hasValue() || own.getValue() != (AutoShardOptions().*option).getValue();
  if (isGiven && own.getValue() != demanded)
    return false;
  options.*option = demanded;
  return true;
}

} // namespace

std::string mlir::autopar::takeDemands(const AutoShardOptions &given, AutoShardOptions &options) {
  auto parsed = ::autopar::Constraints::parse("constraints", given.constraints);
  if (!parsed)
    return given.constraints; // the search says what is wrong
  ::autopar::Constraints rest = parsed.take();
  int64_t meshes = rest.number("stages", 1), turns = rest.number("virtual-stages", 1);
  bool cuts = rest.has("stages") || rest.has("virtual-stages");
  if (cuts && meshes > 0 && take(&AutoShardOptions::stages, meshes * turns, given, options)) {
    options.stageMeshes = meshes;
    rest.drop("stages");
    rest.drop("virtual-stages");
  }
  if (int64_t count = rest.number("micro-batches", 0);
      count > 0 && take(&AutoShardOptions::microBatches, count, given, options))
    rest.drop("micro-batches");
  if (std::string name = rest.word("schedule");
      !name.empty() && name != "auto" && take(&AutoShardOptions::schedule, name, given, options))
    rest.drop("schedule");
  if (std::string what = rest.word("recompute");
      !what.empty() && take(&AutoShardOptions::recompute, what, given, options))
    rest.drop("recompute");
  // Of another number that is given the search says whether it can be split so.
  if (int64_t parts = rest.expertParts(); parts > 1)
    (void)take(&AutoShardOptions::expertParts, parts, given, options);
  std::string mesh;
  for (const std::vector<::autopar::MeshAxis> &axes : rest.meshes())
    mesh += (mesh.empty() ? "" : "/") + ::autopar::shapeText(axes);
  if (!mesh.empty() && take(&AutoShardOptions::mesh, mesh, given, options))
    rest.drop("mesh");
  rest.dropStages(); // the cut has them
  return rest.toText();
}

::autopar::Status mlir::autopar::checkDemandedStages(ModuleOp module,
                                                     const ::autopar::Constraints &demands,
                                                     bool isCut) {
  llvm::StringSet<> known;
  module->walk([&](Operation *op) {
    for (StringRef id = getOpId(op); !id.empty(); id = id.take_front(id.rfind('/')))
      if (!known.insert(id).second || !id.contains('/'))
        break;
  });
  for (const auto &[op, stage] : demands.stages()) {
    if (!known.contains(op))
      return demands.errorAt(op, "there is no operation \"" + op + "\"");
    if (!isCut)
      return demands.errorAt(op, "\"" + op + "\" is on stage " + std::to_string(stage) +
                                     ", which needs --stages of at least 2");
  }
  return ::autopar::Status::ok();
}
