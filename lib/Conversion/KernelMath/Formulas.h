// SPDX-License-Identifier: Apache-2.0
// The math library of generated kernels: each function appends branch-free arithmetic for f32 or
// f64 that LLVM can vectorize. All handle infinities, NaN and denormals unless the flags allow
// less.
#ifndef AUTOPAR_LIB_CONVERSION_KERNELMATH_FORMULAS_H
#define AUTOPAR_LIB_CONVERSION_KERNELMATH_FORMULAS_H

#include "Expression.h"

#include <utility>

namespace autopar::kernelmath {

/// What the op's fast-math flags allow (afn, ninf, nnan), and what the target has.
struct Allowance {
  bool approximate = false;
  bool noInfinities = false;
  bool noNans = false;
  bool isCuda = false; ///< instructions of NVIDIA's GPUs
};

// CudaInstructions.cpp: of f32; the approximate ones take and give no denormals
/// 2^x, 2 units in the last place.
Expr cudaExp2(Expr x);
/// 1 / x, 1 unit in the last place.
Expr cudaReciprocal(Expr x);
/// The nearest number from 0 to 1, 0 of NaN; part of the instruction that makes `x`.
Expr cudaSaturate(Expr x);

// Exponentials.cpp
Expr expFormula(Expr x, Allowance allow = {});
Expr exp2Formula(Expr x);
Expr expm1Formula(Expr x);
Expr sinhFormula(Expr x);
Expr coshFormula(Expr x);
Expr tanhFormula(Expr x, Allowance allow = {});

// Logarithms.cpp
enum class LogBase { E, Two, Ten };
Expr logFormula(Expr x, LogBase base, Allowance allow = {});
Expr log1pFormula(Expr x);
Expr asinhFormula(Expr x);
Expr acoshFormula(Expr x);
Expr atanhFormula(Expr x);
/// log(x) of positive f64 `x` as an unevaluated sum of two f64 (relative error about 2^-65 for
/// normal results).
std::pair<Expr, Expr> logInTwoParts(Expr x);

// Trigonometry.cpp
Expr sinFormula(Expr x);
Expr cosFormula(Expr x);
Expr tanFormula(Expr x);
Expr asinFormula(Expr x);
Expr acosFormula(Expr x);
Expr atanFormula(Expr x);
Expr atan2Formula(Expr y, Expr x);

// ErrorFunctions.cpp
Expr erfFormula(Expr x, Allowance allow = {});
Expr erfcFormula(Expr x);

// Distributions.cpp
/// Replaces what is made of `op`, tanh or erf of f32 on a GPU, if all of it is made of (1 + op)
/// / 2.
bool replaceDistribution(mlir::Operation *op, bool isErf);

// Powers.cpp
Expr powFormula(Expr x, Expr y);
/// x^n for a known small integer n.
Expr integerPowerFormula(Expr x, int64_t n);
Expr cbrtFormula(Expr x);
Expr rsqrtFormula(Expr x);
/// C's fmod: the remainder with the sign of x (exact while |x / y| < 2^52).
Expr remainderFormula(Expr x, Expr y);

} // namespace autopar::kernelmath

#endif // AUTOPAR_LIB_CONVERSION_KERNELMATH_FORMULAS_H
