// SPDX-License-Identifier: Apache-2.0
// One small differentiable function per operation and variant, on random shapes and attributes, for
// the comparison of gradients with differences.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <random>

namespace autopar_training {

/// Collects the arguments of the function under construction.
class CaseBuilder {
public:
  CaseBuilder(mlir::func::FuncOp function, uint64_t seed);

  mlir::OpBuilder builder;
  mlir::Location loc;
  std::mt19937_64 random;
  /// Initial values of the arguments, row-major.
  std::vector<std::vector<double>> values;

  int64_t below(int64_t count) { return static_cast<int64_t>(random() % count); }
  double uniform(double low, double high);
  llvm::SmallVector<int64_t> shape(int64_t rank);
  mlir::RankedTensorType type(llvm::ArrayRef<int64_t> shape);
  static mlir::RankedTensorType typeOf(mlir::Value value);

  /// A new f64 argument, drawn from [low, high].
  mlir::Value argument(llvm::ArrayRef<int64_t> shape, double low = -2, double high = 2);
  /// An f64 constant drawn from [low, high].
  mlir::Value numbers(llvm::ArrayRef<int64_t> shape, double low = -2, double high = 2);
  /// An i64 constant drawn from [low, high].
  mlir::Value integers(llvm::ArrayRef<int64_t> shape, int64_t low, int64_t high);
  mlir::Value integers(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> values);

private:
  mlir::func::FuncOp function;
};

struct GradientCase {
  std::string op;      ///< without the dialect: "binary"
  std::string variant; ///< "pow"
  std::function<mlir::Value(CaseBuilder &)> build;
};

/// All cases, in a fixed order.
std::vector<GradientCase> gradientCases();

} // namespace autopar_training
