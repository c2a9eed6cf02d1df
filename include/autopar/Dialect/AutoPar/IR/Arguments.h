// SPDX-License-Identifier: Apache-2.0
// What the arguments of a function are.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

#include <optional>
#include <string>

namespace mlir::autopar {

/// Of an argument that lies in host memory.
constexpr llvm::StringLiteral kOnHostAttribute = "autopar.on_host";
bool isOnHost(BlockArgument argument);
/// Of a parameter that a pass reshaped: its shape in the model, by which the outside knows it.
constexpr llvm::StringLiteral kModelShapeAttribute = "autopar.model_shape";
/// Of a metric that depends on nothing that a step changes: evaluations tell it.
constexpr llvm::StringLiteral kEvaluatedAttribute = "autopar.evaluated";

/// As the model has it, else by its place: `arg0`.
std::string nameOfArgument(BlockArgument argument);
/// Whether it has its values from the model.
bool isParameter(Value value);
/// The parameter that a value is, moved about and cast at most; null for anything else.
BlockArgument parameterIn(Value value);
/// Per result, the argument whose next value it is: the donated one of its name; else null.
SmallVector<BlockArgument> donorsOfResults(func::FuncOp function);
/// Whether a value is the donated argument whose next value its function returns as that result.
bool isDonorOf(Value value, unsigned result);
/// The operations of a function that read parameters, or what is made of them, and constants alone:
/// a copy in another type.
llvm::SetVector<Operation *> madeOfParameters(func::FuncOp function);
/// Whether whoever runs the program gives it at each step: neither a parameter, nor state, nor
/// something the runtime sets.
bool isFed(BlockArgument argument);
/// The samples of a step: the first extent of the first fed argument that has one, before the batch
/// is split into micro-batches.
std::optional<int64_t> samplesOf(func::FuncOp function);

/// Attributes of the arguments or results of a function, changed one by one and written at once:
/// a context keeps every list that it ever saw, so writing them one by one takes memory that grows
/// with the square of their number.
class SignatureAttributes {
public:
  static SignatureAttributes ofArguments(func::FuncOp function);
  static SignatureAttributes ofResults(func::FuncOp function);

  Attribute get(unsigned number, StringRef name) const { return lists[number].get(name); }
  void set(unsigned number, StringRef name, Attribute value);
  /// Until then the function says what it said before.
  void write();

private:
  SignatureAttributes(func::FuncOp function, bool areArguments);
  func::FuncOp function;
  bool areArguments;
  SmallVector<DictionaryAttr> lists;
};

} // namespace mlir::autopar
