// SPDX-License-Identifier: Apache-2.0
// Sequences and optionals: lists that exist only during import.
#include "Node.h"

using namespace mlir;
using namespace mlir::autopar;

using Items = std::vector<ImportedValue>;

static FailureOr<Items> itemsOf(Node &node, size_t i) {
  const ImportedValue &value = node.anyInput(i);
  if (value.kind != ImportedValue::Sequence)
    return node.inputError(i, "must be a sequence");
  return *value.items;
}

static LogicalResult finish(Node &node, Items items) {
  node.setOutput(0, ImportedValue::list(ImportedValue::Sequence, std::move(items)));
  return success();
}

static LogicalResult importSequenceEmpty(Node &node) { return finish(node, {}); }

static LogicalResult importSequenceConstruct(Node &node) {
  Items items(node.anyInputs().begin(), node.anyInputs().end());
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].kind != ImportedValue::Tensor)
      return node.inputError(i, "must be a tensor");
  return finish(node, std::move(items));
}

/// A known position, from the end if negative, below `limit`.
static FailureOr<size_t> position(Node &node, size_t i, size_t limit) {
  if (node.anyInput(i).kind != ImportedValue::Tensor)
    return node.inputError(i, "must be a tensor");
  FailureOr<SmallVector<int64_t>> given = node.constantIntegers(i);
  if (failed(given))
    return failure();
  int64_t at = given->size() == 1 ? given->front() : -1,
          count = static_cast<int64_t>(node.anyInput(0).items->size());
  at = at < 0 ? at + count : at;
  if (given->size() != 1 || at < 0 || at >= static_cast<int64_t>(limit))
    return node.inputError(i, "is no position in a sequence of " + Twine(count));
  return static_cast<size_t>(at);
}

static LogicalResult importSequenceInsert(Node &node) {
  FailureOr<Items> items = itemsOf(node, 0);
  if (failed(items))
    return failure();
  size_t at = items->size();
  if (node.hasInput(2)) {
    FailureOr<size_t> given = position(node, 2, items->size() + 1);
    if (failed(given))
      return failure();
    at = *given;
  }
  items->insert(items->begin() + static_cast<ptrdiff_t>(at), node.anyInput(1));
  return finish(node, *items);
}

static LogicalResult importSequenceErase(Node &node) {
  FailureOr<Items> items = itemsOf(node, 0);
  if (failed(items))
    return failure();
  if (items->empty())
    return node.inputError(0, "is empty");
  size_t at = items->size() - 1;
  if (node.hasInput(1)) {
    FailureOr<size_t> given = position(node, 1, items->size());
    if (failed(given))
      return failure();
    at = *given;
  }
  items->erase(items->begin() + static_cast<ptrdiff_t>(at));
  return finish(node, *items);
}

static LogicalResult importSequenceAt(Node &node) {
  FailureOr<Items> items = itemsOf(node, 0);
  if (failed(items))
    return failure();
  FailureOr<size_t> at = position(node, 1, items->size());
  if (failed(at))
    return failure();
  node.setOutput(0, (*items)[*at]);
  return success();
}

static LogicalResult importSequenceLength(Node &node) {
  FailureOr<Items> items = itemsOf(node, 0);
  if (failed(items))
    return failure();
  return node.result(
      node.b.scalar(node.b.opBuilder().getI64Type(), static_cast<int64_t>(items->size())));
}

static LogicalResult importSplitToSequence(Node &node) {
  TensorBuilder &b = node.b;
  if (node.anyInput(0).kind != ImportedValue::Tensor)
    return node.inputError(0, "must be a tensor");
  RankedTensorType input = node.inputType(0);
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), input.getRank());
  if (failed(axis))
    return failure();
  int64_t extent = input.getDimSize(*axis);
  SmallVector<int64_t> sizes;
  bool single = !node.hasInput(1), keepDims = node.integer("keepdims", 1) != 0;
  if (single) {
    sizes.assign(extent, 1);
  } else {
    FailureOr<SmallVector<int64_t>> given = node.constantIntegers(1);
    if (failed(given))
      return failure();
    if (node.inputType(1).getRank() == 0) {
      if (given->front() < 1)
        return node.inputError(1, "must be positive");
      for (int64_t rest = extent; rest > 0; rest -= sizes.back())
        sizes.push_back(std::min(rest, given->front()));
    } else {
      sizes = *given;
    }
  }
  constexpr size_t mostItems = 1 << 20;
  int64_t start = 0;
  if (sizes.size() > mostItems)
    return node.error("makes a sequence of more than " + Twine(mostItems));
  Items items;
  for (int64_t size : sizes) {
    if (size < 0 || size > extent - start)
      return node.error("split " + printShape(sizes) + " does not fit extent " + Twine(extent));
    Value part = b.sliceDim(node.input(0), *axis, start, size);
    items.push_back(single && !keepDims ? b.squeeze(part, {*axis}) : part);
    start += size;
  }
  if (start != extent)
    return node.error("split " + printShape(sizes) + " does not fit extent " + Twine(extent));
  return finish(node, std::move(items));
}

