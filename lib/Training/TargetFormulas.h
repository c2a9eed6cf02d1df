// SPDX-License-Identifier: Apache-2.0
// What losses and metrics have in common: results of the model beside targets, classes beside
// labels, and means over the batch.
#pragma once

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Training/CallSyntax.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

class TargetFormulas {
public:
  /// Formulas of `call` are built in front of the return of `function`. `ignored` is the label that
  /// is left out where the call does not say; NaN: none.
  TargetFormulas(func::FuncOp function, ::autopar::Call &call,
                 double ignored = std::numeric_limits<double>::quiet_NaN());

protected:
  /// Most functions take a result of the model, a target and, if wished, how much each of what is
  /// averaged counts. `what`: that and an example.
  ::autopar::Status checkArguments(size_t least, size_t most, const std::string &what) const;
  ::autopar::Status checkArguments() const;
  /// What an option has to be; BadInput points at it.
  ::autopar::Status checkAbove0(const std::string &key, double number);
  ::autopar::Status checkRange(const std::string &key, double number, int least,
                               std::optional<int> most = {});

  /// A result of the model that holds floats.
  ::autopar::Result<Value> output(const std::string &name);
  /// An output of one element, as a scalar: the call is its name.
  ::autopar::Result<Value> ownOutput();

  /// Of what is compared over classes.
  struct Classes {
    Value logits; ///< as the model gives them
    Value x;      ///< widened
    RankedTensorType type;
    SmallVector<int64_t> dims; ///< the axis
    Value number;              ///< i32 of the shape of `type`: which class it is
    Value label;               ///< the same: which class it should be
    Value isLabel;             ///< whether they are equal
    Value isKept;              ///< per row: it is not to be ignored; null: all are kept
    Value weights;             ///< per row; where the call gives none, they sum to 1

    int64_t count() const { return type.getDimSize(dims[0]); }
  };
  ::autopar::Result<Classes> classes();
  /// Where the third argument is something else than weights.
  ::autopar::Result<Classes> labelledClasses();
  /// The axis of `type` along which classes lie.
  ::autopar::Result<int64_t> classAxis(RankedTensorType type);

  /// Of what is compared number by number.
  struct Numbers {
    Value x, wanted; ///< widened, of one shape
    Value weights;   ///< of their shape; null: all count alike
  };
  /// With `across`, weights are of rows across that axis.
  ::autopar::Result<Numbers> numbers(std::optional<int64_t> across = {});

  /// What the call says of how much each of `type` counts; null where it says nothing.
  ::autopar::Result<Value> givenWeights(RankedTensorType type);

  /// log(sum(exp(x))): no power overflows.
  Value logSumExp(Value x, ArrayRef<int64_t> dims);
  Value softmax(Value x, Value logSum, ArrayRef<int64_t> dims);

  /// An input, an output or what becomes an input, of `type`.
  ::autopar::Result<Value> target(const std::string &name, RankedTensorType type);

  /// Of rows that are to be ignored 0, whatever they hold.
  Value ofKeptRows(const Classes &c, Value rows);
  Value total(Value x);
  Value meanOf(const Numbers &numbers, Value parts);

  func::FuncOp function;
  ::autopar::Call &call;
  double ignored;
  Operation *returns;
  OpBuilder builder;
  FormulaBuilder b;

private:
  ::autopar::Result<Value> floats(Value value, const std::string &name);
  Type wide(RankedTensorType type);
  Value rowWeights(Value isKept, RankedTensorType type);
};

} // namespace mlir::autopar
