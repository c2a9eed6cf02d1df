// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "JoinedTensors.h"

#include "GraphImporter.h"
#include "Proto.h"

#include "TensorData.h"

#include "autopar/Interfaces/TensorLayout.h"

using namespace mlir;
using namespace mlir::autopar;

/// torch's older exporter leaves no more of it than an Identity to the other name, and so it does
/// where weights are tied; but those are not one number everywhere.
std::string JoinedTensors::readInstead(const onnx::NodeProto &node,
                                       const onnx::TensorProto &tensor) {
  if (!records.isFromOlderTorch())
    return records.readInstead(node, tensor.name());
  std::string ignored;
  FailureOr<RankedTensorType> type = tensorTypeOf(tensor, context, ignored);
  bool isName = node.op_type() == "Identity" && node.output_size() == 1 &&
                !StringRef(node.output(0)).starts_with("/");
  if (!isName || failed(type) || !isa<FloatType>(type->getElementType()) ||
      type->getNumElements() < 2)
    return "";
  uint64_t bytes = storedBytes(*type);
  FailureOr<TensorPlace> place = file.locate(tensor, bytes, ignored);
  if (failed(place) || place->kind != TensorPlace::File)
    return "";
  if (isOneNumber(place->bytes, bytes / type->getNumElements()))
    return node.output(0);
  stillJoined.push_back({node.output(0), tensor.name()});
  return "";
}

FailureOr<ImportedValue> GraphImporter::readInput(Node &node, StringRef name) {
  auto found = node.scope.initializers.find(name);
  bool isOfModel = !node.scope.parent && !node.scope.attributes;
  if (isOfModel && found != node.scope.initializers.end())
    if (std::string other = joinedTensors.readInstead(node.proto, *found->second); !other.empty()) {
      auto &tensor = joined[{name.str(), other}];
      if (!tensor) {
        tensor = std::make_shared<onnx::TensorProto>(*found->second);
        tensor->set_name(other);
      }
      FailureOr<Value> value = importTensor(*tensor, other, /*isInitializer=*/true);
      if (failed(value))
        return failure();
      if (auto argument = dyn_cast<BlockArgument>(*value);
          argument && records.readsTransposed(node.proto, name, other))
        arguments[argument.getArgNumber()].record.transposeOf = other;
      return ImportedValue(*value);
    }
  return lookUp(name, node.scope, "input " + Twine(node.inputs.size()));
}

void GraphImporter::tellJoined() {
  if (!joined.empty())
    emitRemark(module.getLoc()) << joined.size()
                                << (joined.size() == 1 ? " tensor was" : " tensors were")
                                << " stored as others of the same values: trained apart from them";
  std::vector<std::pair<std::string, std::string>> &stillJoined = joinedTensors.stillJoined;
  // A table that is looked up and also an output matrix is tied on purpose.
  for (const onnx::NodeProto &node : file.model().graph().node())
    if (node.op_type() == "Gather")
      llvm::erase_if(stillJoined, [&](const auto &pair) { return pair.second == node.input(0); });
  if (stillJoined.empty())
    return;
  const auto &[name, other] = stillJoined.front();
  emitWarning(module.getLoc())
      << stillJoined.size() << (stillJoined.size() == 1 ? " weight is" : " weights are")
      << " stored as another of the same values and trained as one with it: " << name << " as "
      << other << (stillJoined.size() == 1 ? "" : ", ...")
      << "; if the source does not tie them, export with training=TrainingMode.TRAINING, "
         "do_constant_folding=False";
}
