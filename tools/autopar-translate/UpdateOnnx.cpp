// SPDX-License-Identifier: Apache-2.0
// autopar-translate --update-onnx: a model with the weights of a training.
#include "Modes.h"

#include "autopar/Import/Onnx/WriteWeights.h"
#include "autopar/Runtime/WeightFiles.h"
#include "autopar/Training/Adapters.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"

namespace autopar::translate {

int updateOnnxFile(llvm::StringRef model, llvm::StringRef weights, llvm::StringRef adapters,
                   llvm::StringRef output) {
  if (weights.empty() || output == "-") {
    llvm::errs() << "autopar-translate: --update-onnx wants --weights FILE.safetensors, and a file "
                    "to write with -o\n";
    return usage;
  }
  if (!llvm::sys::fs::exists(model)) {
    llvm::errs() << "autopar-translate: model '" << model << "' does not exist\n";
    return noInput;
  }
  std::optional<mlir::autopar::AdapterSizes> sizes;
  if (!adapters.empty()) {
    auto parsed = mlir::autopar::LowRank::parse(adapters.str());
    if (!parsed)
      return complain({StatusCode::Usage, parsed.status().message()});
    sizes = {parsed->rank, parsed->alpha};
  }
  auto files = runtime::WeightFiles::open(weights.str());
  if (!files)
    return complain(files.status());
  std::map<std::string, mlir::autopar::Weight> table;
  for (const std::string &name : (*files)->names()) {
    const runtime::WeightFiles::Tensor &tensor = *(*files)->find(name);
    table[name] = {tensor.entry.dtype,
                   tensor.entry.shape,
                   {reinterpret_cast<const char *>(tensor.data),
                    static_cast<size_t>(tensor.entry.end - tensor.entry.begin)}};
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  return complain(mlir::autopar::writeWeights(model.str(), table, sizes, output.str(), context));
}

} // namespace autopar::translate
