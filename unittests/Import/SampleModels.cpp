// SPDX-License-Identifier: Apache-2.0
// Sample models in protobuf text, with raw data filled in afterwards.
#include "SampleModels.h"

#include "autopar-onnx.pb.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace onnx = ::autopar_onnx;

namespace {
constexpr const char *header = "ir_version: 8 opset_import { domain: '' version: 17 } ";

std::string tensorType(const char *name, const char *dims, int type = 1) {
  return std::string("{ name: '") + name +
         "' type { tensor_type { elem_type: " + std::to_string(type) + " shape { " + dims +
         " } } } }";
}

/// A convolution, a pooling, a product with raw weights, a reshape computed from a shape.
std::string convolutionModel() {
  return std::string(header) + "graph { name: 'cnn' input " +
         tensorType("x", "dim { dim_value: 2 } dim { dim_value: 3 } dim { dim_value: 8 } dim { "
                         "dim_value: 8 }") +
         " output " + tensorType("y", "dim { dim_value: 2 } dim { dim_value: 5 }") + R"(
    initializer { name: 'w' dims: [4, 3, 3, 3] data_type: 1 }
    initializer { name: 'fc' dims: [64, 5] data_type: 1 }
    initializer { name: 'axes' dims: [1] data_type: 7 int64_data: [0] }
    node { op_type: 'Conv' input: 'x' input: 'w' output: 'c' name: 'conv'
      attribute { name: 'pads' type: INTS ints: [1, 1, 1, 1] } attribute { name: 'group' type: INT i: 1 } }
    node { op_type: 'Relu' input: 'c' output: 'r' }
    node { op_type: 'MaxPool' input: 'r' output: 'p'
      attribute { name: 'kernel_shape' type: INTS ints: [2, 2] } attribute { name: 'strides' type: INTS ints: [2, 2] } }
    node { op_type: 'Shape' input: 'p' output: 's' attribute { name: 'end' type: INT i: 1 } }
    node { op_type: 'Constant' output: 'rest' attribute { name: 'value_ints' type: INTS ints: [-1] } }
    node { op_type: 'Concat' input: 's' input: 'rest' output: 'shape' attribute { name: 'axis' type: INT i: 0 } }
    node { op_type: 'Reshape' input: 'p' input: 'shape' output: 'f' }
    node { op_type: 'Gemm' input: 'f' input: 'fc' output: 'g' attribute { name: 'alpha' type: FLOAT f: 0.5 } }
    node { op_type: 'Softmax' input: 'g' output: 'y' attribute { name: 'axis' type: INT i: -1 } } })";
}

/// A loop with a subgraph, an If, a sequence, a function call.
std::string controlFlowModel() {
  return std::string(header) +
         "opset_import { domain: 'local' version: 1 } graph { name: 'loop' input " +
         tensorType("x", "dim { dim_value: 3 }") + " output " +
         tensorType("y", "dim { dim_value: 4 } dim { dim_value: 3 }") + R"(
    initializer { name: 'trips' data_type: 7 int64_data: [4] }
    initializer { name: 'yes' data_type: 9 int32_data: [1] }
    node { op_type: 'Loop' input: ['trips', 'yes', 'x'] output: ['last', 'all'] attribute { name: 'body' type: GRAPH g {
      name: 'body'
      input { name: 'i' } input { name: 'cond' } input { name: 'state' }
      output { name: 'cond_out' } output { name: 'next' } output { name: 'row' }
      node { op_type: 'Identity' input: 'cond' output: 'cond_out' }
      node { op_type: 'Twice' domain: 'local' input: 'state' output: 'next' attribute { name: 'by' type: FLOAT f: 3.0 } }
      node { op_type: 'If' input: 'cond' output: 'row'
        attribute { name: 'then_branch' type: GRAPH g { name: 't' output { name: 'a' } node { op_type: 'Tanh' input: 'next' output: 'a' } } }
        attribute { name: 'else_branch' type: GRAPH g { name: 'e' output { name: 'b' } node { op_type: 'Neg' input: 'next' output: 'b' } } } } } } }
    node { op_type: 'SequenceConstruct' input: ['all', 'all'] output: 'seq' }
    node { op_type: 'ConcatFromSequence' input: 'seq' output: 'cat' attribute { name: 'axis' type: INT i: 0 } }
    node { op_type: 'TopK' input: ['cat', 'k'] output: ['y', 'at'] attribute { name: 'axis' type: INT i: 0 } }
    initializer { name: 'k' dims: [1] data_type: 7 int64_data: [4] } }
  functions { name: 'Twice' domain: 'local' input: 'a' output: 'b' attribute: 'by' opset_import { domain: '' version: 17 }
    node { op_type: 'Constant' output: 'f' attribute { name: 'value_float' ref_attr_name: 'by' type: FLOAT } }
    node { op_type: 'Mul' input: ['a', 'f'] output: 'b' } })";
}

