// SPDX-License-Identifier: Apache-2.0
// Parameters of integers of 2 and 4 bits and floats of 4. ONNX stores several in a byte, and they
// stay so; the function takes them apart.
#include "GraphImporter.h"
#include "PackedNumbers.h"
#include "Proto.h"
#include "TensorData.h"

using namespace mlir;
using namespace mlir::autopar;

/// The packed bytes of a parameter as numbers. Where rows fill whole bytes they stay rows, so that
/// the parameter can be split among devices.
FailureOr<Value> GraphImporter::importPacked(const onnx::TensorProto &tensor, RankedTensorType type,
                                             StringRef name, const TensorPlace &place) {
  unsigned width = type.getElementTypeBitWidth(), perByte = 8 / width;
  Shape bytes(type.getShape());
  if (!bytes.empty() && bytes.back() % perByte == 0)
    bytes.back() /= perByte;
  else
    bytes = {storedBytes(type)};
  Type byte = builder.opBuilder().getIntegerType(8, /*isSigned=*/false);
  Value packed = addParameter(RankedTensorType::get(bytes, byte), name, place, tensor);
  std::vector<Operation *> pending = builder.takeCreated();
  Value numbers = shiftedNumbers(builder, packed, width);
  numbers = isNarrowInteger(type.getElementType())
                ? builder.cast(numbers, type.getElementType())
                : builder.bitcast(builder.binary(BinaryKind::And, numbers, (1 << width) - 1),
                                  type.getElementType());
  if (bytes.size() == 1) // the last byte may not be full
    numbers = builder.sliceDim(builder.reshape(numbers, {bytes[0] * perByte}), 0, 0,
                               type.getNumElements());
  numbers = builder.reshape(numbers, type.getShape());
  for (Operation *op : builder.takeCreated())
    setOpId(op, uniqueId(name + "/" + op->getName().stripDialect()));
  builder.requeue(pending);
  return numbers;
}
