// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "MergeAdapters.h"

#include "Proto.h"

#include "autopar/Dialect/AutoPar/IR/AdapterNames.h"
#include "llvm/ADT/STLExtras.h"

#include <cstring>
#include <optional>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::DataType;
using ::autopar::Status;

::autopar::Result<MergeAdapters> MergeAdapters::of(const std::map<std::string, Weight> &weights,
                                                   const AdapterSizes &sizes) {
  MergeAdapters adapters;
  for (const auto &[name, weight] : weights) {
    StringRef module = name;
    if (module.consume_back(kAdapterA))
      adapters.pairs[module.str()].a = &weight;
    else if (module.consume_back(kAdapterB))
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
      return Status::badInput("the adapter of '" + module + "': expected " + module +
                              kAdapterA.str() + " of f32, [" + std::to_string(sizes.rank) +
                              ", in], and " + module + kAdapterB.str() + ", [out, " +
                              std::to_string(sizes.rank) + "]");
  return adapters;
}

std::vector<std::string> MergeAdapters::namesFor(StringRef matrix) const {
  std::string module = adaptedModule(matrix);
  if (!pairs.count(module))
    return {};
  return {module + kAdapterA.str(), module + kAdapterB.str()};
}

namespace {
/// How a node multiplies by a matrix: as it lies, [in, out], or by its transpose.
enum class Use { Plain, Transposed, Else };
} // namespace

static Use flipped(Use use) {
  return use == Use::Plain ? Use::Transposed : use == Use::Transposed ? Use::Plain : use;
}

/// Whether something other than a node of the graph reads the value: who takes its outputs, or a
/// branch, and there nodes too.
static bool isReadElsewhere(const std::string &value, const onnx::GraphProto &graph) {
  if (llvm::any_of(graph.output(), [&](const auto &output) { return output.name() == value; }))
    return true;
  for (const onnx::NodeProto &node : graph.node())
    for (const onnx::AttributeProto &attribute : node.attribute())
      if (attribute.has_g() &&
          (isReadElsewhere(value, attribute.g()) ||
           llvm::any_of(attribute.g().node(), [&](const onnx::NodeProto &inner) {
             return llvm::is_contained(inner.input(), value);
           })))
        return true;
  return false;
}

/// What all nodes from `first` on do that read the value; `reader` becomes what does something
/// else.
static Use useOf(const std::string &value, const onnx::GraphProto &graph, int first,
                 std::string &reader) {
  std::optional<Use> common;
  if (isReadElsewhere(value, graph)) {
    reader = "an output or a branch";
    return Use::Else;
  }
  for (int n = first; n < graph.node_size(); ++n) {
    const onnx::NodeProto &node = graph.node(n);
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
      } else if (node.output_size() == 1 && op == "Transpose") {
        use = flipped(useOf(node.output(0), graph, n + 1, reader));
      } else if (node.output_size() == 1 && (op == "Identity" || op == "Cast")) {
        use = useOf(node.output(0), graph, n + 1, reader);
      }
      if (use == Use::Else || (common && *common != use)) {
        if (reader.empty())
          reader = op;
        return Use::Else;
      }
      common = use;
    }
  }
  return common.value_or(Use::Else);
}

Status MergeAdapters::addTo(const onnx::TensorProto &tensor, StringRef matrix,
                            const onnx::GraphProto &graph, std::string &values) const {
  const Pair &pair = pairs.at(adaptedModule(matrix));
  std::string reader;
  Use use = useOf(tensor.name(), graph, 0, reader);
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
