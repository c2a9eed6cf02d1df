// SPDX-License-Identifier: Apache-2.0
// What the user is told of an export: signs that it left out what only training needs, the mode
// that nodes are read in, values that are not there.
#include "GraphImporter.h"
#include "Proto.h"

using namespace mlir;
using namespace mlir::autopar;

void GraphImporter::warnOfInferenceExport() {
  int biased = 0, normalized = 0, identities = 0;
  for (const onnx::NodeProto &node : file.model().graph().node()) {
    StringRef type = node.op_type();
    biased += type == "Conv" && node.input_size() > 2 && !node.input(2).empty();
    normalized += type.ends_with("Normalization");
    identities += type == "Identity" && StringRef(node.name()).contains_insensitive("dropout");
  }
  if (biased > 0 && normalized == 0 && !records.tellsAll())
    emitWarning(module.getLoc())
        << biased << (biased == 1 ? " convolution has a bias" : " convolutions have a bias")
        << " and nothing in the model normalizes: if the source has batch normalization, the "
           "export folded it; export without folding to train with it: torch.onnx.export(..., "
           "dynamo=True, optimize=False), or by the older exporter (..., dynamo=False, "
           "training=TrainingMode.TRAINING, do_constant_folding=False)";
  if (identities > 0)
    emitWarning(module.getLoc()) << identities
                                 << (identities == 1 ? " dropout was" : " dropouts were")
                                 << " exported as Identity: the model is trained without";
}

void GraphImporter::tellLeftOut() {
  SmallVector<std::string> names = records.leftOut(file.model().graph());
  if (names.empty())
    return;
  emitWarning(module.getLoc())
      << names.size()
      << (names.size() == 1 ? " parameter of the source is" : " parameters of the source are")
      << " not in the model and not trained: " << names.front()
      << (names.size() == 1 ? "" : ", ...")
      << "; the exporter left out zeros or computed something from them; export with "
         "torch.onnx.export(..., dynamo=True, optimize=False) to train them";
}

/// "2 Dropout nodes".
static std::string nodes(StringRef type, int count) {
  return (Twine(count) + " " + type + (count == 1 ? " node" : " nodes")).str();
}

void GraphImporter::tellModes() {
  for (const auto &[type, count] : switchedMode)
    emitRemark(module.getLoc()) << nodes(type, count)
                                << (options.trainingMode
                                        ? " exported for inference: read in training mode "
                                          "(--inference-mode keeps inference)"
                                        : " exported for training: read in inference mode");
  bool isTrained =
      options.trainingMode || (options.ownTraining && file.model().training_info_size() > 0);
  if (isTrained)
    return;
  for (const auto &[type, count] : exportedTraining)
    emitWarning(module.getLoc()) << nodes(type, count)
                                 << " exported for training: compiled in training mode "
                                    "(--inference-mode reads them in inference mode)";
}

void GraphImporter::warnOfAbsentValues() {
  std::map<StringRef, int> counts;
  for (const Argument &argument : arguments)
    if (auto absent = absentFiles.find(argument.symbol); absent != absentFiles.end())
      ++counts[absent->second];
  for (auto [path, count] : counts)
    emitWarning(module.getLoc()) << count
                                 << (count == 1 ? " initializer has" : " initializers have")
                                 << " no values: '" << path
                                 << "' does not exist; a run needs --init";
}
