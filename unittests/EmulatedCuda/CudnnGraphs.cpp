// SPDX-License-Identifier: Apache-2.0
// Graphs of cuDNN's operations by definition: one operation after the other, in f32, rounded where
// a tensor is narrower.
#include "Cudnn.h"
#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace emulated::cudnn {
namespace {

void advance(Dims &index, const Dims &dims) {
  for (size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d])
      return;
    index[d] = 0;
  }
}

int64_t offsetOf(const Dims &index, const Dims &strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d)
    offset += index[d] * strides[d];
  return offset;
}

float load(CudnnType type, const uint8_t *at) {
  uint16_t brief;
  float wide;
  int32_t whole;
  switch (type) {
  case CudnnType::F16:
    std::memcpy(&brief, at, 2);
    return float(double(Half{brief}));
  case CudnnType::BF16:
    std::memcpy(&brief, at, 2);
    return float(double(BFloat{brief}));
  case CudnnType::I32:
    std::memcpy(&whole, at, 4);
    return float(whole);
  case CudnnType::Boolean:
    return float(*at);
  default:
    std::memcpy(&wide, at, 4);
    return wide;
  }
}

void store(CudnnType type, uint8_t *at, float value) {
  if (type == CudnnType::F32)
    std::memcpy(at, &value, 4);
  else {
    uint16_t brief = type == CudnnType::F16 ? Half::of(double(value)).bits : BFloat::of(value).bits;
    std::memcpy(at, &brief, 2);
  }
}

void round(CudnnType type, Values &values) {
  for (float &value : values)
    if (type == CudnnType::F16)
      value = float(double(Half::of(double(value))));
    else if (type == CudnnType::BF16)
      value = float(double(BFloat::of(value)));
}

/// Visits the elements of x with the place of each in `other`, whose dims divide those of x:
/// neighbours of x share a place.
template <typename F>
void withShared(const Dims &x, const Dims &other, F visit) {
  Dims strides(other.size(), 1), index(x.size()), place(x.size());
  for (size_t d = other.size() - 1; d-- > 0;)
    strides[d] = strides[d + 1] * other[d + 1];
  int64_t count = 1;
  for (int64_t dim : x)
    count *= dim;
  for (int64_t i = 0; i < count; ++i) {
    for (size_t d = 0; d < x.size(); ++d)
      place[d] = index[d] / (x[d] / other[d]);
    visit(size_t(i), size_t(offsetOf(place, strides)), index);
    advance(index, x);
  }
}

float pointwise(CudnnPointwise mode, float x, float b, float t) {
  switch (mode) {
  case CudnnPointwise::Add:
    return x + b;
  case CudnnPointwise::Mul:
    return x * b;
  case CudnnPointwise::Div:
    return x / b;
  case CudnnPointwise::Sub:
    return x - b;
  case CudnnPointwise::Exp:
    return std::exp(x);
  case CudnnPointwise::Log:
    return std::log(x);
  case CudnnPointwise::Greater:
    return x > b ? 1.0f : 0.0f;
  case CudnnPointwise::GreaterOrEqual:
    return x >= b ? 1.0f : 0.0f;
  case CudnnPointwise::Select:
    return t != 0 ? x : b;
  default:
    return x;
  }
}

class Run {
public:
  Run(const Graph &graph, const Places &places) : graph(graph), places(places) {}

  void operator()() {
    for (const Operation &operation : graph.operations) {
      const Tensor &y = graph.tensors.at(operation.output);
      Values result(size_t(y.count()));
      switch (operation.kind) {
      case Operation::Kind::Matmul:
        multiply(operation, y, result);
        break;
      case Operation::Kind::Pointwise:
        apply(operation, y, result);
        break;
      case Operation::Kind::Reduction:
        reduce(operation, y, result);
        break;
      case Operation::Kind::Reshape:
        reshape(operation, y, result);
        break;
      case Operation::Kind::Convolution:
      case Operation::Kind::InputGradient:
      case Operation::Kind::FilterGradient:
        convolve(operation, y, result);
        break;
      }
      write(y, std::move(result));
    }
  }

private:
  const Graph &graph;
  const Places &places;
  std::map<int64_t, Values> known;

