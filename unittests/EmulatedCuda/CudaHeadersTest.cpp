// SPDX-License-Identifier: Apache-2.0
// What the runtime declares of NVIDIA's libraries is what the toolkit's headers say; built where
// the toolkit is.
#include "../../lib/Runtime/comm/nccl/NcclCalls.h"
#include "../../lib/Runtime/device/cuda/BlasLtCalls.h"

#include <cublasLt.h>
#include <cuda.h>
#include <gtest/gtest.h>
#ifdef AUTOPAR_HAS_NCCL_HEADER
#include <nccl.h>
#endif

#include <type_traits>

namespace ours = autopar::runtime::cuda;

namespace {

/// Functions are called through pointers of our own: as many arguments, each as large as theirs.
template <typename Theirs, typename Ours>
struct SameShape : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct SameShape<R (*)(A...), S (*)(B...)> {
  template <bool sameCount>
  static constexpr bool compare() {
    if constexpr (sameCount)
      return ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);
    return false;
  }
  static constexpr bool value = sizeof(R) == sizeof(S) && compare<sizeof...(A) == sizeof...(B)>();
};

// cuda.h gives the functions their versions by macros.
#define SAME(name, symbol, parameters)                                                             \
  static_assert(SameShape<decltype(&::symbol), decltype(ours::DriverCalls::name)>::value, #symbol);
AUTOPAR_CUDA_DRIVER_CALLS(SAME)
#undef SAME
#define SAME(name, symbol, parameters)                                                             \
  static_assert(SameShape<decltype(&::symbol), decltype(ours::BlasLtCalls::name)>::value, #symbol);
AUTOPAR_CUBLASLT_CALLS(SAME)
#undef SAME

TEST(CudaHeaders, NumbersAreTheSame) {
  EXPECT_EQ(int(ours::DriverError::OutOfMemory), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(int(ours::DriverError::NoDevice), CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(int(ours::DriverError::InvalidDevice), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(int(ours::DriverError::InvalidContext), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(int(ours::DriverError::NoBinaryForDevice), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(int(ours::DriverError::InvalidPtx), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(int(ours::DriverError::UnsupportedPtxVersion), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(int(ours::DriverError::InvalidHandle), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(int(ours::DriverError::NotReady), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(int(ours::DriverError::IllegalAddress), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(int(ours::DriverError::LaunchOutOfResources), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(int(ours::DriverError::MisalignedAddress), CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_EQ(int(ours::DriverError::LaunchFailed), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(int(ours::DriverError::CaptureUnsupported), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(int(ours::DriverError::CaptureInvalidated), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(int(ours::DriverError::CaptureMerge), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  EXPECT_EQ(int(ours::DriverError::CaptureUnjoined), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(int(ours::DriverError::CaptureIsolation), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(int(ours::DriverError::CapturedEvent), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(int(ours::DriverError::CaptureWrongThread), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_EQ(ours::kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(ours::kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(ours::kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(ours::kMaxSharedBytesPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(ours::kMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(ours::kStreamNonBlocking, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(ours::kEventDisableTiming, unsigned(CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(ours::kHostAllocPortable, unsigned(CU_MEMHOSTALLOC_PORTABLE));
  EXPECT_EQ(ours::kJitErrorLog, CU_JIT_ERROR_LOG_BUFFER);
  EXPECT_EQ(ours::kJitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

  EXPECT_EQ(sizeof(ours::BlasHeuristic), sizeof(cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(sizeof(ours::BlasAlgorithm), sizeof(cublasLtMatmulAlgo_t));
  EXPECT_EQ(int(ours::BlasStatus::NotSupported), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(ours::kBlasF32, CUDA_R_32F);
  EXPECT_EQ(ours::kBlasF16, CUDA_R_16F);
  EXPECT_EQ(ours::kBlasBF16, CUDA_R_16BF);
  EXPECT_EQ(ours::kBlasComputeF32, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(ours::kBlasBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(ours::kBlasBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(ours::kBlasTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(ours::kBlasTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(ours::kBlasEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(ours::kBlasBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(ours::kBlasBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(ours::kBlasMaxWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(ours::kBlasMinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(ours::kBlasMinAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  EXPECT_EQ(ours::kBlasMinAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  EXPECT_EQ(ours::kBlasMinAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  EXPECT_EQ(ours::kBlasNoEpilogue, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(ours::kBlasBias | ours::kBlasRelu, CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_EQ(ours::kBlasBias | ours::kBlasGelu, CUBLASLT_EPILOGUE_GELU_BIAS);
  EXPECT_EQ(ours::kBlasTransposed, CUBLAS_OP_T);
}

#ifdef AUTOPAR_HAS_NCCL_HEADER
#define SAME(name, symbol, parameters)                                                             \
  static_assert(SameShape<decltype(&::symbol), decltype(ours::NcclCalls::name)>::value, #symbol);
AUTOPAR_NCCL_CALLS(SAME)
#undef SAME

TEST(CudaHeaders, NumbersOfNcclAreTheSame) {
  EXPECT_EQ(int(ours::NcclResult::InvalidUsage), ncclInvalidUsage);
  EXPECT_EQ(int(ours::NcclResult::RemoteError), ncclRemoteError);
  EXPECT_EQ(int(ours::NcclResult::InProgress), ncclInProgress);
  EXPECT_EQ(ours::kNcclI8, ncclInt8);
  EXPECT_EQ(ours::kNcclU8, ncclUint8);
  EXPECT_EQ(ours::kNcclI32, ncclInt32);
  EXPECT_EQ(ours::kNcclU32, ncclUint32);
  EXPECT_EQ(ours::kNcclI64, ncclInt64);
  EXPECT_EQ(ours::kNcclU64, ncclUint64);
  EXPECT_EQ(ours::kNcclF16, ncclFloat16);
  EXPECT_EQ(ours::kNcclF32, ncclFloat32);
  EXPECT_EQ(ours::kNcclF64, ncclFloat64);
  EXPECT_EQ(ours::kNcclBF16, ncclBfloat16);
  EXPECT_EQ(ours::kNcclSum, ncclSum);
  EXPECT_EQ(ours::kNcclProd, ncclProd);
  EXPECT_EQ(ours::kNcclMax, ncclMax);
  EXPECT_EQ(ours::kNcclMin, ncclMin);
  EXPECT_EQ(sizeof(ours::NcclUniqueId), sizeof(ncclUniqueId));
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(ours::NcclConfig().magic, theirs.magic);
  EXPECT_EQ(offsetof(ours::NcclConfig, version), offsetof(ncclConfig_t, version));
  EXPECT_EQ(offsetof(ours::NcclConfig, blocking), offsetof(ncclConfig_t, blocking));
}
#endif

} // namespace
