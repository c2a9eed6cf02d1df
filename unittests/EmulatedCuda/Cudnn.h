// SPDX-License-Identifier: Apache-2.0
// Descriptors of the emulated cuDNN, and what runs the graphs that they describe.
#pragma once

#include "../../lib/Runtime/device/cuda/CudnnCalls.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace autopar::runtime::cuda {

struct CudnnContextRecord {
  int device = -1;
  Stream stream = nullptr;
};

struct CudnnDescriptorRecord {
  CudnnKind kind;
  bool isFinal = false;
  struct Value {
    CudnnAttributeType type;
    std::vector<uint8_t> bytes;
  };
  std::map<CudnnAttribute, Value> values;
  size_t number = 0; ///< of an engine configuration among the suggestions

  bool has(CudnnAttribute attribute) const { return values.count(attribute) != 0; }
  template <typename T>
  std::vector<T> list(CudnnAttribute attribute) const {
    const std::vector<uint8_t> &bytes = values.at(attribute).bytes;
    const T *first = reinterpret_cast<const T *>(bytes.data());
    return std::vector<T>(first, first + bytes.size() / sizeof(T));
  }
  template <typename T>
  T one(CudnnAttribute attribute) const {
    return list<T>(attribute).at(0);
  }
};

} // namespace autopar::runtime::cuda

namespace emulated::cudnn {

using autopar::runtime::cuda::CudnnPointwise;
using autopar::runtime::cuda::CudnnReduction;
using autopar::runtime::cuda::CudnnType;

using Dims = std::vector<int64_t>;

struct Tensor {
  int64_t id = 0;
  CudnnType type = CudnnType::F32;
  Dims dims, strides;
  bool isVirtual = false, isByValue = false;

  int64_t count() const;
  /// From the first to the last element.
  int64_t span() const;
};

struct Operation {
  enum class Kind {
    Matmul,
    Pointwise,
    Reduction,
    Reshape,
    Convolution,
    InputGradient,
    FilterGradient
  } kind;
  CudnnPointwise mode = CudnnPointwise::Identity;
  CudnnReduction reduction = CudnnReduction::Add;
  int64_t axis = -1;
  /// How a filter moves; an entry per spatial dimension.
  Dims strides, padsBegin, padsEnd, dilations;
  /// a and b of a product; input and filter of a convolution, gradient of the output and filter, or
  /// input and gradient of the output; x, b and t of others. Identities, -1: there is none.
  int64_t inputs[3] = {-1, -1, -1};
  int64_t output = -1;

  bool convolves() const { return kind >= Kind::Convolution; }
};

struct Graph {
  std::map<int64_t, Tensor> tensors;
  std::vector<Operation> operations;
  bool isCoarse = false; ///< operands of convolutions lose most of their digits

  bool convolves() const { return operations.size() == 1 && operations[0].convolves(); }
  /// Whether a product has an operand in memory with rows of more than `most` elements.
  bool multipliesLongRows(int64_t most) const;
  /// Empty, or why it makes no sense.
  std::string verify() const;
};

int64_t bytesOf(CudnnType type);
/// Where the tensors of the graph that are not virtual lie, by identity.
using Places = std::map<int64_t, uint8_t *>;
void run(const Graph &graph, const Places &places);

/// An attribute that a descriptor may have.
struct Rule {
  autopar::runtime::cuda::CudnnKind kind;
  autopar::runtime::cuda::CudnnAttribute attribute;
  autopar::runtime::cuda::CudnnAttributeType type;
  bool isNeeded = true, isList = false;
};
std::span<const Rule> rules();
/// Null where there is no such attribute.
const Rule *ruleOf(autopar::runtime::cuda::CudnnKind kind,
                   autopar::runtime::cuda::CudnnAttribute attribute);
bool isKnown(autopar::runtime::cuda::CudnnKind kind);
/// The one descriptor that an attribute is.
autopar::runtime::cuda::CudnnDescriptor partOf(autopar::runtime::cuda::CudnnDescriptor whole,
                                               autopar::runtime::cuda::CudnnAttribute attribute);
/// What a graph's descriptors say. Empty, or why it makes no sense.
std::string describe(autopar::runtime::cuda::CudnnDescriptor graph, Graph &described);

/// Elements row-major, whatever the strides are.
using Values = std::vector<float>;

/// Empty, or why the sizes do not fit.
std::string verifyConvolution(const Operation &operation, const Tensor &first, const Tensor &second,
                              const Tensor &result);
/// Adds to `result`, which is dense, as are the others.
void convolve(const Operation &operation, const Tensor &first, const Tensor &second,
              const Tensor &result, const Values &firstValues, const Values &secondValues,
              Values &resultValues);

} // namespace emulated::cudnn