  const Values &read(int64_t id) {
    auto [found, isNew] = known.try_emplace(id);
    if (!isNew)
      return found->second;
    const Tensor &x = graph.tensors.at(id);
    Values &values = found->second;
    values.resize(size_t(x.count()));
    Dims index(x.dims.size());
    for (float &value : values) {
      value = load(x.type, places.at(id) + offsetOf(index, x.strides) * bytesOf(x.type));
      advance(index, x.dims);
    }
    return values;
  }

  void write(const Tensor &y, Values values) {
    round(y.type, values);
    if (!y.isVirtual) {
      Dims index(y.dims.size());
      for (float value : values) {
        store(y.type, places.at(y.id) + offsetOf(index, y.strides) * bytesOf(y.type), value);
        advance(index, y.dims);
      }
    }
    known[y.id] = std::move(values);
  }

  void multiply(const Operation &operation, const Tensor &c, Values &result) {
    const Tensor &a = graph.tensors.at(operation.inputs[0]),
                 &b = graph.tensors.at(operation.inputs[1]);
    const Values &left = read(a.id), &right = read(b.id);
    size_t m = size_t(c.dims[2]), n = size_t(c.dims[3]), k = size_t(a.dims[3]);
    auto matrixOf = [&](const Tensor &x, int64_t batch, int64_t head) {
      return size_t(batch / (c.dims[0] / x.dims[0]) * x.dims[1] + head / (c.dims[1] / x.dims[1]));
    };
    for (int64_t batch = 0; batch < c.dims[0]; ++batch)
      for (int64_t head = 0; head < c.dims[1]; ++head) {
        const float *from = left.data() + matrixOf(a, batch, head) * m * k,
                    *by = right.data() + matrixOf(b, batch, head) * k * n;
        float *to = result.data() + matrixOf(c, batch, head) * m * n;
        for (size_t i = 0; i < m; ++i)
          for (size_t j = 0; j < k; ++j)
            for (size_t l = 0; l < n; ++l)
              to[i * n + l] += from[i * k + j] * by[j * n + l];
      }
  }

  void apply(const Operation &operation, const Tensor &y, Values &result) {
    if (operation.mode == CudnnPointwise::Index)
      return withShared(y.dims, y.dims, [&](size_t i, size_t, const Dims &index) {
        result[i] = float(index[size_t(operation.axis)]);
      });
    Values operands[3];
    for (size_t number = 0; number < 3; ++number)
      if (operation.inputs[number] >= 0) {
        const Tensor &x = graph.tensors.at(operation.inputs[number]);
        const Values &values = read(x.id);
        operands[number].resize(result.size());
        withShared(y.dims, x.dims,
                   [&](size_t i, size_t at, const Dims &) { operands[number][i] = values[at]; });
      } else {
        operands[number].resize(result.size());
      }
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = pointwise(operation.mode, operands[0][i], operands[1][i], operands[2][i]);
  }

  void reduce(const Operation &operation, const Tensor &y, Values &result) {
    const Tensor &x = graph.tensors.at(operation.inputs[0]);
    const Values &values = read(x.id);
    bool adds = operation.reduction == CudnnReduction::Add;
    std::fill(result.begin(), result.end(), adds ? 0 : -std::numeric_limits<float>::infinity());
    withShared(x.dims, y.dims, [&](size_t i, size_t at, const Dims &) {
      result[at] = adds ? result[at] + values[i] : std::max(result[at], values[i]);
    });
  }

  void convolve(const Operation &operation, const Tensor &y, Values &result) {
    const Tensor &first = graph.tensors.at(operation.inputs[0]),
                 &second = graph.tensors.at(operation.inputs[1]);
    Values a = read(first.id), b = read(second.id);
    for (Values *values : {&a, &b})
      for (float &value : *values)
        value = graph.isCoarse ? bitCast<float>(bitCast<uint32_t>(value) & 0xfff80000u) : value;
    cudnn::convolve(operation, first, second, y, a, b, result);
  }

  /// The same memory with other dims.
  void reshape(const Operation &operation, const Tensor &y, Values &result) {
    const Tensor &x = graph.tensors.at(operation.inputs[0]);
    const Values &values = read(x.id);
    Values memory(size_t(x.span()));
    Dims index(x.dims.size());
    for (float value : values) {
      memory[size_t(offsetOf(index, x.strides))] = value;
      advance(index, x.dims);
    }
    index.assign(y.dims.size(), 0);
    for (float &value : result) {
      value = memory[size_t(offsetOf(index, y.strides))];
      advance(index, y.dims);
    }
  }
};

