// SPDX-License-Identifier: Apache-2.0
// Lookup of operators by domain, name and version.
#include "OperatorTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;
using namespace mlir::autopar;

const OperatorTable &OperatorTable::get() {
  static const OperatorTable table = [] {
    OperatorTable all;
    addElementwiseOperators(all);
    addActivationOperators(all);
    addContractionOperators(all);
    addConstantOperators(all);
    addShapeOperators(all);
    addIndexingOperators(all);
    addReductionOperators(all);
    addNormalizationOperators(all);
    addConvolutionOperators(all);
    addPoolingOperators(all);
    addLossOperators(all);
    addResizeOperators(all);
    addSamplingOperators(all);
    addRecurrentOperators(all);
    addQuantizationOperators(all);
    addControlFlowOperators(all);
    addSequenceOperators(all);
    addSignalOperators(all);
    addAttentionOperators(all);
    addTrainingOperators(all);
    addDifferentiationOperators(all);
    addValueDependentOperators(all);
    addClassicalOperators(all);
    addContribWeightOperators(all);
    addContribTensorOperators(all);
    addContribQuantizationOperators(all);
    addContribProductOperators(all);
    addContribActivationOperators(all);
    addContribAttentionOperators(all);
    addContribExpertOperators(all);
    addContribLinearAttentionOperators(all);
    addContribNormalizationOperators(all);
    return all;
  }();
  return table;
}

static std::string keyOf(StringRef domain, StringRef name) {
  return (OperatorTable::domainOf(domain) + "::" + name).str();
}

void OperatorTable::add(StringRef name, Versions versions, Arity arity, StringRef attributes,
                        ImportFunction import) {
  entries[keyOf(domain, name)].push_back({versions, arity, attributes, import, {}, false});
}

void OperatorTable::addAnyValue(StringRef name, Versions versions, Arity arity,
                                StringRef attributes, ImportFunction import) {
  entries[keyOf(domain, name)].push_back({versions, arity, attributes, import, {}, true});
}

void OperatorTable::refuse(StringRef name, StringRef reason) {
  entries[keyOf(domain, name)].push_back({{1, 0}, {0, -1}, {}, nullptr, reason, true});
}

int64_t OperatorTable::newestVersion(StringRef domain) {
  return llvm::StringSwitch<int64_t>(domainOf(domain)) // of onnx 1.23 and onnxruntime 1.32
      .Case("", 28)
      .Case("ai.onnx.ml", 5)
      .Case("ai.onnx.preview", 1)
      .Case("ai.onnx.preview.training", 1)
      .Case("com.microsoft", 1)
      .Default(0);
}

const OperatorEntry *OperatorTable::find(StringRef domain, StringRef name, int64_t version) const {
  auto found = entries.find(keyOf(domain, name));
  if (found == entries.end())
    return nullptr;
  for (const OperatorEntry &entry : found->second)
    if (entry.versions.first <= version &&
        (entry.versions.last == 0 || version <= entry.versions.last))
      return &entry;
  return nullptr;
}

void OperatorTable::forEach(
    llvm::function_ref<void(StringRef, StringRef, const OperatorEntry &)> visit) const {
  std::vector<StringRef> keys;
  for (const auto &entry : entries)
    keys.push_back(entry.getKey());
  llvm::sort(keys);
  for (StringRef key : keys) {
    auto [domain, name] = key.split("::");
    for (const OperatorEntry &entry : entries.find(key)->second)
      visit(domain, name, entry);
  }
}
