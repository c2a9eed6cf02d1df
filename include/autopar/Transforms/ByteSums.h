// SPDX-License-Identifier: Apache-2.0
// Sums of products of bytes as processors compute them: an instruction multiplies a vector of bytes
// without a sign by one of bytes with a sign and adds neighbouring products.
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace mlir {
class Operation;
}

namespace mlir::autopar {

/// The instructions of a processor.
enum class ByteDots {
  /// vpmaddubsw, 32 bytes: pairs of products are added in 16 bits, with saturation. A few pairs of
  /// numbers without a sign of at most four bits fit there, and are added to sums of i32 together.
  Avx2,
  /// AVX512-VNNI's vpdpbusd, 64 bytes: fours of products are added to sums of i32.
  Vnni,
};

/// On a sum of i32, of products of bytes (a cast each, of one with a sign and one without): it is
/// computed where it is read, one element of another row operation, by the instructions that the
/// attribute names. On a block_dot: those that its kernel uses. For "avx2", bytes without a sign
/// are below 16 in such a sum (a block_dot takes wider ones apart).
constexpr llvm::StringLiteral kByteSum = "autopar.byte_sum";

/// "avx2", "vnni".
StringRef nameOf(ByteDots dots);
/// What `kByteSum` names on an operation; nothing without it, or for an unknown name.
std::optional<ByteDots> byteDotsOf(Operation *op);

/// The most bits of numbers without a sign that the instructions sum exactly.
constexpr int64_t mostBitsOf(ByteDots dots) { return dots == ByteDots::Avx2 ? 4 : 8; }

/// On a kernel's function: it has instructions that no level of x86-64 has (Vnni).
constexpr llvm::StringLiteral kMultipliesBytes = "autopar.multiplies_bytes";

/// How sums fill vectors. What is summed lies in runs of bytes, one behind the other for
/// neighbouring sums; a strip of sums is computed at a time.
struct ByteVectors {
  static constexpr int64_t terms = 4;       ///< of a sum of i32 in a vector
  static constexpr int64_t mostVectors = 8; ///< of sums, which stay in registers

  int64_t bytes = 0;   ///< of a vector
  int64_t strip = 0;   ///< sums
  int64_t vectors = 0; ///< of bytes that these sum; 0 where they fill none

  static constexpr int64_t bytesOf(ByteDots dots) { return dots == ByteDots::Avx2 ? 32 : 64; }
  static constexpr int64_t sumsOf(ByteDots dots) { return bytesOf(dots) / terms; }

  /// For rows of `length` sums of `run` bytes each.
  static ByteVectors of(ByteDots dots, int64_t length, int64_t run) {
    if (length < 1 || run < terms || !llvm::isPowerOf2_64(run))
      return {};
    int64_t bytes = bytesOf(dots);
    int64_t strip = std::min<int64_t>(sumsOf(dots), int64_t{1} << llvm::Log2_64(length));
    while (strip > 1 && strip * run > mostVectors * bytes)
      strip /= 2;
    int64_t vectors = strip * run / bytes;
    return {bytes, strip, vectors <= mostVectors ? vectors : 0};
  }
  explicit operator bool() const { return vectors > 0; }
};

} // namespace mlir::autopar
