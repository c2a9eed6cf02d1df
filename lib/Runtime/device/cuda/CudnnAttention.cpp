// SPDX-License-Identifier: Apache-2.0
// See the header. Sums of exponentials are kept as the artifact has them: the logarithm of the sum
// of each row, f32 [B, H, S].
#include "CudnnAttention.h"

#include "autopar/Artifact/CudaScratch.h"
#include "autopar/Artifact/Verify.h"

#include <limits>

namespace autopar::runtime::cuda {

using artifact::AttentionGeometry;
using Dims = CudnnGraph::Dims;
using Pointwise = CudnnPointwise;

namespace {

CudnnType typeOf(DataType type) {
  return type == DataType::F32   ? CudnnType::F32
         : type == DataType::F16 ? CudnnType::F16
                                 : CudnnType::BF16;
}

constexpr float kHidden = -std::numeric_limits<float>::infinity(), kOne = 1;

Status refuse(const std::string &why) {
  return Status::mismatch("cuDNN has no such attention: " + why +
                          "; compile the model with --attention products");
}

/// Whether a bias differs by sample or head and repeats its rows. Of such a one cuDNN's gradients
/// (9.19 on an H200) read only the first column.
bool repeatsRowsOfParts(const artifact::StridedShape &bias) {
  auto differs = [&](size_t dim) { return bias.dims[dim] > 1 && bias.strides[dim] != 0; };
  return (differs(0) || differs(1)) && bias.dims[2] > 1 && !differs(2);
}

/// What the library's kernels take; other things do not get here, they are products.
Status verify(const CudnnCalls &calls, const AttentionGeometry &g) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(g));
  if (g.type != DataType::BF16 && g.type != DataType::F16)
    return refuse("of " + std::string(name(g.type)));
  int64_t queries = g.operands[0].dims[2], keys = g.operands[1].dims[2];
  if (g.hasBias() && g.biasType != DataType::F32 && g.biasType != g.type)
    return refuse("with a bias of " + std::string(name(g.biasType)));
  if (g.hasBias() && g.causal && queries != keys)
    return refuse("with a bias beside a causal mask over " + std::to_string(queries) + " x " +
                  std::to_string(keys) + " scores");
  if (g.hasBias() && g.window > 0)
    return refuse("with a bias beside a window of " + std::to_string(g.window) + " keys");
  if (g.isGradient() && g.hasBias() && repeatsRowsOfParts(g.bias))
    return refuse("the gradient with a bias that differs by sample or head and repeats its rows");
  if (g.causal && queries > keys)
    return refuse("a causal mask over " + std::to_string(queries) + " x " + std::to_string(keys) +
                  " scores, which leaves rows without a key");
  for (const artifact::StridedShape &operand : g.operands)
    for (size_t dim = 0; dim < 4; ++dim)
      if (dim == 3 ? operand.dims[dim] % 8 != 0
                   : operand.dims[dim] > 1 &&
                         (operand.strides[dim] % 8 != 0 || operand.strides[dim] == 0))
        return refuse("rows that do not start at multiples of 16 bytes");
  if (g.isGradient() && keys % kCudnnKeyBlock != 0 && calls.version < kCudnnForAnyKeys)
    return refuse("the gradient with " + std::to_string(keys) + " keys, no multiple of " +
                  std::to_string(kCudnnKeyBlock) + ", needs cuDNN 9.16 or newer");
  return Status::ok();
}

/// With the keys that some row sees: those of a triangle that ends with the last row.
AttentionGeometry withSeenKeys(AttentionGeometry g) {
  for (size_t operand : {1, 2, 6, 7})
    if (operand < g.operands.size())
      g.operands[operand].dims[2] -= g.hiddenKeys;
  if (g.hasBias())
    g.bias.dims[3] -= g.hiddenKeys;
  g.hiddenKeys = 0;
  return g;
}

} // namespace

CudnnAttentionGraph::CudnnAttentionGraph(const CudnnCalls &calls, const AttentionGeometry &geometry)
    : g(geometry), described(calls), type(typeOf(g.type)), batch(g.operands[0].dims[0]),
      heads(g.operands[0].dims[1]), groups(g.operands[1].dims[1]), queries(g.operands[0].dims[2]),
      keys(g.operands[1].dims[2]), depth(g.operands[0].dims[3]),
      valueDepth(g.operands[2].dims[3]), scoreDims{batch, heads, queries, keys}, rowDims{batch,
                                                                                         heads,
                                                                                         queries,
                                                                                         1},
      scale(number(Place::Scale)) {
  if (g.isGradient())
    backward();
  else
    forward();
}

