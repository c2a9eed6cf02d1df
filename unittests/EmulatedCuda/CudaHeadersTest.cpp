// SPDX-License-Identifier: Apache-2.0
// What the runtime declares of NVIDIA's libraries is what the toolkit's headers say; built where
// the toolkit is.
#include "../../lib/Runtime/comm/nccl/NcclCalls.h"
#include "../../lib/Runtime/device/cuda/BlasLtCalls.h"
#include "../../lib/Runtime/device/cuda/CudnnCalls.h"

#include <cublasLt.h>
#include <cuda.h>
#include <gtest/gtest.h>
#ifdef AUTOPAR_HAS_CUDNN_HEADER
#include <cudnn.h>
#endif
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
static_assert(
    SameShape<decltype(&::cublasLtGetStatusName), decltype(ours::BlasLtCalls::statusName)>::value);

TEST(CudaHeaders, NumbersAreTheSame) {
  EXPECT_EQ(int(ours::DriverError::OutOfMemory), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(int(ours::DriverError::NoDevice), CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(int(ours::DriverError::InvalidDevice), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(int(ours::DriverError::InvalidImage), CUDA_ERROR_INVALID_IMAGE);
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
  EXPECT_EQ(ours::kBlasF8, CUDA_R_8F_E4M3);
  EXPECT_EQ(ours::kBlasComputeF32, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(ours::kBlasBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(ours::kBlasBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(ours::kBlasTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(ours::kBlasTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(ours::kBlasEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(ours::kBlasBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(ours::kBlasBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(ours::kBlasAuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  EXPECT_EQ(ours::kBlasAuxLeading, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  EXPECT_EQ(ours::kBlasMaxWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(ours::kBlasReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  EXPECT_EQ(ours::kBlasReduceInComputeType, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  EXPECT_EQ(ours::kBlasMinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(ours::kBlasMinAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  EXPECT_EQ(ours::kBlasMinAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  EXPECT_EQ(ours::kBlasMinAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  EXPECT_EQ(ours::kBlasNoEpilogue, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(ours::kBlasBias | ours::kBlasRelu, CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_EQ(ours::kBlasBias | ours::kBlasGelu, CUBLASLT_EPILOGUE_GELU_BIAS);
  EXPECT_EQ(ours::kBlasBias | ours::kBlasGelu | ours::kBlasAux, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  EXPECT_EQ(ours::kBlasRelu | ours::kBlasAux, CUBLASLT_EPILOGUE_RELU_AUX);
  EXPECT_EQ(ours::kBlasReluGradient, CUBLASLT_EPILOGUE_DRELU);
  EXPECT_EQ(ours::kBlasGeluGradient, CUBLASLT_EPILOGUE_DGELU);
  EXPECT_EQ(ours::kBlasSumsOfLeft, CUBLASLT_EPILOGUE_BGRADA);
  EXPECT_EQ(ours::kBlasSumsOfRight, CUBLASLT_EPILOGUE_BGRADB);
  EXPECT_EQ(ours::kBlasTransposed, CUBLAS_OP_T);
}

#ifdef AUTOPAR_HAS_CUDNN_HEADER
#define SAME(name, symbol, parameters)                                                             \
  static_assert(SameShape<decltype(&::symbol), decltype(ours::CudnnCalls::name)>::value, #symbol);
AUTOPAR_CUDNN_CALLS(SAME)
#undef SAME

TEST(CudaHeaders, NumbersOfCudnnAreTheSame) {
  EXPECT_EQ(int(ours::CudnnKind::Pointwise), CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::Convolution), CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::Engine), CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::ConvolutionOperation),
            CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::InputGradientOperation),
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::FilterGradientOperation),
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::EngineConfig), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::Heuristic), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::Plan), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::PointwiseOperation), CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::Graph), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::VariantPack), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::Tensor), CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::Matmul), CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::MatmulOperation), CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::Reduction), CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::ReductionOperation), CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnKind::ReshapeOperation), CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnAttributeType::Handle), CUDNN_TYPE_HANDLE);
  EXPECT_EQ(int(ours::CudnnAttributeType::DataType), CUDNN_TYPE_DATA_TYPE);
  EXPECT_EQ(int(ours::CudnnAttributeType::Boolean), CUDNN_TYPE_BOOLEAN);
  EXPECT_EQ(int(ours::CudnnAttributeType::Int64), CUDNN_TYPE_INT64);
  EXPECT_EQ(int(ours::CudnnAttributeType::Float), CUDNN_TYPE_FLOAT);
  EXPECT_EQ(int(ours::CudnnAttributeType::ConvolutionMode), CUDNN_TYPE_CONVOLUTION_MODE);
  EXPECT_EQ(int(ours::CudnnAttributeType::NumericalNote), CUDNN_TYPE_NUMERICAL_NOTE);
  EXPECT_EQ(int(ours::CudnnAttributeType::Pointer), CUDNN_TYPE_VOID_PTR);
  EXPECT_EQ(int(ours::CudnnAttributeType::HeuristicMode), CUDNN_TYPE_HEUR_MODE);
  EXPECT_EQ(int(ours::CudnnAttributeType::PointwiseMode), CUDNN_TYPE_POINTWISE_MODE);
  EXPECT_EQ(int(ours::CudnnAttributeType::Descriptor), CUDNN_TYPE_BACKEND_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnAttributeType::ReductionOperator), CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
  EXPECT_EQ(int(ours::CudnnAttribute::PointwiseMode), CUDNN_ATTR_POINTWISE_MODE);
  EXPECT_EQ(int(ours::CudnnAttribute::PointwiseComputeType), CUDNN_ATTR_POINTWISE_MATH_PREC);
  EXPECT_EQ(int(ours::CudnnAttribute::PointwiseAxis), CUDNN_ATTR_POINTWISE_AXIS);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionComputeType), CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionMode), CUDNN_ATTR_CONVOLUTION_CONV_MODE);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionDilations), CUDNN_ATTR_CONVOLUTION_DILATIONS);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionStrides), CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionPadsEnd), CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionPadsBegin), CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionSpatialDims), CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  EXPECT_EQ(int(ours::CudnnAttribute::ConfigEngine), CUDNN_ATTR_ENGINECFG_ENGINE);
  EXPECT_EQ(int(ours::CudnnAttribute::EngineNotes), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionOperationAlpha),
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionOperationBeta),
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionOperationMode),
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionOperationX),
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionOperationW),
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
  EXPECT_EQ(int(ours::CudnnAttribute::ConvolutionOperationY),
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
  EXPECT_EQ(int(ours::CudnnAttribute::InputGradientAlpha),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
  EXPECT_EQ(int(ours::CudnnAttribute::InputGradientBeta),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
  EXPECT_EQ(int(ours::CudnnAttribute::InputGradientMode),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
  EXPECT_EQ(int(ours::CudnnAttribute::InputGradientX),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
  EXPECT_EQ(int(ours::CudnnAttribute::InputGradientW), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
  EXPECT_EQ(int(ours::CudnnAttribute::InputGradientY),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
  EXPECT_EQ(int(ours::CudnnAttribute::FilterGradientAlpha),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
  EXPECT_EQ(int(ours::CudnnAttribute::FilterGradientBeta),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
  EXPECT_EQ(int(ours::CudnnAttribute::FilterGradientMode),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
  EXPECT_EQ(int(ours::CudnnAttribute::FilterGradientX),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
  EXPECT_EQ(int(ours::CudnnAttribute::FilterGradientW),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
  EXPECT_EQ(int(ours::CudnnAttribute::FilterGradientY),
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
  EXPECT_EQ(int(ours::CudnnAttribute::HeuristicMode), CUDNN_ATTR_ENGINEHEUR_MODE);
  EXPECT_EQ(int(ours::CudnnAttribute::HeuristicGraph), CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  EXPECT_EQ(int(ours::CudnnAttribute::HeuristicResults), CUDNN_ATTR_ENGINEHEUR_RESULTS);
  EXPECT_EQ(int(ours::CudnnAttribute::PlanHandle), CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  EXPECT_EQ(int(ours::CudnnAttribute::PlanEngineConfig), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  EXPECT_EQ(int(ours::CudnnAttribute::PlanWorkspaceSize), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  EXPECT_EQ(int(ours::CudnnAttribute::PointwiseOperationMode),
            CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  EXPECT_EQ(int(ours::CudnnAttribute::PointwiseOperationX), CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  EXPECT_EQ(int(ours::CudnnAttribute::PointwiseOperationB), CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  EXPECT_EQ(int(ours::CudnnAttribute::PointwiseOperationY), CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  EXPECT_EQ(int(ours::CudnnAttribute::PointwiseOperationT), CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  EXPECT_EQ(int(ours::CudnnAttribute::GraphHandle), CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  EXPECT_EQ(int(ours::CudnnAttribute::GraphOperations), CUDNN_ATTR_OPERATIONGRAPH_OPS);
  EXPECT_EQ(int(ours::CudnnAttribute::TensorAlignment), CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  EXPECT_EQ(int(ours::CudnnAttribute::TensorDataType), CUDNN_ATTR_TENSOR_DATA_TYPE);
  EXPECT_EQ(int(ours::CudnnAttribute::TensorDims), CUDNN_ATTR_TENSOR_DIMENSIONS);
  EXPECT_EQ(int(ours::CudnnAttribute::TensorStrides), CUDNN_ATTR_TENSOR_STRIDES);
  EXPECT_EQ(int(ours::CudnnAttribute::TensorId), CUDNN_ATTR_TENSOR_UNIQUE_ID);
  EXPECT_EQ(int(ours::CudnnAttribute::TensorIsVirtual), CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  EXPECT_EQ(int(ours::CudnnAttribute::TensorIsByValue), CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  EXPECT_EQ(int(ours::CudnnAttribute::PackIds), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  EXPECT_EQ(int(ours::CudnnAttribute::PackPointers), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  EXPECT_EQ(int(ours::CudnnAttribute::PackWorkspace), CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  EXPECT_EQ(int(ours::CudnnAttribute::MatmulComputeType), CUDNN_ATTR_MATMUL_COMP_TYPE);
  EXPECT_EQ(int(ours::CudnnAttribute::MatmulOperationA), CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  EXPECT_EQ(int(ours::CudnnAttribute::MatmulOperationB), CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  EXPECT_EQ(int(ours::CudnnAttribute::MatmulOperationC), CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  EXPECT_EQ(int(ours::CudnnAttribute::MatmulOperationMode), CUDNN_ATTR_OPERATION_MATMUL_DESC);
  EXPECT_EQ(int(ours::CudnnAttribute::ReductionOperator), CUDNN_ATTR_REDUCTION_OPERATOR);
  EXPECT_EQ(int(ours::CudnnAttribute::ReductionComputeType), CUDNN_ATTR_REDUCTION_COMP_TYPE);
  EXPECT_EQ(int(ours::CudnnAttribute::ReductionOperationX), CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  EXPECT_EQ(int(ours::CudnnAttribute::ReductionOperationY), CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  EXPECT_EQ(int(ours::CudnnAttribute::ReductionOperationMode), CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  EXPECT_EQ(int(ours::CudnnAttribute::ReshapeOperationX), CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  EXPECT_EQ(int(ours::CudnnAttribute::ReshapeOperationY), CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  EXPECT_EQ(int(ours::CudnnType::F32), CUDNN_DATA_FLOAT);
  EXPECT_EQ(int(ours::CudnnType::F16), CUDNN_DATA_HALF);
  EXPECT_EQ(int(ours::CudnnType::I32), CUDNN_DATA_INT32);
  EXPECT_EQ(int(ours::CudnnType::BF16), CUDNN_DATA_BFLOAT16);
  EXPECT_EQ(int(ours::CudnnType::Boolean), CUDNN_DATA_BOOLEAN);
  EXPECT_EQ(int(ours::CudnnPointwise::Add), CUDNN_POINTWISE_ADD);
  EXPECT_EQ(int(ours::CudnnPointwise::Mul), CUDNN_POINTWISE_MUL);
  EXPECT_EQ(int(ours::CudnnPointwise::Div), CUDNN_POINTWISE_DIV);
  EXPECT_EQ(int(ours::CudnnPointwise::Sub), CUDNN_POINTWISE_SUB);
  EXPECT_EQ(int(ours::CudnnPointwise::Exp), CUDNN_POINTWISE_EXP);
  EXPECT_EQ(int(ours::CudnnPointwise::Log), CUDNN_POINTWISE_LOG);
  EXPECT_EQ(int(ours::CudnnPointwise::Identity), CUDNN_POINTWISE_IDENTITY);
  EXPECT_EQ(int(ours::CudnnPointwise::GreaterOrEqual), CUDNN_POINTWISE_CMP_GE);
  EXPECT_EQ(int(ours::CudnnPointwise::Index), CUDNN_POINTWISE_GEN_INDEX);
  EXPECT_EQ(int(ours::CudnnPointwise::Select), CUDNN_POINTWISE_BINARY_SELECT);
  EXPECT_EQ(int(ours::CudnnReduction::Add), CUDNN_REDUCE_TENSOR_ADD);
  EXPECT_EQ(int(ours::CudnnReduction::Max), CUDNN_REDUCE_TENSOR_MAX);
  EXPECT_EQ(int(ours::CudnnConvolutionMode::Correlation), CUDNN_CROSS_CORRELATION);
  EXPECT_EQ(int(ours::CudnnNote::TensorCore), CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  EXPECT_EQ(int(ours::CudnnNote::DownConvertInputs), CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  EXPECT_EQ(int(ours::CudnnNote::ReducedPrecisionReduction),
            CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  EXPECT_EQ(int(ours::CudnnNote::Nondeterministic), CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  EXPECT_EQ(int(ours::CudnnHeuristicMode::Fallback), CUDNN_HEUR_MODE_FALLBACK);
  EXPECT_EQ(int(ours::CudnnHeuristicMode::A), CUDNN_HEUR_MODE_A);
}
#endif

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
  EXPECT_EQ(offsetof(ours::NcclConfig, maxCtas), offsetof(ncclConfig_t, maxCTAs));
  EXPECT_EQ(offsetof(ours::NcclConfig, netName), offsetof(ncclConfig_t, netName));
  EXPECT_EQ(ours::NcclConfig().maxCtas, theirs.maxCTAs);
}
#endif

} // namespace
