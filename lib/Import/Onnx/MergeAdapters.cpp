// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "MergeAdapters.h"

#include "Proto.h"

#include <cstring>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::DataType;
using ::autopar::Status;

static constexpr StringLiteral kA = ".lora_A.weight", kB = ".lora_B.weight";

/// As adapters are called: the name without the word `weight`.
static std::string moduleOf(StringRef matrix) {
  return matrix.take_front(matrix.rfind(".weight")).str();
}

::autopar::Result<MergeAdapters> MergeAdapters::of(const std::map<std::string, Weight> &weights,
                                                   const AdapterSizes &sizes) {
  MergeAdapters adapters;
  for (const auto &[name, weight] : weights) {
    StringRef module = name;
    if (module.consume_back(kA))
      adapters.pairs[module.str()].a = &weight;
    else if (module.consume_back(kB))
      adapters.pairs[module.str()].b = &weight;
  }
  if (adapters.pairs.empty())
    return Status::badInput("there are no adapters among the weights, which are called "
                            "fc.lora_A.weight and fc.lora_B.weight for fc.weight");
  adapters.scale = sizes.alpha / double(sizes.rank);
  auto isMatrix = [&](const Weight *weight, size_t dim) {
    return weight && weight->shape.size() == 2 && weight->dtype == DataType::F32 &&
           weight->shape[dim] == sizes.rank;
  };
  for (const auto &[module, pair] : adapters.pairs)
    if (!isMatrix(pair.a, 0) || !isMatrix(pair.b, 1))
      return Status::badInput("the adapter of '" + module + "': expected " + module + kA.str() +
                              " of f32, [" + std::to_string(sizes.rank) + ", in], and " + module +
                              kB.str() + ", [out, " + std::to_string(sizes.rank) + "]");
  return adapters;
}

std::vector<std::string> MergeAdapters::namesFor(StringRef matrix) const {
  std::string module = moduleOf(matrix);
  if (!pairs.count(module))
    return {};
  return {module + kA.str(), module + kB.str()};
}

namespace {
/// How a node multiplies by a matrix: as it lies, [in, out], or by its transpose.
enum class Use { Plain, Transposed, Else };
} // namespace

static Use flipped(Use use) {
  return use == Use::Plain ? Use::Transposed : use == Use::Transposed ? Use::Plain : use;
}

/// What all nodes do that read the value; `reader` becomes one that does something else.
static Use useOf(const std::string &value, const onnx::GraphProto &graph, std::string &reader) {
  std::optional<Use> common;
  for (const onnx::NodeProto &node : graph.node())
    for (int i = 0; i < node.input_size(); ++i) {
      if (node.input(i) != value)
        continue;
      const std::string &op = node.op_type();
      Use use = Use::Else;
      if ((op == "MatMul" || op == "Gemm" || op == "FusedMatMul") && i == 1) {
        use = Use::Plain;
        for (const onnx::AttributeProto &attribute : node.attribute())
          if (attribute.name() == "transB" && attribute.i() != 0)
            use = Use::Transposed;
      } else if (op == "Transpose") {
        use = flipped(useOf(node.output(0), graph, reader));
      } else if (op == "Identity" || op == "Cast") {
        use = useOf(node.output(0), graph, reader);
      }
      if (use == Use::Else || (common && *common != use)) {
        if (reader.empty())
          reader = op;
        return Use::Else;
      }
      common = use;
    }
  return common.value_or(Use::Else);
}

Status MergeAdapters::addTo(const onnx::TensorProto &tensor, StringRef matrix,
                            const onnx::GraphProto &graph, std::string &values) const {
  const Pair &pair = pairs.at(moduleOf(matrix));
  std::string reader;
  Use use = useOf(tensor.name(), graph, reader);
  auto refuse = [&](const std::string &why) {
    return Status::badInput("the adapter of '" + tensor.name() + "' cannot be added to it: " + why);
  };
  if (use == Use::Else)
    return refuse(reader.empty() ? "no node multiplies by it"
                                 : "it is read by " + reader + ", too, and not multiplied by");
  int64_t rank = pair.a->shape[0], in = pair.a->shape[1], out = pair.b->shape[0];
  int64_t rows = use == Use::Plain ? in : out, columns = use == Use::Plain ? out : in;
  constexpr int f32 = 1;
  if (tensor.data_type() != f32 || tensor.dims_size() != 2 || tensor.dims(0) != rows ||
      tensor.dims(1) != columns)
    return refuse("expected a matrix of FLOAT, [" + std::to_string(rows) + "," +
                  std::to_string(columns) + "]");
  auto at = [](std::string_view bytes, int64_t index) {
    float value;
    std::memcpy(&value, bytes.data() + index * int64_t(sizeof(float)), sizeof(float));
    return value;
  };
  for (int64_t i = 0; i < in; ++i)
    for (int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (int64_t r = 0; r < rank; ++r)
        sum += double(at(pair.a->bytes, r * in + i)) * at(pair.b->bytes, o * rank + r);
      int64_t index = use == Use::Plain ? i * out + o : o * in + i;
      float value = float(at(values, index) + scale * sum);
      std::memcpy(values.data() + index * int64_t(sizeof(float)), &value, sizeof(float));
    }
  return Status::ok();
}
