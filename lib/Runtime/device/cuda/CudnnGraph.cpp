// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "CudnnGraph.h"

#include <algorithm>

namespace autopar::runtime::cuda {

using Attribute = CudnnAttribute;
using Type = CudnnAttributeType;

/// What vector loads of the library's kernels want of addresses.
static constexpr int64_t kAlignment = 16;

std::string lastWords(const CudnnCalls &calls) {
  char text[1024] = {};
  calls.lastError(text, sizeof(text));
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

Status checkCudnn(const CudnnCalls &calls, CudnnStatus status, const std::string &what) {
  if (status == CudnnStatus::Success)
    return Status::ok();
  std::string text = what + ": " + calls.errorText(status), more = lastWords(calls);
  return Status::internal(more.empty() ? text : text + " (" + more + ")");
}

CudnnGraph::Dims CudnnGraph::dense(const Dims &dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * dims[i + 1];
  return strides;
}

CudnnDescriptor CudnnGraph::make(CudnnKind kind, const char *what) {
  if (!failure.isOk())
    return nullptr;
  CudnnDescriptor made = nullptr;
  failure = checkCudnn(calls, calls.createDescriptor(kind, &made),
                       std::string("cudnnBackendCreateDescriptor of ") + what);
  if (!failure.isOk())
    return nullptr;
  owned.push_back(OwnedDescriptor(made, CudnnDeleter{&calls}));
  return made;
}

void CudnnGraph::set(CudnnDescriptor descriptor, Attribute attribute, Type type, int64_t count,
                     const void *values) {
  if (failure.isOk())
    failure = checkCudnn(calls, calls.setAttribute(descriptor, attribute, type, count, values),
                         "cudnnBackendSetAttribute " + std::to_string(int(attribute)));
}

void CudnnGraph::set(CudnnDescriptor descriptor, Attribute attribute, CudnnDescriptor value) {
  set(descriptor, attribute, Type::Descriptor, 1, &value);
}

void CudnnGraph::finalize(CudnnDescriptor descriptor, const char *what) {
  if (failure.isOk())
    failure = checkCudnn(calls, calls.finalize(descriptor),
                         std::string("cudnnBackendFinalize of ") + what);
}

CudnnGraph::Tensor CudnnGraph::describe(CudnnType type, const Dims &dims, const Dims &strides,
                                        Place place) {
  Tensor tensor{++tensors, type, dims, strides, make(CudnnKind::Tensor, "a tensor")};
  set(tensor.descriptor, Attribute::TensorDataType, Type::DataType, 1, &type);
  set(tensor.descriptor, Attribute::TensorDims, Type::Int64, int64_t(dims.size()), dims.data());
  set(tensor.descriptor, Attribute::TensorStrides, Type::Int64, int64_t(strides.size()),
      strides.data());
  set(tensor.descriptor, Attribute::TensorId, Type::Int64, 1, &tensor.id);
  set(tensor.descriptor, Attribute::TensorAlignment, Type::Int64, 1, &kAlignment);
  bool isVirtual = place == Place::Nowhere, isByValue = place == Place::Host;
  set(tensor.descriptor, Attribute::TensorIsVirtual, Type::Boolean, 1, &isVirtual);
  set(tensor.descriptor, Attribute::TensorIsByValue, Type::Boolean, 1, &isByValue);
  finalize(tensor.descriptor, "a tensor");
  return tensor;
}

namespace {
struct ConvolutionAttributes {
  Attribute alpha, beta, mode, w, x, y;
};
} // namespace

static ConvolutionAttributes attributesOf(CudnnKind operation) {
  switch (operation) {
  case CudnnKind::InputGradientOperation:
    return {Attribute::InputGradientAlpha, Attribute::InputGradientBeta,
            Attribute::InputGradientMode,  Attribute::InputGradientW,
            Attribute::InputGradientX,     Attribute::InputGradientY};
  case CudnnKind::FilterGradientOperation:
    return {Attribute::FilterGradientAlpha, Attribute::FilterGradientBeta,
            Attribute::FilterGradientMode,  Attribute::FilterGradientW,
            Attribute::FilterGradientX,     Attribute::FilterGradientY};
  default:
    return {Attribute::ConvolutionOperationAlpha, Attribute::ConvolutionOperationBeta,
            Attribute::ConvolutionOperationMode,  Attribute::ConvolutionOperationW,
            Attribute::ConvolutionOperationX,     Attribute::ConvolutionOperationY};
  }
}

void CudnnGraph::convolve(CudnnKind operationKind, const Window &window, const Tensor &input,
                          const Tensor &filter, const Tensor &output) {
  CudnnDescriptor how = make(CudnnKind::Convolution, "a convolution");
  CudnnType compute = CudnnType::F32;
  CudnnConvolutionMode mode = CudnnConvolutionMode::Correlation;
  int64_t spatial = int64_t(window.strides.size());
  set(how, Attribute::ConvolutionComputeType, Type::DataType, 1, &compute);
  set(how, Attribute::ConvolutionMode, Type::ConvolutionMode, 1, &mode);
  set(how, Attribute::ConvolutionSpatialDims, Type::Int64, 1, &spatial);
  set(how, Attribute::ConvolutionStrides, Type::Int64, spatial, window.strides.data());
  set(how, Attribute::ConvolutionPadsBegin, Type::Int64, spatial, window.padsBegin.data());
  set(how, Attribute::ConvolutionPadsEnd, Type::Int64, spatial, window.padsEnd.data());
  set(how, Attribute::ConvolutionDilations, Type::Int64, spatial, window.dilations.data());
  finalize(how, "a convolution");
  CudnnDescriptor operation = make(operationKind, "a convolution");
  ConvolutionAttributes names = attributesOf(operationKind);
  float one = 1, zero = 0;
  set(operation, names.mode, how);
  set(operation, names.x, input.descriptor);
  set(operation, names.w, filter.descriptor);
  set(operation, names.y, output.descriptor);
  set(operation, names.alpha, Type::Float, 1, &one);
  set(operation, names.beta, Type::Float, 1, &zero);
  finalize(operation, "a convolution");
  all.push_back(operation);
}

void CudnnGraph::matmul(const Tensor &a, const Tensor &b, const Tensor &c) {
  CudnnDescriptor mode = make(CudnnKind::Matmul, "a product");
  CudnnType compute = CudnnType::F32;
  set(mode, Attribute::MatmulComputeType, Type::DataType, 1, &compute);
  finalize(mode, "a product");
  CudnnDescriptor operation = make(CudnnKind::MatmulOperation, "a product");
  set(operation, Attribute::MatmulOperationMode, mode);
  set(operation, Attribute::MatmulOperationA, a.descriptor);
  set(operation, Attribute::MatmulOperationB, b.descriptor);
  set(operation, Attribute::MatmulOperationC, c.descriptor);
  finalize(operation, "a product");
  all.push_back(operation);
}

void CudnnGraph::reduce(CudnnReduction what, const Tensor &x, const Tensor &y) {
  CudnnDescriptor mode = make(CudnnKind::Reduction, "a reduction");
  CudnnType compute = CudnnType::F32;
  set(mode, Attribute::ReductionComputeType, Type::DataType, 1, &compute);
  set(mode, Attribute::ReductionOperator, Type::ReductionOperator, 1, &what);
  finalize(mode, "a reduction");
  CudnnDescriptor operation = make(CudnnKind::ReductionOperation, "a reduction");
  set(operation, Attribute::ReductionOperationMode, mode);
  set(operation, Attribute::ReductionOperationX, x.descriptor);
  set(operation, Attribute::ReductionOperationY, y.descriptor);
  finalize(operation, "a reduction");
  all.push_back(operation);
}

void CudnnGraph::reshape(const Tensor &x, const Tensor &y) {
  CudnnDescriptor operation = make(CudnnKind::ReshapeOperation, "a reshape");
  set(operation, Attribute::ReshapeOperationX, x.descriptor);
  set(operation, Attribute::ReshapeOperationY, y.descriptor);
  finalize(operation, "a reshape");
  all.push_back(operation);
}

CudnnDescriptor CudnnGraph::startPointwise(CudnnPointwise mode, CudnnType compute, int64_t dim) {
  CudnnDescriptor how = make(CudnnKind::Pointwise, "a pointwise operation");
  set(how, Attribute::PointwiseMode, Type::PointwiseMode, 1, &mode);
  set(how, Attribute::PointwiseComputeType, Type::DataType, 1, &compute);
  if (dim >= 0)
    set(how, Attribute::PointwiseAxis, Type::Int64, 1, &dim);
  finalize(how, "a pointwise operation");
  CudnnDescriptor operation = make(CudnnKind::PointwiseOperation, "a pointwise operation");
  set(operation, Attribute::PointwiseOperationMode, how);
  return operation;
}

void CudnnGraph::finishPointwise(CudnnDescriptor operation, const Tensor &x, const Tensor &y) {
  set(operation, Attribute::PointwiseOperationX, x.descriptor);
  set(operation, Attribute::PointwiseOperationY, y.descriptor);
  finalize(operation, "a pointwise operation");
  all.push_back(operation);
}

void CudnnGraph::unary(CudnnPointwise mode, const Tensor &x, const Tensor &y) {
  finishPointwise(startPointwise(mode, CudnnType::F32), x, y);
}

void CudnnGraph::binary(CudnnPointwise mode, const Tensor &x, const Tensor &b, const Tensor &y) {
  bool compares = mode == CudnnPointwise::Greater || mode == CudnnPointwise::GreaterOrEqual;
  CudnnDescriptor operation = startPointwise(mode, compares                   ? CudnnType::Boolean
                                                   : y.type == CudnnType::I32 ? CudnnType::I32
                                                                              : CudnnType::F32);
  set(operation, Attribute::PointwiseOperationB, b.descriptor);
  finishPointwise(operation, x, y);
}

void CudnnGraph::index(int64_t dim, const Tensor &x, const Tensor &y) {
  finishPointwise(startPointwise(CudnnPointwise::Index, CudnnType::F32, dim), x, y);
}

void CudnnGraph::select(const Tensor &x, const Tensor &b, const Tensor &where, const Tensor &y) {
  CudnnDescriptor operation = startPointwise(CudnnPointwise::Select, CudnnType::F32);
  set(operation, Attribute::PointwiseOperationB, b.descriptor);
  set(operation, Attribute::PointwiseOperationT, where.descriptor);
  finishPointwise(operation, x, y);
}

} // namespace autopar::runtime::cuda