CudnnGraph::Tensor CudnnAttentionGraph::operand(size_t number, Place place, size_t at,
                                                bool isTransposed) {
  Dims dims = g.operands[number].dims, strides = g.operands[number].strides;
  // Along a dimension of one element the artifact may say anything.
  for (size_t dim = 3; dim-- > 0;)
    if (dims[dim] == 1)
      strides[dim] = strides[dim + 1] * dims[dim + 1];
  if (isTransposed) {
    std::swap(dims[2], dims[3]);
    std::swap(strides[2], strides[3]);
  }
  Tensor tensor = described.stored(type, dims, strides);
  all.push_back({tensor.id, place, at});
  return tensor;
}

CudnnGraph::Tensor CudnnAttentionGraph::rows(Place place, size_t at) {
  Tensor tensor = described.stored(CudnnType::F32, rowDims, CudnnGraph::dense(rowDims));
  all.push_back({tensor.id, place, at});
  return tensor;
}

CudnnGraph::Tensor CudnnAttentionGraph::number(Place place, CudnnType numberType) {
  Tensor tensor = described.scalar(numberType);
  all.push_back({tensor.id, place, 0});
  return tensor;
}

CudnnGraph::Tensor CudnnAttentionGraph::scaled(const Tensor &x) {
  Tensor y = described.passed(CudnnType::F32, scoreDims);
  described.binary(Pointwise::Mul, x, scale, y);
  return y;
}

CudnnGraph::Tensor CudnnAttentionGraph::biased(const Tensor &x, size_t at) {
  if (!g.hasBias())
    return x;
  Dims dims = g.bias.dims, strides = g.bias.strides;
  for (size_t dim = 4; dim-- > 0;)
    if (dims[dim] == 1 || strides[dim] == 0) { // repeated, or of one element
      dims[dim] = 1;
      strides[dim] = dim == 3 ? 1 : strides[dim + 1] * dims[dim + 1];
    }
  Tensor bias = described.stored(typeOf(g.biasType), dims, strides),
         y = described.passed(CudnnType::F32, scoreDims);
  all.push_back({bias.id, Place::Input, at});
  described.binary(Pointwise::Add, x, bias, y);
  return y;
}

CudnnGraph::Tensor CudnnAttentionGraph::hidden(const Tensor &x) {
  if (!g.causal)
    return x;
  Tensor row = described.passed(CudnnType::I32, scoreDims),
         column = described.passed(CudnnType::I32, scoreDims),
         isSeen = described.passed(CudnnType::Boolean, scoreDims),
         y = described.passed(CudnnType::F32, scoreDims);
  described.index(2, x, row);
  described.index(3, x, column);
  // The last row sees all keys.
  if (queries != keys) {
    Tensor more = described.passed(CudnnType::I32, scoreDims),
           last = described.passed(CudnnType::I32, scoreDims);
    described.binary(Pointwise::Add, row, number(Place::Keys, CudnnType::I32), more);
    described.binary(Pointwise::Sub, more, number(Place::Queries, CudnnType::I32), last);
    row = last;
  }
  described.binary(Pointwise::GreaterOrEqual, row, column, isSeen);
  described.select(x, number(Place::Hidden), isSeen, y);
  return g.window > 0 ? hiddenBefore(y) : y;
}

CudnnGraph::Tensor CudnnAttentionGraph::hiddenBefore(const Tensor &x) {
  Tensor row = described.passed(CudnnType::I32, scoreDims),
         column = described.passed(CudnnType::I32, scoreDims),
         reached = described.passed(CudnnType::F32, scoreDims),
         isNear = described.passed(CudnnType::Boolean, scoreDims),
         y = described.passed(CudnnType::F32, scoreDims);
  described.index(2, x, row);
  described.index(3, x, column);
  described.binary(Pointwise::Add, column, number(Place::Window), reached);
  described.binary(Pointwise::Greater, reached, row, isNear);
  described.select(x, number(Place::Hidden), isNear, y);
  return y;
}