/// Whether each dim of `other` divides that of x.
bool divides(const Tensor &other, const Tensor &x) {
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (x.dims[d] % other.dims[d] != 0)
      return false;
  return true;
}

/// Whether the dims of `other` are those of x or 1.
bool spreads(const Tensor &other, const Tensor &x) {
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (other.dims[d] != x.dims[d] && other.dims[d] != 1)
      return false;
  return true;
}

std::string verify(const Operation &operation, const Tensor *inputs[3], const Tensor &y) {
  const Tensor *x = inputs[0], *b = inputs[1];
  if (y.isByValue)
    return "a result that lies with the host";
  if (operation.convolves())
    return verifyConvolution(operation, *x, *b, y);
  for (const Tensor *tensor : {x, b, inputs[2], &y})
    if (tensor && tensor->dims.size() != 4)
      return "a tensor without 4 dims";
  switch (operation.kind) {
  case Operation::Kind::Matmul:
    if (x->dims[3] != b->dims[2] || x->dims[2] != y.dims[2] || b->dims[3] != y.dims[3])
      return "sizes of a product do not fit";
    for (size_t d = 0; d < 2; ++d)
      if (y.dims[d] % x->dims[d] != 0 || y.dims[d] % b->dims[d] != 0)
        return "batches of a product do not fit";
    return "";
  case Operation::Kind::Pointwise:
    if (operation.mode == CudnnPointwise::Index &&
        (operation.axis < 0 || operation.axis >= 4 || y.type != CudnnType::I32))
      return "an index along no dimension, or not an integer";
    for (size_t number = 0; number < 3; ++number)
      if (inputs[number] && !spreads(*inputs[number], y))
        return "sizes of a pointwise operation do not fit";
    if ((operation.mode == CudnnPointwise::Greater ||
         operation.mode == CudnnPointwise::GreaterOrEqual) != (y.type == CudnnType::Boolean))
      return "a comparison that is not a boolean";
    if (operation.mode == CudnnPointwise::Select && inputs[2]->type != CudnnType::Boolean)
      return "a choice by no boolean";
    return "";
  case Operation::Kind::Reduction:
    return divides(y, *x) ? "" : "sizes of a reduction do not fit";
  case Operation::Kind::Reshape:
    return y.count() == x->count() && y.span() == x->span() ? "" : "a reshape of another size";
  default:
    return "an operation that is none";
  }
}

} // namespace

bool Graph::multipliesLongRows(int64_t most) const {
  for (const Operation &operation : operations)
    for (int64_t id : operation.inputs)
      if (operation.kind == Operation::Kind::Matmul && id >= 0)
        if (const Tensor &tensor = tensors.at(id);
            !tensor.isVirtual && tensor.strides[3] == 1 && tensor.dims[3] > most)
          return true;
  return false;
}

int64_t bytesOf(CudnnType type) {
  return type == CudnnType::F16 || type == CudnnType::BF16 ? 2 : type == CudnnType::Boolean ? 1 : 4;
}

int64_t Tensor::count() const {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

int64_t Tensor::span() const {
  int64_t last = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    last += (dims[d] - 1) * strides[d];
  return last + 1;
}

std::string Graph::verify() const {
  std::map<int64_t, bool> isWritten;
  for (const Operation &operation : operations) {
    const Tensor *inputs[3] = {};
    for (size_t number = 0; number < 3; ++number)
      if (int64_t id = operation.inputs[number]; id >= 0) {
        inputs[number] = &tensors.at(id);
        if (inputs[number]->isVirtual && !isWritten[id])
          return "a tensor is read that no operation before has written";
      }
    const Tensor &y = tensors.at(operation.output);
    if (std::string why = cudnn::verify(operation, inputs, y); !why.empty())
      return why;
    if (std::exchange(isWritten[operation.output], true))
      return "a tensor is written twice";
  }
  return operations.empty() ? "a graph without operations" : "";
}

void run(const Graph &graph, const Places &places) { Run(graph, places)(); }

} // namespace emulated::cudnn
