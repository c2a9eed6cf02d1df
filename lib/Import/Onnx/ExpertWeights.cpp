// SPDX-License-Identifier: Apache-2.0
// See the header. What is accepted is what onnxruntime 1.32 computes on CPUs
// (contrib_ops/cpu/moe/moe_helper.h and moe_quantization_cpu.cc).
#include "ExpertWeights.h"

#include "PackedNumbers.h"
#include "Quantization.h"

using namespace mlir;
using namespace mlir::autopar;

FailureOr<ExpertPacking> mlir::autopar::readExpertPacking(Node &node) {
  ExpertPacking packing{node.integer("expert_weight_bits", 4), node.integer("block_size", 0)};
  if (std::string type = node.string("quant_type", "int"); type != "int")
    return node.error("attribute 'quant_type' must be 'int', not '" + type +
                      "': onnxruntime's CPU has weights of integers only");
  if (packing.bits != 2 && packing.bits != 4 && packing.bits != 8)
    return node.error("attribute 'expert_weight_bits' must be 2, 4 or 8, not " +
                      Twine(packing.bits));
  for (StringRef name :
       {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"})
    if (int64_t own = node.integer(name, packing.bits); own != packing.bits)
      return node.error("attribute '" + name + "' must be expert_weight_bits, " +
                        Twine(packing.bits) + ", not " + Twine(own) +
                        ": onnxruntime's CPU has one width for all layers");
  int64_t block = packing.blockSize;
  if (block != 0 && (block < 16 || block > (1 << 30) || (block & (block - 1))))
    return node.error("attribute 'block_size' must be a power of two from 16 on, not " +
                      Twine(block));
  if (int64_t layout = node.integer("weights_prepacked", -1); layout != 0 && layout != -1)
    return node.error("attribute 'weights_prepacked' = " + Twine(layout) +
                      " is a GPU's own order of bytes; give the weights as they were before");
  for (size_t i = 15; i < node.inputCount(); ++i)
    if (node.hasInput(i))
      return node.inputError(i, "belongs to weights of floats, which onnxruntime's CPU lacks");
  return packing;
}

static LogicalResult checkShape(Node &node, size_t i, ArrayRef<int64_t> shape) {
  if (node.inputType(i).getShape() == shape)
    return success();
  return node.inputError(i, "must be of shape " + printShape(shape));
}

static LogicalResult checkBytes(Node &node, size_t i) {
  if (node.inputType(i).getElementType().isUnsignedInteger(8))
    return success();
  return node.inputError(i, "must be of bytes");
}

FailureOr<ExpertWeights> ExpertWeights::read(Node &node, const ExpertInputs &inputs,
                                             ArrayRef<int64_t> shape, ExpertPacking packing) {
  int64_t experts = shape[0], rows = shape[1], columns = shape[2], perByte = packing.perByte();
  if (columns % perByte != 0)
    return node.inputError(inputs.weight, "must have rows of whole bytes, got " + Twine(columns) +
                                              " numbers of " + Twine(packing.bits) + " bits");
  if (failed(checkShape(node, inputs.weight, {experts, rows, columns / perByte})))
    return failure();
  ExpertWeights weights{node.input(inputs.weight), Value(), Value(), packing};
  if (packing.bits == 0)
    return weights;

  if (failed(checkBytes(node, inputs.weight)))
    return failure();
  if (!node.hasInput(inputs.scales))
    return node.inputError(inputs.scales, "is missing");
  auto bytesFor = [&](int64_t numbers) { return (numbers + perByte - 1) / perByte; };
  Shape scales{experts, rows}, points{experts, bytesFor(rows)};
  if (packing.blockSize && node.inputType(inputs.scales).getRank() != 2) {
    int64_t blocks = (columns + packing.blockSize - 1) / packing.blockSize;
    scales = {experts, rows, blocks};
    points = {experts, rows, bytesFor(blocks)};
  }
  if (failed(checkShape(node, inputs.scales, scales)))
    return failure();
  weights.scales = node.input(inputs.scales);
  if (!node.hasInput(inputs.zeroPoints))
    return weights;
  if (failed(checkShape(node, inputs.zeroPoints, points)) ||
      failed(checkBytes(node, inputs.zeroPoints)))
    return failure();
  weights.zeroPoints = node.input(inputs.zeroPoints);
  return weights;
}

FailureOr<Value> ExpertWeights::matrices(Node &node, Type element) const {
  TensorBuilder &b = node.b;
  if (packing.bits == 0)
    return b.cast(numbers, element);
  auto width = static_cast<unsigned>(packing.bits);
  Value values = b.cast(unpackedNumbers(b, numbers, width), element);
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(values), given = TensorBuilder::shapeOf(scales);
  // What is given per row or block, for each number.
  auto spread = [&](Value value) -> FailureOr<Value> {
    value = b.cast(value, element);
    if (given.size() == 2)
      return b.broadcast(value, shape, {0, 1});
    return repeatBlocks(node, value, shape, 2, packing.blockSize);
  };
  Value zero = b.scalar(element, static_cast<double>(1 << (width - 1)));
  if (zeroPoints) {
    auto last = static_cast<int64_t>(given.size()) - 1;
    FailureOr<Value> points =
        spread(b.sliceDim(unpackedNumbers(b, zeroPoints, width), last, 0, given[last]));
    if (failed(points))
      return failure();
    zero = *points;
  }
  FailureOr<Value> steps = spread(scales);
  if (failed(steps))
    return failure();
  return b.mul(b.sub(values, zero), *steps);
}
