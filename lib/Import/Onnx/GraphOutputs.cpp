// SPDX-License-Identifier: Apache-2.0
// What the function returns and how its signature says so: the model's outputs, metrics and next
// values of a training step of its own. What none of them needs goes.
#include "GraphImporter.h"
#include "Proto.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;

/// Values that leave the function, and what is said of each.
struct GraphImporter::Results {
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> attributes;
  llvm::StringSet<> outputs, metrics; ///< names so far

  void add(Value value, StringRef name, bool isMetric) {
    Builder builder(value.getContext());
    NamedAttrList said;
    said.set("autopar.name", builder.getStringAttr(name));
    if (isMetric)
      said.set("autopar.metric", builder.getUnitAttr());
    // What else a model tells may depend on what it has updated.
    if (isMetric && name == "loss" && isa<FloatType>(TensorBuilder::typeOf(value).getElementType()))
      said.set(kEvaluatedAttribute, builder.getUnitAttr());
    values.push_back(value);
    attributes.push_back(said.getDictionary(value.getContext()));
  }
};

LogicalResult GraphImporter::addOutput(const onnx::ValueInfoProto &output, bool mayBeMetric,
                                       Scope &scope, Results &results) {
  FailureOr<ImportedValue> value = lookUp(output.name(), scope, "output");
  if (failed(value))
    return failure();
  if (value->kind != ImportedValue::Tensor)
    return builder.fail("output '" + StringRef(output.name()) +
                        "' is a sequence or optional: only tensors leave a model");
  bool isMetric = mayBeMetric && TensorBuilder::typeOf(value->tensor).getNumElements() == 1;
  if (!(isMetric ? results.metrics : results.outputs).insert(output.name()).second)
    return builder.fail("output '" + StringRef(output.name()) + "' is listed twice");
  results.add(value->tensor, output.name(), isMetric);
  return success();
}

/// Operations without a reader, then what became a parameter for nothing.
void GraphImporter::dropUnused() {
  auto sweep = [&](bool constants) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
      if (isOpTriviallyDead(&op) && (constants || !isa<ConstantOp>(op)))
        op.erase();
  };
  sweep(/*constants=*/false);
  demoteLargeConstants();
  sweep(/*constants=*/true);
  removeUnusedParameters();
}

void GraphImporter::describeArguments() {
  Builder attributes(module.getContext());
  auto signature = SignatureAttributes::ofArguments(function);
  llvm::StringSet<> names; // of the source, each once
  for (const Argument &argument : arguments)
    if (argument.record.transposeOf != argument.name)
      names.insert(argument.name);
  auto mark = [&](Value argument, StringRef name, Attribute value) {
    signature.set(cast<BlockArgument>(argument).getArgNumber(), name, value);
  };
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    signature.set(i, "autopar.name", attributes.getStringAttr(argument.name));
    if (!argument.symbol.empty())
      signature.set(i, "autopar.origin",
                    FlatSymbolRefAttr::get(module.getContext(), argument.symbol));
    if (!argument.record.whyFixed.empty())
      signature.set(i, "autopar.fixed", attributes.getStringAttr(argument.record.whyFixed));
    if (argument.record.isTrained)
      signature.set(i, "autopar.source_trains", attributes.getUnitAttr());
    if (!argument.record.computedFrom.empty())
      signature.set(i, "autopar.computed_from",
                    attributes.getStrArrayAttr(argument.record.computedFrom));
    if (!argument.record.transposeOf.empty() && names.insert(argument.record.transposeOf).second)
      signature.set(i, "autopar.transpose_of",
                    attributes.getStringAttr(argument.record.transposeOf));
  }
  if (step)
    mark(step, "autopar.control", attributes.getStringAttr("step"));
  if (evaluationWord)
    mark(evaluationWord, "autopar.control", attributes.getStringAttr("evaluation"));
  for (auto [parameter, next] : stateUpdates)
    mark(parameter, "autopar.donated", attributes.getUnitAttr());
  signature.write();
}

LogicalResult GraphImporter::importOutputs(const onnx::GraphProto &graph, Scope &scope) {
  Results results;
  for (const onnx::ValueInfoProto &output : graph.output())
    if (failed(addOutput(output, /*mayBeMetric=*/false, scope, results)))
      return failure();
  if (options.ownTraining)
    for (const onnx::TrainingInfoProto &info : file.model().training_info())
      for (const onnx::ValueInfoProto &output : info.algorithm().output())
        if (!boundOutputs.contains(output.name()) &&
            failed(addOutput(output, /*mayBeMetric=*/true, scope, results)))
          return failure();
  for (auto [parameter, next] : stateUpdates)
    results.add(next, arguments[cast<BlockArgument>(parameter).getArgNumber()].name,
                /*isMetric=*/false);
  auto returned = func::ReturnOp::create(builder.opBuilder(), module.getLoc(), results.values);
  holdInBytes();
  dropUnused();
  for (ConstantOp constant : block->getOps<ConstantOp>())
    setOpId(constant, uniqueId("constant"));
  function.setType(FunctionType::get(module.getContext(), block->getArgumentTypes(),
                                     returned.getOperandTypes()));
  function.setAllResultAttrs(results.attributes);
  describeArguments();
  return success();
}
