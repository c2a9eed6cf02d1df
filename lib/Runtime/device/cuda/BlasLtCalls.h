// SPDX-License-Identifier: Apache-2.0
// What is used of cuBLASLt (libcublasLt.so.13 or .12): its C interface, declared here so that
// building needs no toolkit.
#pragma once

#include "DriverCalls.h"

namespace autopar::runtime::cuda {

enum class BlasStatus : int {
  Success = 0,
  NotInitialized = 1,
  AllocFailed = 3,
  InvalidValue = 7,
  ArchMismatch = 8,
  ExecutionFailed = 13,
  InternalError = 14,
  NotSupported = 15,
};

using BlasHandle = struct BlasContextRecord *;
using BlasOperation = struct BlasOperationRecord *;   ///< cublasLtMatmulDesc_t
using BlasLayout = struct BlasLayoutRecord *;         ///< cublasLtMatrixLayout_t
using BlasPreference = struct BlasPreferenceRecord *; ///< cublasLtMatmulPreference_t
struct BlasAlgorithm {
  uint64_t data[8];
};
struct BlasHeuristic {
  BlasAlgorithm algorithm;
  size_t workspaceBytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};

/// cudaDataType_t.
constexpr int kBlasF32 = 0, kBlasF64 = 1, kBlasF16 = 2, kBlasBF16 = 14, kBlasF8 = 28; ///< e4m3
constexpr int kBlasComputeF32 = 68, kBlasComputeF64 = 70;
constexpr int kBlasBatchCount = 5, kBlasBatchStride = 6;                   ///< of layouts
constexpr int kBlasTransposeA = 3, kBlasTransposeB = 4, kBlasEpilogue = 7; ///< of operations
constexpr int kBlasBiasPointer = 8, kBlasBiasType = 26;
constexpr int kBlasAuxPointer = 11, kBlasAuxLeading = 12;
constexpr int kBlasMaxWorkspace = 1, kBlasReductionSchemes = 3; ///< of preferences
constexpr int kBlasMinAlignmentA = 5, kBlasMinAlignmentB = 6, kBlasMinAlignmentC = 7,
              kBlasMinAlignmentD = 8;
/// Bits of an epilogue, but for the first. An activation with aux stores what its gradient reads:
/// what a GELU was given, or a mask of where a ReLU's result is positive.
constexpr int kBlasNoEpilogue = 1, kBlasRelu = 2, kBlasBias = 4, kBlasGelu = 32, kBlasAux = 128,
              kBlasReluGradient = 8 | kBlasAux, kBlasGeluGradient = 64 | kBlasAux,
              kBlasSumsOfLeft = 256, kBlasSumsOfRight = 512; ///< BGRADA, BGRADB
/// What the leading dimension of a GELU's aux is a multiple of, in elements, and of a mask, in
/// bits.
constexpr int64_t kBlasAuxStep = 8, kBlasMaskStep = 128;
/// What the addresses of a bias, of aux and of sums are multiples of, in bytes.
constexpr int64_t kBlasEpilogueAlignment = 16;
/// How parts of a contracted dimension may be summed up: in the type that products are summed in.
constexpr uint32_t kBlasReduceInComputeType = 2;
/// What columns and addresses of matrices of 8 bits are multiples of, in bytes. They are multiplied
/// where the first is transposed and the second is not.
constexpr int64_t kBlasByteAlignment = 16;
/// The matrices of a batch are numbered along z of a grid.
constexpr int64_t kBlasMostBatches = 65535;
constexpr int kBlasPlain = 0, kBlasTransposed = 1;

#define AUTOPAR_CUBLASLT_CALLS(X)                                                                  \
  X(create, cublasLtCreate, (BlasHandle * handle))                                                 \
  X(destroy, cublasLtDestroy, (BlasHandle handle))                                                 \
  X(operationCreate, cublasLtMatmulDescCreate,                                                     \
    (BlasOperation * operation, int compute, int scaleType))                                       \
  X(operationDestroy, cublasLtMatmulDescDestroy, (BlasOperation operation))                        \
  X(operationSet, cublasLtMatmulDescSetAttribute,                                                  \
    (BlasOperation operation, int attribute, const void *value, size_t bytes))                     \
  X(layoutCreate, cublasLtMatrixLayoutCreate,                                                      \
    (BlasLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))             \
  X(layoutDestroy, cublasLtMatrixLayoutDestroy, (BlasLayout layout))                               \
  X(layoutSet, cublasLtMatrixLayoutSetAttribute,                                                   \
    (BlasLayout layout, int attribute, const void *value, size_t bytes))                           \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate, (BlasPreference * preference))               \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy, (BlasPreference preference))               \
  X(preferenceSet, cublasLtMatmulPreferenceSetAttribute,                                           \
    (BlasPreference preference, int attribute, const void *value, size_t bytes))                   \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                     \
    (BlasHandle handle, BlasOperation operation, BlasLayout a, BlasLayout b, BlasLayout c,         \
     BlasLayout d, BlasPreference preference, int wanted, BlasHeuristic *results, int *found))     \
  X(matmul, cublasLtMatmul,                                                                        \
    (BlasHandle handle, BlasOperation operation, const void *alpha, const void *aData,             \
     BlasLayout a, const void *bData, BlasLayout b, const void *beta, const void *cData,           \
     BlasLayout c, void *dData, BlasLayout d, const BlasAlgorithm *algorithm, void *workspace,     \
     size_t workspaceBytes, Stream stream))

struct BlasLtCalls {
#define AUTOPAR_MEMBER(name, symbol, parameters) BlasStatus(*name) parameters = nullptr;
  AUTOPAR_CUBLASLT_CALLS(AUTOPAR_MEMBER)
#undef AUTOPAR_MEMBER
  const char *(*statusName)(BlasStatus) = nullptr; ///< cublasLtGetStatusName
};

} // namespace autopar::runtime::cuda
