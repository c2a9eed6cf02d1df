// SPDX-License-Identifier: Apache-2.0
// The semantic verifier of programs and rank tables: every index in range, every buffer inside its
// arena, every access inside its buffer, all arithmetic checked for overflow. Writer and Reader
// both apply it, so the runtime may trust what it is given.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace autopar::artifact {

/// BadInput names the entity ("entry step, instruction 4 (h.0/attn/dot): ...").
Status verifyProgram(const Program &program, uint64_t constantsBytes);

/// Whether all names are UTF-8, as the JSON is that they go into.
Status verifyNames(const Program &program);

/// The compiled kernels of a rank class as they stand in the file; empty where there are none.
struct CompiledKernels {
  std::span<const uint8_t> object; ///< x86-64
  std::span<const uint8_t> ptx;    ///< with its zero byte
  std::span<const uint8_t> cubin;
};

/// Whether the kernels are those of the target's kind, every launch fits it, and PTX has an entry
/// with the right number of parameters for each. The program is verified already.
Status verifyKernels(const Program &program, const Target &target, const CompiledKernels &code);

/// The world's tables against the programs of their classes (programs[class]); also that groups,
/// permutations and peers agree between ranks.
Status verifyRanks(const std::vector<RankTable> &ranks,
                   const std::vector<const Program *> &programs);

/// Shapes, strides and types of a product, convolution or attention, without buffers.
Status verifyGeometry(const MatmulGeometry &geometry);
Status verifyGeometry(const ConvolutionGeometry &geometry);
Status verifyGeometry(const AttentionGeometry &geometry);
Status verifyGeometry(const GroupedProductGeometry &geometry);

/// Bytes of the second result that a product's epilogue stores, and of its residual; nothing on
/// overflow. The geometry is verified already.
std::optional<int64_t> auxBytes(const MatmulGeometry &geometry);
std::optional<int64_t> residualBytes(const MatmulGeometry &geometry);

/// Product of dims times element size; nothing on overflow or a negative dim.
std::optional<int64_t> checkedBytes(const std::vector<int64_t> &dims, DataType type);

/// Bytes from the first to behind the last element of a strided view; nothing on overflow.
std::optional<int64_t> spanBytes(const StridedShape &shape, DataType type);

} // namespace autopar::artifact
