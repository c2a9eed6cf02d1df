// SPDX-License-Identifier: Apache-2.0
// Tensors stored in the model: constants of the program, or parameters that stay in their file.
#include "GraphImporter.h"
#include "Proto.h"
#include "TensorData.h"

#include "autopar/Interfaces/TensorLayout.h"

using namespace mlir;
using namespace mlir::autopar;

/// Constants of at most this size stay in the program.
static constexpr uint64_t smallBytes = 1024;
/// Integer tables of at most this many elements take part in constant evaluation.
static constexpr int64_t foldedElements = 1 << 20;
/// Masks of at most this many elements are constants: what they let through says what an operation
/// is.
static constexpr int64_t maskElements = 1 << 24;

Value GraphImporter::addParameter(RankedTensorType type, StringRef name, const TensorPlace &place,
                                  const onnx::TensorProto &tensor) {
  std::string symbol = uniqueSymbol(name);
  OpBuilder atModule(function);
  bool absent = place.kind == TensorPlace::Absent;
  OriginOp::create(atModule, module.getLoc(), StringRef(symbol), type,
                   absent ? StringAttr() : atModule.getStringAttr(place.file), place.offset);
  if (absent)
    absentFiles[symbol] = place.file;
  Value value = block->addArgument(type, module.getLoc());
  arguments.push_back({symbol, symbol});
  parameterTensors[value] = &tensor;
  return value;
}

FailureOr<Value> GraphImporter::importTensor(const onnx::TensorProto &tensor, StringRef name,
                                             bool isInitializer) {
  Value &value = tensors[&tensor];
  if (value)
    return value;
  std::string error;
  MLIRContext *context = module.getContext();
  FailureOr<RankedTensorType> type = tensorTypeOf(tensor, context, error);
  if (failed(type))
    return builder.fail("initializer '" + name + "': " + error);
  uint64_t bytes = storedBytes(*type);
  FailureOr<TensorPlace> place = file.locate(tensor, bytes, error);
  if (failed(place))
    return builder.fail("initializer '" + name + "': " + error);
  bool isPacked = mlir::autopar::isPacked(type->getElementType());
  if (isInitializer && updates.count(name.str())) {
    if (isPacked)
      return builder.fail("initializer '" + name + "': training_info updates elements of " +
                          Twine(type->getElementTypeBitWidth()) + " bits; store them in bytes");
    FailureOr<Value> state = importState(tensor, name, *type, *place);
    if (succeeded(state))
      tensors[&tensor] = *state;
    return state;
  }
  bool isMask = type->getElementType().isInteger(1) && type->getNumElements() <= maskElements;
  bool isFloat = isa<FloatType>(type->getElementType()), isSmall = isMask || bytes <= smallBytes;
  // Quantized weights; what decides shapes has wider integers.
  bool isByte = type->getElementType().isInteger(8);
  // Single numbers are constants, unless the export says that its source trains them; those of one
  // dimension if it computed them from no parameter that is known.
  SourceRecord record = records.recordOf(tensor, isInitializer);
  bool isMade = records.isComputed(name) && !record.whyFixed.empty();
  bool isNumber =
      type->getNumElements() == 1 && !record.isTrained && (type->getRank() == 0 || isMade);
  bool isParameter =
      place->kind != TensorPlace::Message &&
      (place->kind == TensorPlace::Absent || differentiated.contains(name) ||
       (isFloat && !isNumber && (isInitializer || !isSmall)) ||
       (!isSmall && (isPacked || isByte)) || (!isSmall && type->getNumElements() > foldedElements));
  if (isParameter && isInitializer)
    if (FailureOr<Value> first = importRepeated(tensor, name, *type, *place);
        failed(first) || *first) {
      if (succeeded(first))
        tensors[&tensor] = *first; // `value` may have moved
      return first;
    }
  if (isParameter && isPacked) {
    FailureOr<Value> numbers = importPacked(tensor, *type, name, *place);
    if (succeeded(numbers))
      tensors[&tensor] = *numbers;
    return numbers;
  }
  // A boolean parameter is read as it is stored: one byte each.
  if (isParameter) {
    value = addParameter(*type, name, *place, tensor);
    arguments.back().record = record;
    return value;
  }
  FailureOr<DenseElementsAttr> values = tensorValues(tensor, file, context, INT64_MAX, error);
  if (failed(values))
    return builder.fail("initializer '" + name + "': " + error);
  value = builder.constant(*values);
  if (!isSmall && place->kind == TensorPlace::File && !values->isSplat())
    largeConstants.insert({value.getDefiningOp(), {&tensor, name.str()}});
  return value;
}

/// Large tables that folding did not use up are parameters after all.
void GraphImporter::demoteLargeConstants() {
  for (auto &[op, source] : largeConstants) {
    if (op->use_empty())
      continue;
    std::string ignored;
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    FailureOr<TensorPlace> place = file.locate(*source.first, tensorBytes(type), ignored);
    if (failed(place))
      continue;
    op->getResult(0).replaceAllUsesWith(addParameter(type, source.second, *place, *source.first));
  }
}

void GraphImporter::removeUnusedParameters() {
  SymbolTable symbolTable(module);
  for (size_t i = arguments.size(); i-- > 0;) {
    if (arguments[i].symbol.empty() || !block->getArgument(i).use_empty())
      continue;
    symbolTable.erase(symbolTable.lookup(arguments[i].symbol));
    block->eraseArgument(i);
    arguments.erase(arguments.begin() + static_cast<ptrdiff_t>(i));
  }
}
