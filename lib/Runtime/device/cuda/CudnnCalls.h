// SPDX-License-Identifier: Apache-2.0
// What is used of cuDNN (libcudnn.so.9): the C interface of its graphs, declared here so that
// building needs no toolkit.
#pragma once

#include "DriverCalls.h"

namespace autopar::runtime::cuda {

/// The oldest cuDNN whose attention computes what ours does without detours, as cudnnGetVersion
/// says it.
constexpr size_t kOldestCudnn = 91100;
/// From this one on, gradients take rows of keys that are no multiple of kCudnnKeyBlock.
constexpr size_t kCudnnForAnyKeys = 91600;
constexpr int64_t kCudnnKeyBlock = 128;

enum class CudnnStatus : int { Success = 0 };

using CudnnHandle = struct CudnnContextRecord *;
using CudnnDescriptor = struct CudnnDescriptorRecord *; ///< cudnnBackendDescriptor_t

/// cudnnBackendDescriptorType_t.
enum class CudnnKind : int {
  Pointwise = 0,
  Convolution = 1,
  Engine = 2,
  EngineConfig = 3,
  Heuristic = 4,
  Plan = 5,
  ConvolutionOperation = 10,
  FilterGradientOperation = 11,
  InputGradientOperation = 12,
  PointwiseOperation = 13,
  Graph = 15,
  VariantPack = 16,
  Tensor = 17,
  Matmul = 18,
  MatmulOperation = 19,
  Reduction = 21,
  ReductionOperation = 22,
  ReshapeOperation = 31,
};

/// cudnnBackendAttributeType_t.
enum class CudnnAttributeType : int {
  Handle = 0,
  DataType = 1,
  Boolean = 2,
  Int64 = 3,
  Float = 4,
  Pointer = 6,
  ConvolutionMode = 7,
  HeuristicMode = 8,
  NumericalNote = 11,
  PointwiseMode = 14,
  Descriptor = 15,
  ReductionOperator = 18,
};

/// cudnnBackendAttributeName_t.
enum class CudnnAttribute : int {
  PointwiseMode = 0,
  PointwiseComputeType = 1,
  PointwiseAxis = 9,
  ConvolutionComputeType = 100,
  ConvolutionMode = 101,
  ConvolutionDilations = 102,
  ConvolutionStrides = 103,
  ConvolutionPadsEnd = 104,
  ConvolutionPadsBegin = 105,
  ConvolutionSpatialDims = 106,
  HeuristicMode = 200,
  HeuristicGraph = 201,
  HeuristicResults = 202,
  ConfigEngine = 300,
  PlanHandle = 400,
  PlanEngineConfig = 401,
  PlanWorkspaceSize = 402,
  ConvolutionOperationAlpha = 700,
  ConvolutionOperationBeta = 701,
  ConvolutionOperationMode = 702,
  ConvolutionOperationW = 703,
  ConvolutionOperationX = 704,
  ConvolutionOperationY = 705,
  InputGradientAlpha = 706,
  InputGradientBeta = 707,
  InputGradientMode = 708,
  InputGradientW = 709,
  InputGradientX = 710,
  InputGradientY = 711,
  FilterGradientAlpha = 712,
  FilterGradientBeta = 713,
  FilterGradientMode = 714,
  FilterGradientW = 715,
  FilterGradientX = 716,
  FilterGradientY = 717,
  PointwiseOperationMode = 750,
  PointwiseOperationX = 751,
  PointwiseOperationB = 752,
  PointwiseOperationY = 753,
  PointwiseOperationT = 758,
  GraphHandle = 800,
  GraphOperations = 801,
  TensorAlignment = 900,
  TensorDataType = 901,
  TensorDims = 902,
  TensorStrides = 903,
  TensorId = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  PackIds = 1000,
  PackPointers = 1001,
  PackWorkspace = 1003,
  EngineNotes = 1303,
  MatmulComputeType = 1500,
  MatmulOperationA = 1520,
  MatmulOperationB = 1521,
  MatmulOperationC = 1522,
  MatmulOperationMode = 1523,
  ReductionOperator = 1600,
  ReductionComputeType = 1601,
  ReductionOperationX = 1610,
  ReductionOperationY = 1611,
  ReductionOperationMode = 1612,
  ReshapeOperationX = 2200,
  ReshapeOperationY = 2201,
};

enum class CudnnType : int { F32 = 0, F16 = 2, I32 = 4, BF16 = 9, Boolean = 11 };
enum class CudnnPointwise : int {
  Add = 0,
  Mul = 1,
  Div = 6,
  Sub = 9,
  Exp = 13,
  Log = 15,
  Identity = 21,
  Greater = 302,
  GreaterOrEqual = 303,
  Index = 501,
  Select = 601,
};
enum class CudnnReduction : int { Add = 0, Max = 3 };
enum class CudnnConvolutionMode : int { Correlation = 1 };
/// What an engine does to numbers.
enum class CudnnNote : int {
  TensorCore = 0, ///< of f32: TF32
  DownConvertInputs = 1,
  ReducedPrecisionReduction = 2,
  Nondeterministic = 4,
};
enum class CudnnHeuristicMode : int { Fallback = 2, A = 3 };

#define AUTOPAR_CUDNN_CALLS(X)                                                                     \
  X(create, cudnnCreate, (CudnnHandle * handle))                                                   \
  X(destroy, cudnnDestroy, (CudnnHandle handle))                                                   \
  X(setStream, cudnnSetStream, (CudnnHandle handle, Stream stream))                                \
  X(createDescriptor, cudnnBackendCreateDescriptor,                                                \
    (CudnnKind kind, CudnnDescriptor * descriptor))                                                \
  X(destroyDescriptor, cudnnBackendDestroyDescriptor, (CudnnDescriptor descriptor))                \
  X(finalize, cudnnBackendFinalize, (CudnnDescriptor descriptor))                                  \
  X(setAttribute, cudnnBackendSetAttribute,                                                        \
    (CudnnDescriptor descriptor, CudnnAttribute attribute, CudnnAttributeType type, int64_t count, \
     const void *values))                                                                          \
  X(getAttribute, cudnnBackendGetAttribute,                                                        \
    (CudnnDescriptor descriptor, CudnnAttribute attribute, CudnnAttributeType type,                \
     int64_t wanted, int64_t * count, void *values))                                               \
  X(execute, cudnnBackendExecute,                                                                  \
    (CudnnHandle handle, CudnnDescriptor plan, CudnnDescriptor variantPack))

struct CudnnCalls {
#define AUTOPAR_MEMBER(name, symbol, parameters) CudnnStatus(*name) parameters = nullptr;
  AUTOPAR_CUDNN_CALLS(AUTOPAR_MEMBER)
#undef AUTOPAR_MEMBER
  size_t (*getVersion)() = nullptr;                     ///< cudnnGetVersion
  const char *(*errorText)(CudnnStatus) = nullptr;      ///< cudnnGetErrorString
  void (*lastError)(char *text, size_t most) = nullptr; ///< cudnnGetLastErrorString
  size_t version = 0;
};

} // namespace autopar::runtime::cuda
