// SPDX-License-Identifier: Apache-2.0
// What an exporter wrote down about the tensors of a model: which of them its source trains, which
// the exporter itself computed.
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <optional>
#include <string>

namespace autopar_onnx {
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
} // namespace autopar_onnx

namespace mlir::autopar {

/// What is written of a tensor of the main graph.
struct SourceRecord {
  /// Why the source does not train it, as far as is known; empty if it does, or nothing is written.
  StringRef whyFixed;
  /// What the exporter computed it from, by the names of the source: its parameters or, if none
  /// is known to be one, what may be. Empty: it is the source's own.
  SmallVector<StringRef> computedFrom;
  /// The matrix of the source that it is the transpose of, as far as is known; else empty.
  std::string transposeOf = {};
  /// Whether it is written that the source trains it.
  bool isTrained = false;
};

class ExportRecords {
public:
  explicit ExportRecords(const autopar_onnx::ModelProto &model);

  SourceRecord recordOf(const autopar_onnx::TensorProto &tensor, bool isInitializer) const;
  /// Whether the exporter, or an optimizer, computed the initializer and made up its name: it is
  /// none of the source.
  bool isComputed(StringRef initializer) const;
  /// The initializer, or the tensors that it was computed from.
  SmallVector<StringRef> sourcesOf(StringRef initializer) const;
  /// Whether torch's older exporter wrote the model, which says nothing of what nodes read.
  bool isFromOlderTorch() const { return fromTorch && !tellsOfNodes; }
  /// What the source calls the tensor that a node of the main graph reads where the model has this
  /// initializer: another one whose values were the same. Empty: it is the initializer itself, or
  /// nothing is written of it.
  std::string readInstead(const autopar_onnx::NodeProto &node, StringRef initializer);
  /// Parameters of the source that nodes of the main graph were made of and that no tensor of the
  /// model holds, by its names: zeros that the exporter left out, normalizations that it folded
  /// into convolutions, single numbers that it computed others from. To be asked behind
  /// readInstead of all nodes.
  SmallVector<std::string> leftOut(const autopar_onnx::GraphProto &graph) const;
  /// Whether the model says of each node what it was made of.
  bool tellsAll() const { return tellsOfNodes; }
  /// Whether a node reads the initializer as the transpose of this matrix of the source.
  bool readsTransposed(const autopar_onnx::NodeProto &node, StringRef initializer,
                       StringRef source) const;

  /// The row of the table of an embedding (torch.nn.Embedding's padding_idx) that the source does
  /// not train, where the node looks it up and says so.
  static std::optional<int64_t> paddingIndexOf(const autopar_onnx::NodeProto &node);

private:
  enum class Answer { No, Unknown, Yes };
  Answer isParameter(StringRef source) const;

  bool fromTorch, tellsOfNodes = false;
  /// By name: what torch calls it ("PARAMETER", "BUFFER", ...).
  llvm::StringMap<StringRef> kinds;
  /// By name: the tensors from which it was computed, as a list in Python.
  llvm::StringMap<StringRef> sources;
  /// Tensors as torch's graph calls them: "p_layers_0_weight" is a parameter, "b_..." a buffer.
  llvm::StringSet<> places;
  /// The same of what the initializers hold, without "p_" or "b_".
  llvm::StringSet<> stored;
  /// The same of what nodes read instead of an initializer.
  llvm::StringSet<> joined;
  /// Those that products read transposed.
  llvm::StringSet<> transposed;
  /// How many nodes of the main graph read what.
  llvm::StringMap<int> readers;
};

} // namespace mlir::autopar
