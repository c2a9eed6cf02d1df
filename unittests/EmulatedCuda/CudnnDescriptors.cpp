// SPDX-License-Identifier: Apache-2.0
// What descriptors of the emulated cuDNN may and must hold, and the graphs that they describe.
#include "Cudnn.h"

#include <algorithm>

namespace emulated::cudnn {

using namespace autopar::runtime::cuda;
using Attribute = CudnnAttribute;
using Type = CudnnAttributeType;
using Kind = CudnnKind;

static const Rule kRules[] = {
    {Kind::Tensor, Attribute::TensorDataType, Type::DataType},
    {Kind::Tensor, Attribute::TensorDims, Type::Int64, true, true},
    {Kind::Tensor, Attribute::TensorStrides, Type::Int64, true, true},
    {Kind::Tensor, Attribute::TensorId, Type::Int64},
    {Kind::Tensor, Attribute::TensorAlignment, Type::Int64},
    {Kind::Tensor, Attribute::TensorIsVirtual, Type::Boolean, false},
    {Kind::Tensor, Attribute::TensorIsByValue, Type::Boolean, false},
    {Kind::Pointwise, Attribute::PointwiseMode, Type::PointwiseMode},
    {Kind::Pointwise, Attribute::PointwiseComputeType, Type::DataType},
    {Kind::Pointwise, Attribute::PointwiseAxis, Type::Int64, false},
    {Kind::PointwiseOperation, Attribute::PointwiseOperationMode, Type::Descriptor},
    {Kind::PointwiseOperation, Attribute::PointwiseOperationX, Type::Descriptor},
    {Kind::PointwiseOperation, Attribute::PointwiseOperationB, Type::Descriptor, false},
    {Kind::PointwiseOperation, Attribute::PointwiseOperationT, Type::Descriptor, false},
    {Kind::PointwiseOperation, Attribute::PointwiseOperationY, Type::Descriptor},
    {Kind::Convolution, Attribute::ConvolutionComputeType, Type::DataType},
    {Kind::Convolution, Attribute::ConvolutionMode, Type::ConvolutionMode},
    {Kind::Convolution, Attribute::ConvolutionDilations, Type::Int64, true, true},
    {Kind::Convolution, Attribute::ConvolutionStrides, Type::Int64, true, true},
    {Kind::Convolution, Attribute::ConvolutionPadsBegin, Type::Int64, true, true},
    {Kind::Convolution, Attribute::ConvolutionPadsEnd, Type::Int64, true, true},
    {Kind::Convolution, Attribute::ConvolutionSpatialDims, Type::Int64},
    {Kind::ConvolutionOperation, Attribute::ConvolutionOperationAlpha, Type::Float},
    {Kind::ConvolutionOperation, Attribute::ConvolutionOperationBeta, Type::Float},
    {Kind::ConvolutionOperation, Attribute::ConvolutionOperationMode, Type::Descriptor},
    {Kind::ConvolutionOperation, Attribute::ConvolutionOperationW, Type::Descriptor},
    {Kind::ConvolutionOperation, Attribute::ConvolutionOperationX, Type::Descriptor},
    {Kind::ConvolutionOperation, Attribute::ConvolutionOperationY, Type::Descriptor},
    {Kind::InputGradientOperation, Attribute::InputGradientAlpha, Type::Float},
    {Kind::InputGradientOperation, Attribute::InputGradientBeta, Type::Float},
    {Kind::InputGradientOperation, Attribute::InputGradientMode, Type::Descriptor},
    {Kind::InputGradientOperation, Attribute::InputGradientW, Type::Descriptor},
    {Kind::InputGradientOperation, Attribute::InputGradientX, Type::Descriptor},
    {Kind::InputGradientOperation, Attribute::InputGradientY, Type::Descriptor},
    {Kind::FilterGradientOperation, Attribute::FilterGradientAlpha, Type::Float},
    {Kind::FilterGradientOperation, Attribute::FilterGradientBeta, Type::Float},
    {Kind::FilterGradientOperation, Attribute::FilterGradientMode, Type::Descriptor},
    {Kind::FilterGradientOperation, Attribute::FilterGradientW, Type::Descriptor},
    {Kind::FilterGradientOperation, Attribute::FilterGradientX, Type::Descriptor},
    {Kind::FilterGradientOperation, Attribute::FilterGradientY, Type::Descriptor},
    {Kind::Matmul, Attribute::MatmulComputeType, Type::DataType},
    {Kind::MatmulOperation, Attribute::MatmulOperationMode, Type::Descriptor},
    {Kind::MatmulOperation, Attribute::MatmulOperationA, Type::Descriptor},
    {Kind::MatmulOperation, Attribute::MatmulOperationB, Type::Descriptor},
    {Kind::MatmulOperation, Attribute::MatmulOperationC, Type::Descriptor},
    {Kind::Reduction, Attribute::ReductionComputeType, Type::DataType},
    {Kind::Reduction, Attribute::ReductionOperator, Type::ReductionOperator},
    {Kind::ReductionOperation, Attribute::ReductionOperationMode, Type::Descriptor},
    {Kind::ReductionOperation, Attribute::ReductionOperationX, Type::Descriptor},
    {Kind::ReductionOperation, Attribute::ReductionOperationY, Type::Descriptor},
    {Kind::ReshapeOperation, Attribute::ReshapeOperationX, Type::Descriptor},
    {Kind::ReshapeOperation, Attribute::ReshapeOperationY, Type::Descriptor},
    {Kind::Graph, Attribute::GraphHandle, Type::Handle},
    {Kind::Graph, Attribute::GraphOperations, Type::Descriptor, true, true},
    {Kind::Heuristic, Attribute::HeuristicGraph, Type::Descriptor},
    {Kind::Heuristic, Attribute::HeuristicMode, Type::HeuristicMode},
    {Kind::Plan, Attribute::PlanHandle, Type::Handle},
    {Kind::Plan, Attribute::PlanEngineConfig, Type::Descriptor},
    {Kind::VariantPack, Attribute::PackIds, Type::Int64, true, true},
    {Kind::VariantPack, Attribute::PackPointers, Type::Pointer, true, true},
    {Kind::VariantPack, Attribute::PackWorkspace, Type::Pointer},
};

std::span<const Rule> rules() { return kRules; }

const Rule *ruleOf(Kind kind, Attribute attribute) {
  for (const Rule &rule : kRules)
    if (rule.kind == kind && rule.attribute == attribute)
      return &rule;
  return nullptr;
}

bool isKnown(Kind kind) {
  return kind == Kind::EngineConfig || kind == Kind::Engine ||
         std::any_of(std::begin(kRules), std::end(kRules),
                     [&](const Rule &rule) { return rule.kind == kind; });
}

CudnnDescriptor partOf(CudnnDescriptor whole, Attribute attribute) {
  return whole->one<CudnnDescriptor>(attribute);
}

static std::string describeWindow(CudnnDescriptor convolution, Operation &operation) {
  operation.strides = convolution->list<int64_t>(Attribute::ConvolutionStrides);
  operation.padsBegin = convolution->list<int64_t>(Attribute::ConvolutionPadsBegin);
  operation.padsEnd = convolution->list<int64_t>(Attribute::ConvolutionPadsEnd);
  operation.dilations = convolution->list<int64_t>(Attribute::ConvolutionDilations);
  bool isKnown = convolution->one<CudnnConvolutionMode>(Attribute::ConvolutionMode) ==
                     CudnnConvolutionMode::Correlation &&
                 convolution->one<int64_t>(Attribute::ConvolutionSpatialDims) ==
                     int64_t(operation.strides.size());
  return isKnown ? "" : "a convolution of a mode or with dims that its kernels do not know";
}

/// What a graph's descriptors say.
std::string describe(CudnnDescriptor graph, Graph &described) {
  std::string why;
  auto tensorOf = [&](CudnnDescriptor operation, Attribute attribute) -> int64_t {
    if (!operation->has(attribute))
      return -1;
    CudnnDescriptor d = partOf(operation, attribute);
    auto flag = [&](Attribute name) { return d->has(name) && d->one<bool>(name); };
    Tensor tensor{
        d->one<int64_t>(Attribute::TensorId),    d->one<CudnnType>(Attribute::TensorDataType),
        d->list<int64_t>(Attribute::TensorDims), d->list<int64_t>(Attribute::TensorStrides),
        flag(Attribute::TensorIsVirtual),        flag(Attribute::TensorIsByValue)};
    auto [found, isNew] = described.tensors.try_emplace(tensor.id, tensor);
    if (!isNew && (found->second.dims != tensor.dims || found->second.strides != tensor.strides ||
                   found->second.type != tensor.type))
      why = "two tensors of one identity";
    return tensor.id;
  };
  for (CudnnDescriptor d : graph->list<CudnnDescriptor>(Attribute::GraphOperations)) {
    Operation operation{};
    switch (d->kind) {
    case Kind::MatmulOperation:
      operation.kind = Operation::Kind::Matmul;
      operation.inputs[0] = tensorOf(d, Attribute::MatmulOperationA);
      operation.inputs[1] = tensorOf(d, Attribute::MatmulOperationB);
      operation.output = tensorOf(d, Attribute::MatmulOperationC);
      break;
    case Kind::PointwiseOperation: {
      CudnnDescriptor mode = partOf(d, Attribute::PointwiseOperationMode);
      operation.kind = Operation::Kind::Pointwise;
      operation.mode = mode->one<CudnnPointwise>(Attribute::PointwiseMode);
      if (mode->has(Attribute::PointwiseAxis))
        operation.axis = mode->one<int64_t>(Attribute::PointwiseAxis);
      operation.inputs[0] = tensorOf(d, Attribute::PointwiseOperationX);
      operation.inputs[1] = tensorOf(d, Attribute::PointwiseOperationB);
      operation.inputs[2] = tensorOf(d, Attribute::PointwiseOperationT);
      operation.output = tensorOf(d, Attribute::PointwiseOperationY);
      break;
    }
    case Kind::ReductionOperation:
      operation.kind = Operation::Kind::Reduction;
      operation.reduction = partOf(d, Attribute::ReductionOperationMode)
                                ->one<CudnnReduction>(Attribute::ReductionOperator);
      operation.inputs[0] = tensorOf(d, Attribute::ReductionOperationX);
      operation.output = tensorOf(d, Attribute::ReductionOperationY);
      break;
    case Kind::ReshapeOperation:
      operation.kind = Operation::Kind::Reshape;
      operation.inputs[0] = tensorOf(d, Attribute::ReshapeOperationX);
      operation.output = tensorOf(d, Attribute::ReshapeOperationY);
      break;
    case Kind::ConvolutionOperation:
      operation.kind = Operation::Kind::Convolution;
      why = describeWindow(partOf(d, Attribute::ConvolutionOperationMode), operation);
      operation.inputs[0] = tensorOf(d, Attribute::ConvolutionOperationX);
      operation.inputs[1] = tensorOf(d, Attribute::ConvolutionOperationW);
      operation.output = tensorOf(d, Attribute::ConvolutionOperationY);
      break;
    case Kind::InputGradientOperation:
      operation.kind = Operation::Kind::InputGradient;
      why = describeWindow(partOf(d, Attribute::InputGradientMode), operation);
      operation.inputs[0] = tensorOf(d, Attribute::InputGradientY);
      operation.inputs[1] = tensorOf(d, Attribute::InputGradientW);
      operation.output = tensorOf(d, Attribute::InputGradientX);
      break;
    case Kind::FilterGradientOperation:
      operation.kind = Operation::Kind::FilterGradient;
      why = describeWindow(partOf(d, Attribute::FilterGradientMode), operation);
      operation.inputs[0] = tensorOf(d, Attribute::FilterGradientX);
      operation.inputs[1] = tensorOf(d, Attribute::FilterGradientY);
      operation.output = tensorOf(d, Attribute::FilterGradientW);
      break;
    default:
      return "an operation that is none";
    }
    described.operations.push_back(operation);
  }
  return why.empty() ? described.verify() : why;
}

} // namespace emulated::cudnn