void CudnnAttentionGraph::forward() {
  Tensor query = operand(0, Place::Input, 0), keyAcross = operand(1, Place::Input, 1, true),
         value = operand(2, Place::Input, 2), output = operand(3, Place::Output, 0),
         logSum = rows(Place::Output, 1);
  Tensor scores = described.passed(CudnnType::F32, scoreDims),
         shifted = described.passed(CudnnType::F32, scoreDims),
         powers = described.passed(CudnnType::F32, scoreDims),
         weights = described.passed(type, scoreDims);
  Tensor largest = described.passed(CudnnType::F32, rowDims),
         sum = described.passed(CudnnType::F32, rowDims),
         logarithm = described.passed(CudnnType::F32, rowDims);
  described.matmul(query, keyAcross, scores);
  Tensor seen = hidden(biased(scaled(scores), 3));
  described.reduce(CudnnReduction::Max, seen, largest);
  described.binary(Pointwise::Sub, seen, largest, shifted);
  described.unary(Pointwise::Exp, shifted, powers);
  described.reduce(CudnnReduction::Add, powers, sum);
  described.unary(Pointwise::Log, sum, logarithm);
  described.binary(Pointwise::Add, largest, logarithm, logSum);
  described.binary(Pointwise::Div, powers, sum, weights);
  described.matmul(weights, value, output);
}

void CudnnAttentionGraph::productForGroups(const Tensor &weights, const Tensor &rowsOfQueries,
                                           const Tensor &result) {
  Tensor across = described.passed(type, {batch, heads, keys, queries},
                                   {heads * queries * keys, queries * keys, 1, keys});
  described.reshape(weights, across);
  if (heads == groups)
    return described.matmul(across, rowsOfQueries, result);
  Tensor each = described.passed(type, {batch, heads, keys, result.dims[3]});
  described.matmul(across, rowsOfQueries, each);
  described.reduce(CudnnReduction::Add, each, result);
}

void CudnnAttentionGraph::backward() {
  Tensor query = operand(0, Place::Input, 0), keyAcross = operand(1, Place::Input, 1, true),
         valueAcross = operand(2, Place::Input, 2, true), output = operand(3, Place::Input, 3),
         logSum = rows(Place::Input, 4), gradient = operand(4, Place::Input, 5),
         queryGradient = operand(5, Place::Output, 0), keyGradient = operand(6, Place::Output, 1),
         valueGradient = operand(7, Place::Output, 2);
  Dims outputDims = output.dims;
  auto inRows = [&] { return described.passed(CudnnType::F32, scoreDims); };

  // sum(dO * O) of each row, kept in memory.
  Tensor both = described.passed(CudnnType::F32, outputDims),
         sum = described.passed(CudnnType::F32, rowDims), rowSums = rows(Place::RowSums, 0);
  described.binary(Pointwise::Mul, gradient, output, both);
  described.reduce(CudnnReduction::Add, both, sum);
  described.binary(Pointwise::Mul, sum, number(Place::One), rowSums);

  // The weights of the forward pass, and the values' gradient.
  Tensor scores = inRows(), shifted = inRows(), weights = inRows();
  described.matmul(query, keyAcross, scores);
  described.binary(Pointwise::Sub, biased(scaled(scores), 6), logSum, shifted);
  described.unary(Pointwise::Exp, hidden(shifted), weights);
  productForGroups(weights, gradient, valueGradient);

  // The gradient of the scores, and from it those of keys and queries.
  Tensor ofWeights = inRows(), centered = inRows(), ofScores = inRows();
  described.matmul(gradient, valueAcross, ofWeights);
  described.binary(Pointwise::Sub, ofWeights, rowSums, centered);
  described.binary(Pointwise::Mul, centered, weights, ofScores);
  Tensor ofProducts = scaled(ofScores);
  productForGroups(ofProducts, query, keyGradient);

  Tensor key = described.passed(
      CudnnType::F32, {keyAcross.dims[0], keyAcross.dims[1], keyAcross.dims[3], keyAcross.dims[2]},
      {keyAcross.strides[0], keyAcross.strides[1], keyAcross.strides[3], keyAcross.strides[2]});
  described.reshape(keyAcross, key);
  Dims queryDims = query.dims;
  Tensor summed = described.stored(CudnnType::F32, queryDims, CudnnGraph::dense(queryDims));
  all.push_back({summed.id, Place::QueryGradient, 0});
  described.matmul(ofProducts, key, summed);
  described.unary(Pointwise::Identity, summed, queryGradient);
}