static LogicalResult importConcatFromSequence(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Items> items = itemsOf(node, 0);
  if (failed(items))
    return failure();
  if (items->empty() || llvm::any_of(*items, [](const ImportedValue &item) {
        return item.kind != ImportedValue::Tensor;
      }))
    return node.inputError(0, "must hold at least one tensor");
  bool newAxis = node.integer("new_axis", 0) != 0;
  FailureOr<int64_t> axis = node.axis(
      node.integer("axis", 0), TensorBuilder::rankOf(items->front().tensor) + (newAxis ? 1 : 0));
  if (failed(axis))
    return failure();
  SmallVector<Value> parts;
  for (const ImportedValue &item : *items)
    parts.push_back(newAxis ? b.unsqueeze(item.tensor, {*axis}) : item.tensor);
  return node.result(b.concat(parts, *axis));
}

/// The body once for each item; tensors among the inputs are the same for all.
static LogicalResult importSequenceMap(Node &node) {
  FailureOr<Items> first = itemsOf(node, 0);
  if (failed(first))
    return failure();
  std::vector<Items> results(node.outputCount());
  for (size_t i = 0; i < first->size(); ++i) {
    SmallVector<ImportedValue> arguments;
    for (const ImportedValue &input : node.anyInputs()) {
      if (input.kind == ImportedValue::Sequence && i >= input.items->size())
        return node.error("sequences differ in length");
      arguments.push_back(input.kind == ImportedValue::Sequence ? (*input.items)[i] : input);
    }
    FailureOr<SmallVector<ImportedValue>> values = node.subgraph("body", arguments, Twine(i));
    if (failed(values))
      return failure();
    for (size_t k = 0; k < results.size() && k < values->size(); ++k)
      results[k].push_back((*values)[k]);
  }
  for (size_t k = 0; k < results.size(); ++k)
    node.setOutput(k, ImportedValue::list(ImportedValue::Sequence, results[k]));
  return success();
}

//===-- optionals ----------------------------------------------------------------------------===//

static LogicalResult importOptional(Node &node) {
  Items content;
  if (node.hasInput(0))
    content.push_back(node.anyInput(0));
  node.setOutput(0, ImportedValue::list(ImportedValue::Optional, content));
  return success();
}

static bool isEmptyOptional(Node &node) {
  return !node.hasInput(0) ||
         (node.anyInput(0).kind == ImportedValue::Optional && node.anyInput(0).items->empty());
}

static LogicalResult importOptionalHasElement(Node &node) {
  return node.result(
      node.b.scalar(node.b.opBuilder().getI1Type(), int64_t(!isEmptyOptional(node))));
}

static LogicalResult importOptionalGetElement(Node &node) {
  if (isEmptyOptional(node))
    return node.inputError(0, "is an empty optional");
  const ImportedValue &value = node.anyInput(0);
  node.setOutput(0, value.kind == ImportedValue::Optional ? value.items->front() : value);
  return success();
}

void mlir::autopar::addSequenceOperators(OperatorTable &table) {
  table.addAnyValue("SequenceEmpty", {11}, {0, 0}, "dtype", importSequenceEmpty);
  table.addAnyValue("SequenceConstruct", {11}, {1, -1}, "", importSequenceConstruct);
  table.addAnyValue("SequenceInsert", {11}, {2, 3}, "", importSequenceInsert);
  table.addAnyValue("SequenceErase", {11}, {1, 2}, "", importSequenceErase);
  table.addAnyValue("SequenceAt", {11}, {2, 2}, "", importSequenceAt);
  table.addAnyValue("SequenceLength", {11}, {1, 1}, "", importSequenceLength);
  table.addAnyValue("SplitToSequence", {11}, {1, 2}, "axis keepdims", importSplitToSequence);
  table.addAnyValue("ConcatFromSequence", {11}, {1, 1}, "axis new_axis", importConcatFromSequence);
  table.addAnyValue("SequenceMap", {17}, {1, -1}, "body", importSequenceMap);
  table.addAnyValue("Optional", {15}, {0, 1}, "type", importOptional);
  table.addAnyValue("OptionalHasElement", {15}, {0, 1}, "", importOptionalHasElement);
  table.addAnyValue("OptionalGetElement", {15}, {1, 1}, "", importOptionalGetElement);
}
