// SPDX-License-Identifier: Apache-2.0
// A walk over the protobuf wire format of a model that leaves the bytes of large tensors out, so
// that parsing a model of gigabytes copies only its structure.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace mlir::autopar {

/// Field numbers, unused by ONNX, that stand in a TensorProto of a skeleton for the raw data left
/// out: its offset and length in the model file.
constexpr int rawOffsetField = 536870910, rawLengthField = 536870911;

/// The ModelProto in `model` without raw tensor data of more than `threshold` bytes. Nothing, and a
/// message in `error`, if the bytes are no protobuf message.
std::optional<std::string> makeSkeleton(llvm::StringRef model, size_t threshold,
                                        std::string &error);

} // namespace mlir::autopar
