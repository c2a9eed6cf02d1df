// SPDX-License-Identifier: Apache-2.0
// Copies a ModelProto field by field, descending only into the messages that may hold tensors.
#include "WireFormat.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir::autopar;
using llvm::StringRef;

namespace {
enum class Message {
  Model,
  TrainingInfo,
  Graph,
  Node,
  Attribute,
  Tensor,
  SparseTensor,
  Function,
  Other
};
constexpr int rawDataField = 9;
/// Packed numbers that are stored as raw data are.
constexpr int floatDataField = 4, doubleDataField = 10;
constexpr int maximumDepth = 100;

/// The kind of message in length-delimited field `field` of a message.
Message childOf(Message parent, uint64_t field) {
  switch (parent) {
  case Message::Model:
    return field == 7    ? Message::Graph
           : field == 20 ? Message::TrainingInfo
           : field == 25 ? Message::Function
                         : Message::Other;
  case Message::TrainingInfo:
    return field == 1 || field == 2 ? Message::Graph : Message::Other;
  case Message::Graph:
    return field == 1    ? Message::Node
           : field == 5  ? Message::Tensor
           : field == 15 ? Message::SparseTensor
                         : Message::Other;
  case Message::Node:
    return field == 5 ? Message::Attribute : Message::Other;
  case Message::Attribute:
    return field == 5 || field == 10    ? Message::Tensor
           : field == 6 || field == 11  ? Message::Graph
           : field == 22 || field == 23 ? Message::SparseTensor
                                        : Message::Other;
  case Message::SparseTensor:
    return field == 1 || field == 2 ? Message::Tensor : Message::Other;
  case Message::Function:
    return field == 7 ? Message::Node : field == 11 ? Message::Attribute : Message::Other;
  default:
    return Message::Other;
  }
}

void appendVarint(std::string &to, uint64_t value) {
  while (value >= 0x80) {
    to.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  to.push_back(static_cast<char>(value));
}

class Walk {
public:
  Walk(StringRef file, size_t threshold, std::string &error)
      : file(file), threshold(threshold), error(error) {}

  /// Appends the message in [begin, end) to `to`.
  bool copyMessage(Message kind, size_t begin, size_t end, std::string &to, int depth) {
    if (depth > maximumDepth)
      return fail(begin, "messages are nested too deeply");
    for (size_t at = begin; at < end;) {
      size_t start = at;
      uint64_t tag, length;
      if (!readVarint(at, end, tag))
        return false;
      uint64_t field = tag >> 3;
      if ((tag & 7) == 2) {
        if (!readVarint(at, end, length))
          return false;
        if (length > end - at)
          return fail(start, "a field is longer than its message");
        if (!copyField(kind, tag, start, at, length, to, depth))
          return false;
        at += length;
        continue;
      }
      if (!skipScalar(tag & 7, at, end))
        return false;
      if (kind == Message::Tensor && (field == rawOffsetField || field == rawLengthField))
        continue; // only this walk writes them
      to.append(file.data() + start, at - start);
    }
    return true;
  }

private:
  bool copyField(Message kind, uint64_t tag, size_t start, size_t at, uint64_t length,
                 std::string &to, int depth) {
    uint64_t field = tag >> 3;
    bool isRaw = field == rawDataField || field == floatDataField || field == doubleDataField;
    if (kind == Message::Tensor && isRaw && length > threshold) {
      appendVarint(to, uint64_t(rawOffsetField) << 3);
      appendVarint(to, at);
      appendVarint(to, uint64_t(rawLengthField) << 3);
      appendVarint(to, length);
      return true;
    }
    Message child = childOf(kind, field);
    if (child == Message::Other) {
      to.append(file.data() + start, at + length - start);
      return true;
    }
    std::string body;
    if (!copyMessage(child, at, at + length, body, depth + 1))
      return false;
    appendVarint(to, tag);
    appendVarint(to, body.size());
    to += body;
    return true;
  }

  bool skipScalar(uint64_t wireType, size_t &at, size_t end) {
    uint64_t ignored;
    size_t width = wireType == 1 ? 8 : wireType == 5 ? 4 : 0;
    if (wireType == 0)
      return readVarint(at, end, ignored);
    if (!width)
      return fail(at, "a field has an unknown wire type");
    if (end - at < width)
      return fail(at, "a field is longer than its message");
    at += width;
    return true;
  }

  bool readVarint(size_t &at, size_t end, uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at >= end)
        return fail(at, "a number is cut off");
      auto byte = static_cast<uint8_t>(file[at++]);
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return fail(at, "a number is too long");
  }

  bool fail(size_t at, StringRef what) {
    error = llvm::formatv("{0} at byte {1}", what, at);
    return false;
  }

  StringRef file;
  size_t threshold;
  std::string &error;
};
} // namespace

std::optional<std::string> mlir::autopar::makeSkeleton(StringRef model, size_t threshold,
                                                       std::string &error) {
  std::string skeleton;
  if (!Walk(model, threshold, error).copyMessage(Message::Model, 0, model.size(), skeleton, 0))
    return std::nullopt;
  return skeleton;
}
