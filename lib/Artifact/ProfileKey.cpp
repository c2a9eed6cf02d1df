// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Artifact/ProfileKey.h"

#include "autopar/Artifact/Layout.h"

#include <algorithm>
#include <initializer_list>

namespace autopar::artifact {
namespace {

std::string with(std::string kind, std::initializer_list<int64_t> extents) {
  const char *separator = ":";
  for (int64_t extent : extents) {
    kind += separator + std::to_string(extent);
    separator = "x";
  }
  return kind;
}

/// One name where all are alike.
std::string typesOf(std::initializer_list<DataType> types) {
  std::string text(name(*types.begin()));
  bool areAlike = std::all_of(types.begin(), types.end(),
                              [&](DataType type) { return type == *types.begin(); });
  for (auto type = types.begin() + 1; type != types.end() && !areAlike; ++type)
    text += "," + std::string(name(*type));
  return text;
}

/// Which way an operand lies: by rows, or by columns ("t"), as the library says it.
char orderOf(const StridedShape &shape) {
  return shape.strides.back() == 1 || shape.dims.back() == 1 ? 'n' : 't';
}

std::string keyOf(const MatmulGeometry &g) {
  size_t row = g.c.dims.size() - 2;
  int64_t matrices = 1;
  for (size_t dim = 0; dim < row; ++dim)
    matrices *= g.c.dims[dim];
  // Several matrices, a scale and an activation are the library's; see OwnProduct.
  bool isFused = g.scale != 1.0f || g.epilogue != Epilogue::None;
  std::string form = g.packedB ? "packed" : matrices > 1 ? "batched" : isFused ? "fused" : "plain";
  form += std::string("/") + orderOf(g.a) + (g.packedB ? 'n' : orderOf(g.b));
  return with("product/" + typesOf({g.aType, g.bType, g.cType}) + "/" + form,
              {matrices, g.c.dims[row], g.c.dims[row + 1], g.a.dims.back()});
}

const char *nameOf(Layout layout) {
  switch (layout) {
  case Layout::Plain:
    return "plain";
  case Layout::ChannelsLast:
    return "channels_last";
  case Layout::Blocked8:
  case Layout::Blocked16:
    return "blocked";
  }
  return "unknown";
}

std::string keyOf(const ConvolutionGeometry &g) {
  const std::vector<int64_t> &filter = g.filter(), &output = g.output();
  int64_t pixels = 1, window = 1;
  bool isStrided = false, isDilated = false;
  for (size_t dim = 0; dim < g.strides.size(); ++dim) {
    pixels *= output[dim + 2];
    window *= filter[dim + 2];
    isStrided |= g.strides[dim] > 1;
    isDilated |= g.dilations[dim] > 1;
  }
  bool isThree =
      std::all_of(filter.begin() + 2, filter.end(), [](int64_t side) { return side == 3; });
  std::string kind = g.kind == ConvolutionKind::Forward         ? "convolution/"
                     : g.kind == ConvolutionKind::InputGradient ? "convolution_input_gradient/"
                                                                : "convolution_filter_gradient/";
  kind += typesOf({g.xType, g.wType, g.yType});
  kind += g.algorithm == ConvolutionAlgorithm::Winograd ? "/winograd" : "/direct";
  kind += std::string("/") + nameOf(g.xLayout) + ">" + nameOf(g.yLayout);
  kind += window == 1 ? "/point" : isThree ? "/three" : "/wide";
  if (isStrided)
    kind += "/strided";
  if (isDilated)
    kind += "/dilated";
  if (g.groups > 1)
    kind += "/grouped";
  return with(kind, {output[0], pixels, filter[1] * window, filter[0]});
}

int64_t elementsOf(const std::vector<int64_t> &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

/// Columns that a row sees: under a causal mask those of the row in the middle, so that rows times
/// columns are the scores, as they are without. Of a window no more than it has.
int64_t columnsSeen(const AttentionGeometry &g) {
  int64_t rows = g.operands[0].dims[2], columns = g.operands[2].dims[2];
  if (!g.causal)
    return columns;
  int64_t seen = std::max<int64_t>(1, columns - (rows - 1) / 2);
  return g.window > 0 ? std::min(seen, g.window) : seen;
}

std::string keyOf(const AttentionGeometry &g) {
  const auto &query = g.operands[0].dims, &value = g.operands[2].dims;
  std::string kind = "attention/" + std::string(name(g.type));
  kind += g.isGradient() ? "/gradient" : "/forward";
  if (g.causal)
    kind += g.window > 0 ? "/window" : "/causal";
  return with(kind, {query[0] * query[1], query[2], columnsSeen(g), query[3] + value[3]});
}

std::string keyOf(const GroupedProductGeometry &g) {
  std::string form = g.isGradient ? "/gradient" : g.transposed ? "/nt" : "/nn";
  if (g.madeColumns > 0)
    form += "/made";
  return with(
      "grouped_product/" + typesOf({g.type, g.resultType}) + form,
      {g.groups, elementsOf(g.lhs.dims) / std::max<int64_t>(g.depth(), 1), g.columns(), g.depth()});
}

struct KeyOf {
  std::string operator()(const Matmul &p) const { return keyOf(p.geometry); }
  std::string operator()(const Convolution &p) const { return keyOf(p.geometry); }
  std::string operator()(const Attention &p) const { return keyOf(p.geometry); }
  std::string operator()(const GroupedProduct &p) const { return keyOf(p.geometry); }
  std::string operator()(const Pack &p) const {
    if (auto *g = std::get_if<MatmulGeometry>(&p.geometry))
      return with("pack", {2 * elementsOf(g->b.dims) * byteSize(g->bType)});
    auto &g = std::get<ConvolutionGeometry>(p.geometry);
    return with("pack", {2 * elementsOf(g.w) * byteSize(g.wType)});
  }
  std::string operator()(const Reorder &p) const {
    int64_t bytes = layoutBytes(p.dims, p.dtype, p.from).value_or(0) +
                    layoutBytes(p.dims, p.dtype, p.to).value_or(0);
    return with(std::string("reorder/") + nameOf(p.from) + ">" + nameOf(p.to), {bytes});
  }
  std::string operator()(const Copy &p) const { return with("copy", {2 * p.bytes}); }
  template <typename T>
  std::string operator()(const T &) const {
    return "";
  }
};

} // namespace

std::string profileKey(const Payload &payload) { return std::visit(KeyOf(), payload); }

std::string kernelProfileKey(std::string_view kind, int64_t bytes) {
  return with("kernel/" + std::string(kind), {bytes});
}

} // namespace autopar::artifact
