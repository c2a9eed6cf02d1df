// SPDX-License-Identifier: Apache-2.0
// The math library of generated kernels, for every target: functions as formulas of our own, so
// that kernels need no library.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace autopar {

/// `autopar-expand-math`: replaces the ops of the math dialect (and `arith.remf`) that are no
/// machine instructions by branch-free arithmetic that vectorizes. f16 and bf16 are computed in
/// f32. An op with the fast-math flag `afn` gets a cheaper form: exp flushes results below the
/// normal range to 0 and overflows at 88.37 instead of 88.72; log takes normal inputs only. The
/// flag `ninf` on exp drops the upper clamp, `ninf` and `nnan` on log drop the checks for inputs
/// that are not positive and finite.
std::unique_ptr<mlir::Pass> createExpandMathPass();

/// The same for NVIDIA's GPUs (`autopar-expand-math=cuda`): where they have an approximate
/// instruction, exp, tanh and erf of f32 take it instead of a polynomial or an exact division,
/// whose rare cases branch. exp stays within 4 units in the last place, tanh and erf within 7.
std::unique_ptr<mlir::Pass> createExpandMathForCudaPass();

} // namespace autopar