Result<std::unique_ptr<CudnnAttention>> CudnnAttention::create(const Gpu &gpu,
                                                               const CudnnCalls &calls,
                                                               CudnnHandle handle,
                                                               const AttentionGeometry &whole) {
  AttentionGeometry g = withSeenKeys(whole);
  AUTOPAR_RETURN_IF_ERROR(verify(calls, g));
  std::unique_ptr<CudnnAttention> attention(new CudnnAttention(gpu));
  attention->findHiddenRows(whole);
  CudnnAttentionGraph graph(calls, g);
  auto plan = CudnnPlan::create(calls, handle, std::move(graph.graph()));
  if (!plan)
    return plan.status().code() == StatusCode::Mismatch ? refuse(plan.status().message())
                                                        : plan.status();
  attention->plan = plan.take();
  attention->addresses = graph.addresses();
  for (const CudnnAttentionGraph::Address &address : attention->addresses)
    attention->ids.push_back(address.id);
  attention->own = artifact::cudaGradientSums(g);
  attention->scale = g.scale;
  attention->queries = int32_t(g.operands[0].dims[2]);
  attention->keys = int32_t(g.operands[1].dims[2]);
  attention->window = float(g.window - attention->keys + attention->queries);
  return attention;
}

void CudnnAttention::findHiddenRows(const AttentionGeometry &g) {
  if (!g.isGradient() || g.hiddenKeys == 0)
    return;
  int64_t bytes = byteSize(g.type);
  for (size_t output : {1, 2}) {
    const auto &dims = g.operands[5 + output].dims, &strides = g.operands[5 + output].strides;
    for (int64_t batch = 0; batch < dims[0]; ++batch)
      for (int64_t group = 0; group < dims[1]; ++group)
        hiddenRows.push_back(
            {output,
             (batch * strides[0] + group * strides[1] + (dims[2] - g.hiddenKeys) * strides[2]) *
                 bytes,
             strides[2] * bytes, dims[3] * bytes, g.hiddenKeys});
  }
}

Status CudnnAttention::run(const std::vector<DevicePointer> &inputs,
                           const std::vector<DevicePointer> &outputs, DevicePointer workspace,
                           Stream stream) const {
  for (const HiddenRows &rows : hiddenRows)
    AUTOPAR_RETURN_IF_ERROR(
        gpu.check(gpu.calls().memset2D8Async(outputs[rows.output] + DevicePointer(rows.offset),
                                             size_t(rows.pitch), 0, size_t(rows.width),
                                             size_t(rows.count), stream),
                  "cuMemsetD2D8Async"));
  using Place = CudnnAttentionGraph::Place;
  auto pointer = [](DevicePointer address) { return reinterpret_cast<void *>(uintptr_t(address)); };
  auto host = [](const auto &value) {
    return const_cast<void *>(static_cast<const void *>(&value));
  };
  std::vector<void *> at;
  for (const CudnnAttentionGraph::Address &address : addresses)
    switch (address.place) {
    case Place::Input:
      at.push_back(pointer(inputs[address.number]));
      break;
    case Place::Output:
      at.push_back(pointer(outputs[address.number]));
      break;
    case Place::QueryGradient:
      at.push_back(pointer(workspace));
      break;
    case Place::RowSums:
      at.push_back(pointer(workspace + DevicePointer(own.queryGradient)));
      break;
    case Place::Scale:
      at.push_back(host(scale));
      break;
    case Place::Hidden:
      at.push_back(host(kHidden));
      break;
    case Place::One:
      at.push_back(host(kOne));
      break;
    case Place::Queries:
      at.push_back(host(queries));
      break;
    case Place::Keys:
      at.push_back(host(keys));
      break;
    case Place::Window:
      at.push_back(host(window));
      break;
    }
  return plan->run(ids, at, pointer(workspace + DevicePointer(own.total())), stream);
}

} // namespace autopar::runtime::cuda
