// SPDX-License-Identifier: Apache-2.0
// The model's inputs: binding of symbolic dimensions, with one report for all that stay open.
#include "DimExpression.h"
#include "GraphImporter.h"
#include "Proto.h"
#include "TensorData.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::autopar;

FailureOr<RankedTensorType> GraphImporter::inputType(const onnx::ValueInfoProto &input) {
  if (!input.type().has_tensor_type())
    return builder.fail(
        "input '" + StringRef(input.name()) +
        "' is no tensor: sequences, optionals, maps and sparse tensors cannot enter a model");
  const auto &tensor = input.type().tensor_type();
  Type element = elementTypeOf(tensor.elem_type(), module.getContext());
  if (!element)
    return builder.fail("input '" + StringRef(input.name()) + "': element type " +
                        dataTypeName(tensor.elem_type()) + " is not supported");
  if (!tensor.has_shape())
    return builder.fail("input '" + StringRef(input.name()) + "' has no shape, not even a rank");
  SmallVector<int64_t> shape;
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const auto &dim = tensor.shape().dim(i);
    std::string place = (StringRef(input.name()) + "." + Twine(i)).str();
    if (dim.has_dim_value() && dim.dim_value() > 0) {
      shape.push_back(dim.dim_value());
      continue;
    }
    std::string name = dim.dim_param().empty() ? place : dim.dim_param();
    openDims.insert(name);
    openDims.insert(place);
    auto bound = options.bindings.find(place);
    if (bound == options.bindings.end())
      bound = options.bindings.find(name);
    if (bound != options.bindings.end()) {
      shape.push_back(bound->second);
      continue;
    }
    std::optional<DimExpression> made = readDimExpression(name, options.bindings);
    if (made)
      openDims.insert(made->names.begin(), made->names.end());
    shape.push_back(made && made->extent ? *made->extent : 1);
    if (made && made->extent)
      continue;
    SmallVector<std::string> open = made ? made->names : SmallVector<std::string>{name};
    llvm::erase_if(open, [&](const std::string &each) { return options.bindings.count(each); });
    if (open.empty()) // bound, to no extent that there is
      open.push_back(name);
    for (const std::string &each : open) {
      std::string &where = unbound[each];
      where += (where.empty() ? "" : ", ") + place;
    }
  }
  std::optional<RankedTensorType> type = checkedTensorType(shape, element);
  if (!type)
    return builder.fail("input '" + StringRef(input.name()) + "': shape " + printShape(shape) +
                        " is negative or too large");
  return *type;
}

LogicalResult GraphImporter::reportUnbound() {
  if (unbound.empty())
    return success();
  std::vector<std::string> names, flags, strange;
  for (const auto &[name, extent] : options.bindings)
    if (!openDims.count(name))
      strange.push_back("'" + name + "'");
  for (const auto &[name, where] : unbound) {
    names.push_back(name == where ? name : name + " (" + where + ")");
    flags.push_back(name + "=N");
  }
  return builder.fail("input dimensions are not bound: " + llvm::join(names, ", ") +
                      "; give their extents with --bind " + llvm::join(flags, ",") +
                      (strange.empty() ? "" : "; there is no " + llvm::join(strange, ", ")));
}

LogicalResult GraphImporter::checkBindings() {
  for (const auto &[name, extent] : options.bindings) {
    if (openDims.count(name)) {
      if (extent == 0)
        emitWarning(module.getLoc()) << "'" << name << "' is bound to 0: inputs that have this "
                                     << "dimension are empty";
      continue;
    }
    std::vector<std::string> known(openDims.begin(), openDims.end());
    return builder.fail(
        "binding '" + name + "' matches no dimension of the model" +
        (known.empty() ? ", all are fixed" : "; open are: " + llvm::join(known, ", ")));
  }
  return success();
}

LogicalResult GraphImporter::importInputs(const onnx::GraphProto &graph, Scope &scope) {
  for (const onnx::ValueInfoProto &input : graph.input()) {
    if (scope.initializers.count(input.name()))
      continue;
    FailureOr<RankedTensorType> type = inputType(input);
    if (failed(type))
      return failure();
    FailureOr<Value> value = fixedInput(input, *type);
    if (failed(value))
      return failure();
    if (!*value) {
      value = block->addArgument(*type, module.getLoc());
      arguments.push_back({input.name(), {}});
    }
    if (input.name().empty() ||
        !scope.values.try_emplace(input.name(), ImportedValue(*value)).second)
      return builder.fail("input '" + StringRef(input.name()) +
                          "' has no name or is defined twice");
  }
  return success(succeeded(reportUnbound()) && succeeded(checkFixedInputs()));
}
