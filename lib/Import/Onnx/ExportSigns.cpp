// SPDX-License-Identifier: Apache-2.0
// Signs that the export of a model that is to be trained left out what only training needs.
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
  if (biased > 0 && normalized == 0)
    emitWarning(module.getLoc())
        << biased << (biased == 1 ? " convolution has a bias" : " convolutions have a bias")
        << " and nothing in the model normalizes: if the source has batch normalization, the "
           "export folded it; export for training (torch.onnx.export(..., "
           "training=TrainingMode.TRAINING, do_constant_folding=False)) to train with it";
  if (identities > 0)
    emitWarning(module.getLoc()) << identities
                                 << (identities == 1 ? " dropout was" : " dropouts were")
                                 << " exported as Identity: the model is trained without";
}
