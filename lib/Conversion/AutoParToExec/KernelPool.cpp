// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "KernelPool.h"

#include "autopar/Conversion/AutoParToLoops.h"

using namespace mlir;
using namespace mlir::autopar;

FailureOr<KernelPool::Kernel> KernelPool::kernelOf(
    StringRef content,
    function_ref<FailureOr<func::FuncOp>(ModuleOp module, StringRef name, int64_t &extent)> make) {
  auto [entry, isNew] = byContent.try_emplace(content);
  if (!isNew)
    return entry->second;
  int64_t extent = 1;
  FailureOr<func::FuncOp> function = make(module, "k" + std::to_string(contents.size()), extent);
  if (failed(function))
    return failure();
  contents.push_back(entry->first());
  entry->second = {*function, extent,
                   (*function)->getAttrOfType<DenseI64ArrayAttr>(kGridAttribute)};
  return entry->second;
}

llvm::StringMap<FlatSymbolRefAttr> KernelPool::take(KernelPool &other) {
  llvm::StringMap<FlatSymbolRefAttr> names;
  for (StringRef content : other.contents) {
    Kernel kernel = other.byContent.lookup(content);
    std::string before = kernel.symbol().str();
    auto [entry, isNew] = byContent.try_emplace(content, kernel);
    if (isNew) {
      kernel.function.setSymName("k" + std::to_string(contents.size()));
      kernel.function->moveBefore(module.getBody(), module.getBody()->end());
      contents.push_back(entry->first());
    }
    names[before] = FlatSymbolRefAttr::get(entry->second.function.getSymNameAttr());
  }
  return names;
}
