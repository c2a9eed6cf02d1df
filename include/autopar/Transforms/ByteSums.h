// SPDX-License-Identifier: Apache-2.0
// Sums of products of bytes as processors with AVX512-VNNI compute them: one instruction multiplies
// 64 bytes without a sign by 64 with one and adds each four products to a sum of i32.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>

namespace mlir::autopar {

/// On a sum of i32, of products of bytes (a cast each, of one with a sign and one without): it is
/// computed where it is read, one element of another row operation, by that instruction. Only for
/// processors that have it.
constexpr llvm::StringLiteral kByteSum = "autopar.byte_sum";

/// On a kernel's function: it has the instruction.
constexpr llvm::StringLiteral kMultipliesBytes = "autopar.multiplies_bytes";

/// The instruction: i32 sums, bytes without a sign, bytes with one.
constexpr llvm::StringLiteral kDotInstruction = "llvm.x86.avx512.vpdpbusd.512";

/// How sums fill vectors. What is summed lies in runs of bytes, one behind the other for
/// neighbouring sums; a strip of sums is computed at a time.
struct ByteVectors {
  static constexpr int64_t bytes = 64, sums = 16, terms = 4; ///< of the instruction
  static constexpr int64_t mostVectors = 8;                  ///< of sums, which stay in registers

  int64_t strip = 0;   ///< sums
  int64_t vectors = 0; ///< of bytes that these sum; 0 where they fill none

  /// For rows of `length` sums of `run` bytes each.
  static ByteVectors of(int64_t length, int64_t run) {
    if (length < 1 || run < terms || !llvm::isPowerOf2_64(run))
      return {};
    int64_t strip = std::min<int64_t>(sums, int64_t{1} << llvm::Log2_64(length));
    while (strip > 1 && strip * run > mostVectors * bytes)
      strip /= 2;
    int64_t vectors = strip * run / bytes;
    return {strip, vectors <= mostVectors ? vectors : 0};
  }
  explicit operator bool() const { return vectors > 0; }
};

} // namespace mlir::autopar
