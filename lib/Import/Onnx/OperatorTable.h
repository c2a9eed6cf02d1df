// SPDX-License-Identifier: Apache-2.0
// Which ONNX operators are known: one entry per operator and range of versions, made by the
// <Family>Operators.cpp files.
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"

#include <vector>

namespace mlir::autopar {

class Node;
using ImportFunction = LogicalResult (*)(Node &node);

/// Operator set versions for which an entry holds; `last` 0 means all later ones.
struct Versions {
  int64_t first, last = 0;
};

/// Number of inputs; the first `least` must be given. `most` -1 means any number.
struct Arity {
  int least, most;
};

struct OperatorEntry {
  Versions versions;
  Arity arity;
  /// Names of the attributes, separated by spaces; any other is refused.
  StringRef attributes;
  ImportFunction import = nullptr;
  /// For an operator known but refused: why.
  StringRef refusal;
  /// Inputs may be sequences, optionals or missing.
  bool takesAnyValue = false;
};

class OperatorTable {
public:
  /// All operators of AutoPar.
  static const OperatorTable &get();

  /// Operators of domain "" unless `domain` is set before.
  OperatorTable &inDomain(StringRef name) {
    domain = name;
    return *this;
  }
  void add(StringRef name, Versions versions, Arity arity, StringRef attributes,
           ImportFunction import);
  /// As `add`, for operators on sequences and optionals.
  void addAnyValue(StringRef name, Versions versions, Arity arity, StringRef attributes,
                   ImportFunction import);
  void refuse(StringRef name, StringRef reason);

  /// A domain by the one name that the table has for it: "" for "ai.onnx".
  static StringRef domainOf(StringRef name) { return name == "ai.onnx" ? StringRef() : name; }
  /// The newest version of a domain's operator set that the entries are written for; an operator
  /// may mean something else in a newer one. 0: the table has no operators of this domain.
  static int64_t newestVersion(StringRef domain);
  /// The entry for an operator at a version; null if there is none.
  const OperatorEntry *find(StringRef domain, StringRef name, int64_t version) const;
  /// Calls `visit` for each operator, sorted by domain and name.
  void forEach(llvm::function_ref<void(StringRef domain, StringRef name, const OperatorEntry &)>
                   visit) const;

private:
  StringRef domain;
  llvm::StringMap<std::vector<OperatorEntry>> entries; ///< by "domain::name"
};

// One function per family file.
void addElementwiseOperators(OperatorTable &table);
void addActivationOperators(OperatorTable &table);
void addContractionOperators(OperatorTable &table);
void addConstantOperators(OperatorTable &table);
void addShapeOperators(OperatorTable &table);
void addIndexingOperators(OperatorTable &table);
void addReductionOperators(OperatorTable &table);
void addNormalizationOperators(OperatorTable &table);
void addConvolutionOperators(OperatorTable &table);
void addPoolingOperators(OperatorTable &table);
void addLossOperators(OperatorTable &table);
void addResizeOperators(OperatorTable &table);
void addSamplingOperators(OperatorTable &table);
void addRecurrentOperators(OperatorTable &table);
void addQuantizationOperators(OperatorTable &table);
void addControlFlowOperators(OperatorTable &table);
void addSequenceOperators(OperatorTable &table);
void addSignalOperators(OperatorTable &table);
void addAttentionOperators(OperatorTable &table);
void addTrainingOperators(OperatorTable &table);
void addDifferentiationOperators(OperatorTable &table);
void addValueDependentOperators(OperatorTable &table);
void addClassicalOperators(OperatorTable &table);
void addContribWeightOperators(OperatorTable &table);
void addContribTensorOperators(OperatorTable &table);
void addContribQuantizationOperators(OperatorTable &table);
void addContribProductOperators(OperatorTable &table);
void addContribActivationOperators(OperatorTable &table);
void addContribAttentionOperators(OperatorTable &table);
void addContribExpertOperators(OperatorTable &table);
void addContribLinearAttentionOperators(OperatorTable &table);
void addContribNormalizationOperators(OperatorTable &table);

} // namespace mlir::autopar