/// Recurrence, resizing, slices, pads, gathers, quantization, einsum.
std::string mixedModel() {
  return std::string(header) + "graph { name: 'mixed' input " +
         tensorType("x", "dim { dim_value: 4 } dim { dim_value: 2 } dim { dim_value: 3 }") +
         " output " + tensorType("y", "dim { dim_value: 2 }") + R"(
    initializer { name: 'w' dims: [1, 20, 3] data_type: 1 }
    initializer { name: 'r' dims: [1, 20, 5] data_type: 1 }
    initializer { name: 'scales' dims: [4] data_type: 1 float_data: [1, 1, 2, 1.5] }
    initializer { name: 'starts' dims: [1] data_type: 7 int64_data: [-1] }
    initializer { name: 'ends' dims: [1] data_type: 7 int64_data: [-100] }
    initializer { name: 'ax' dims: [1] data_type: 7 int64_data: [0] }
    initializer { name: 'steps' dims: [1] data_type: 7 int64_data: [-1] }
    initializer { name: 'pads' dims: [8] data_type: 7 int64_data: [0, 0, 1, 1, 0, 0, 1, 1] }
    initializer { name: 'scale' data_type: 1 float_data: [0.1] }
    initializer { name: 'zero' data_type: 2 int32_data: [128] }
    initializer { name: 'rows' dims: [2] data_type: 7 int64_data: [0, 2] }
    node { op_type: 'LSTM' input: ['x', 'w', 'r'] output: ['h', 'hn', 'cn'] attribute { name: 'hidden_size' type: INT i: 5 } }
    node { op_type: 'Slice' input: ['h', 'starts', 'ends', 'ax', 'steps'] output: 's' }
    node { op_type: 'Resize' input: ['s', '', 'scales'] output: 'z' attribute { name: 'mode' type: STRING s: 'linear' } }
    node { op_type: 'Pad' input: ['z', 'pads'] output: 'p' attribute { name: 'mode' type: STRING s: 'reflect' } }
    node { op_type: 'QuantizeLinear' input: ['p', 'scale', 'zero'] output: 'q' }
    node { op_type: 'DequantizeLinear' input: ['q', 'scale', 'zero'] output: 'd' }
    node { op_type: 'Gather' input: ['d', 'rows'] output: 'g' attribute { name: 'axis' type: INT i: 2 } }
    node { op_type: 'Einsum' input: ['g', 'g'] output: 'e' attribute { name: 'equation' type: STRING s: 'abcd,abed->ce' } }
    node { op_type: 'ReduceSum' input: ['e', 'ax'] output: 'y' attribute { name: 'keepdims' type: INT i: 0 } } })";
}

std::string serialize(const std::string &text) {
  onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  for (onnx::TensorProto &tensor : *model.mutable_graph()->mutable_initializer())
    if (tensor.data_type() == 1 && tensor.float_data().empty()) {
      size_t count = 1;
      for (int64_t extent : tensor.dims())
        count *= extent;
      std::vector<float> values(count, 0.25f);
      tensor.set_raw_data(values.data(), count * sizeof(float));
    }
  return model.SerializeAsString();
}
} // namespace

std::vector<std::string> autopar::test::sampleModels() {
  return {serialize(convolutionModel()), serialize(controlFlowModel()), serialize(mixedModel())};
}

std::string
autopar::test::externalModel(const std::string &location,
                             const std::vector<std::pair<std::string, std::string>> &entries) {
  std::string text = std::string(header) + "graph { name: 'external' input " +
                     tensorType("x", "dim { dim_value: 4 }") + " output " +
                     tensorType("y", "dim { dim_value: 4 }") +
                     " initializer { name: 'w' dims: [4] data_type: 1 data_location: EXTERNAL }"
                     " node { op_type: 'Add' input: ['x', 'w'] output: 'y' } }";
  onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  onnx::TensorProto &tensor = *model.mutable_graph()->mutable_initializer(0);
  auto add = [&](const std::string &key, const std::string &value) {
    auto *entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  for (const auto &[key, value] : entries)
    add(key, value);
  return model.SerializeAsString();
}
