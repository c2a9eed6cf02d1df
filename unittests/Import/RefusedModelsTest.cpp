// SPDX-License-Identifier: Apache-2.0
// Models that import refuses as a whole: files, inputs, outputs, functions, control flow, training
// steps. For each one text, and what is said of it.
#include "ImportTest.h"

#include "autopar-onnx.pb.h"
#include "llvm/Support/raw_ostream.h"

#include <google/protobuf/text_format.h>

#include <unistd.h>

using namespace autopar::test;

namespace {

/// What import says of a graph; x is an input f32[3].
std::string errorOfModel(const std::string &text) {
  autopar_onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  Folder folder;
  folder.write("model.onnx", model.SerializeAsString());
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::string error;
  mlir::autopar::ImportOptions options;
  options.ownTraining = true;
  importFile(folder.file("model.onnx"), context, error, options);
  return error.substr(0, error.size() ? error.size() - 1 : 0);
}

const std::string header = "ir_version: 8 opset_import { version: 17 } ";
const std::string x =
    R"(input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: 3 } } } } } )";

std::string errorOf(const std::string &graph, const std::string &more = "") {
  return errorOfModel(header + more + "graph { name: 'g' " + x + graph + " }");
}

TEST(RefusedModels, TextsThatAreNotUtf8) {
  std::string error = errorOf(R"(node { op_type: 'Relu' name: 'fc\377' input: 'x' output: 'y' })");
  EXPECT_NE(error.find(R"(is no ONNX model: graph.node[0].name is "fc\xff", which is not UTF-8; )"
                       "export the model with another name"),
            std::string::npos)
      << error;
}

TEST(RefusedModels, Files) {
  Folder folder;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto errorOfBytes = [&](const std::string &bytes) {
    folder.write("model.onnx", bytes);
    std::string error;
    importFile(folder.file("model.onnx"), context, error);
    return error;
  };
  const std::string is = "'" + folder.file("model.onnx") + "' is no ONNX model: ";
  EXPECT_EQ(errorOfBytes(""), is + "it has no graph\n");
  EXPECT_EQ(errorOfBytes("\x3a\x7f"), is + "a field is longer than its message at byte 0\n");
  EXPECT_EQ(errorOfBytes("\x09\x01"), is + "a field is longer than its message at byte 1\n");
  EXPECT_EQ(errorOfBytes("\x08\x80"), is + "a number is cut off at byte 2\n");
  EXPECT_EQ(errorOfBytes("\x08" + std::string(10, '\x80')),
            is + "a number is too long at byte 11\n");
  EXPECT_EQ(errorOfBytes("\x0e"), is + "a field has an unknown wire type at byte 1\n");
  EXPECT_EQ(errorOfBytes("\x3a\x05\x2a\x03\x0a\x01\x80"), is + "its fields do not parse\n");
  std::string nested, error;
  auto wrap = [&](const char *tag) {
    std::string length;
    for (size_t left = nested.size(); length.empty() || left; left >>= 7)
      length += static_cast<char>((left & 0x7f) | (left >> 7 ? 0x80 : 0));
    nested = tag + length + nested;
  };
  for (int depth = 0; depth < 70; ++depth) { // a graph in an attribute of a node of a graph ...
    wrap("\x32");
    wrap("\x2a");
    wrap("\x0a");
  }
  wrap("\x3a");
  EXPECT_EQ(errorOfBytes(nested).rfind(is + "messages are nested too deeply at byte ", 0), 0u);
  importFile(folder.file(""), context, error);
  EXPECT_EQ(error, "model '" + folder.file("") + "' is no file\n");
  error.clear();
  importFile(folder.file("absent.onnx"), context, error);
  EXPECT_EQ(error, "model '" + folder.file("absent.onnx") + "' does not exist\n");
}

TEST(RefusedModels, Weights) {
  Folder folder;
  const std::string text =
      header +
      "graph { name: 'g' output { name: 'w' } initializer { name: 'w' dims: [2] data_type: 1 "
      "data_location: EXTERNAL external_data { key: 'location' value: 'w.bin' } } }";
  autopar_onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  folder.write("model.onnx", model.SerializeAsString());
  auto errorOfWeights = [&] {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    std::string error;
    importFile(folder.file("model.onnx"), context, error);
    unlink(folder.file("w.bin").c_str());
    return error;
  };
  folder.write("w.bin", "12345678");
  EXPECT_EQ(errorOfWeights(), "");
  ASSERT_EQ(symlink("w.bin", folder.file("w.bin").c_str()), 0);
  EXPECT_EQ(errorOfWeights(),
            "initializer 'w': external data location 'w.bin' cannot be resolved\n");
  ASSERT_EQ(symlink("/etc/passwd", folder.file("w.bin").c_str()), 0);
  EXPECT_EQ(
      errorOfWeights(),
      "initializer 'w': external data location 'w.bin' is a link that leaves the model's folder\n");
  folder.write("other.bin", "12345678");
  ASSERT_EQ(link(folder.file("other.bin").c_str(), folder.file("w.bin").c_str()), 0);
  EXPECT_EQ(
      errorOfWeights(),
      "initializer 'w': external data location 'w.bin' is a hard link, copy the file instead\n");
}

TEST(RefusedModels, AbsentShapes) {
  std::string error =
      errorOf("initializer { name: 's' dims: [1] data_type: 7 data_location: EXTERNAL "
              "external_data { key: 'location' value: 's.bin' } } "
              "node { name: 'n' op_type: 'Reshape' input: 'x' input: 's' output: 'y' }");
  EXPECT_EQ(error.rfind("node 'n' (Reshape): input 1 's' must be known at compile time and of "
                        "integers: shapes are static; its values lie in '",
                        0),
            0u)
      << error;
  EXPECT_NE(error.find("/s.bin', which does not exist"), std::string::npos) << error;
}

TEST(RefusedModels, Tensors) {
  auto errorOfTensor = [](const std::string &tensor) {
    return errorOf("initializer { name: 'w' " + tensor + " } output { name: 'w' }");
  };
  EXPECT_EQ(errorOfTensor("dims: [2] data_type: 6 int32_data: [1]"),
            "initializer 'w': its shape takes 2 values, but it holds 1");
  EXPECT_EQ(errorOfTensor("dims: [2] data_type: 1 raw_data: '1234'"),
            "initializer 'w': its shape and type take 8 bytes, but it holds 4");
  EXPECT_EQ(errorOfTensor("dims: [-2] data_type: 1"),
            "initializer 'w': shape [-2] is negative or too large");
  EXPECT_EQ(errorOfTensor("dims: [2] data_type: 8"),
            "initializer 'w': element type STRING is not supported");
}

TEST(RefusedModels, Bindings) {
  mlir::autopar::ImportOptions options;
  std::string error;
  EXPECT_TRUE(failed(mlir::autopar::parseBindings("n=1, n=2", options, error)));
  EXPECT_EQ(error, "'n' is bound twice");
}

TEST(RefusedModels, InputsAndOutputs) {
  EXPECT_EQ(errorOfModel("ir_version: 8 graph { name: 'g' }"), "the model imports no operator set");
  EXPECT_EQ(
      errorOf("input { name: 's' type { sequence_type { } } }"),
      "input 's' is no tensor: sequences, optionals, maps and sparse tensors cannot enter a model");
  EXPECT_EQ(errorOf("input { name: 's' type { tensor_type { elem_type: 1 } } }"),
            "input 's' has no shape, not even a rank");
  EXPECT_EQ(errorOf("input { name: 's' type { tensor_type { elem_type: 8 shape { } } } }"),
            "input 's': element type STRING is not supported");
  EXPECT_EQ(errorOf("input { name: 's' type { tensor_type { elem_type: 1 shape { dim { dim_value: "
                    "4611686018427387904 } } } } }"),
            "input 's': shape [4611686018427387904] is negative or too large");
  EXPECT_EQ(errorOf("output { name: 'y' }"),
            "output 'y' is neither an input, an initializer nor the output of an earlier node");
  EXPECT_EQ(errorOf("output { name: 'x' } output { name: 'x' }"), "output 'x' is listed twice");
  EXPECT_EQ(errorOf(x), "input 'x' has no name or is defined twice");
  EXPECT_EQ(
      errorOf("node { op_type: 'SequenceConstruct' input: 'x' output: 's' } output { name: 's' }"),
      "output 's' is a sequence or optional: only tensors leave a model");
  EXPECT_EQ(errorOf("node { op_type: 'Relu' input: 'x' output: 'x' name: 'n' }"),
            "node 'n' (Relu): output 0 'x' is defined twice");
  EXPECT_EQ(errorOf("node { op_type: 'SequenceConstruct' input: 'x' output: 's' } node { op_type: "
                    "'Relu' input: 's' output: 'y' "
                    "name: 'n' }"),
            "node 'n' (Relu): input 0 's' is no tensor");
}

/// A node behind a sequence s of one x, an empty optional o and constants.
std::string errorOfNode(const std::string &node) {
  return errorOf("initializer { name: 'one' data_type: 7 int64_data: [1] } initializer { name: "
                 "'two' data_type: 7 int64_data: [2] } "
                 "initializer { name: 'yes' data_type: 9 int32_data: [1] } initializer { name: "
                 "'ones' dims: [2] data_type: 7 "
                 "int64_data: [1, 1] } "
                 "input { name: 'run' type { tensor_type { elem_type: 9 shape { } } } } "
                 "node { op_type: 'SequenceConstruct' input: 'x' output: 's' } node { op_type: "
                 "'SequenceEmpty' output: 'none' } "
                 "node { op_type: 'Optional' output: 'o' } node { name: 'n' " +
                 node + " }");
}

TEST(RefusedModels, Sequences) {
  EXPECT_EQ(errorOfNode("op_type: 'SequenceConstruct' input: 's' output: 'y'"),
            "node 'n' (SequenceConstruct): input 0 's' must be a tensor");
  EXPECT_EQ(errorOfNode("op_type: 'SequenceAt' input: 's' input: 's' output: 'y'"),
            "node 'n' (SequenceAt): input 1 's' must be a tensor");
  EXPECT_EQ(errorOfNode("op_type: 'SequenceAt' input: 's' input: 'one' output: 'y'"),
            "node 'n' (SequenceAt): input 1 'one' is no position in a sequence of 1");
  EXPECT_EQ(errorOfNode("op_type: 'SplitToSequence' input: 's' output: 'y'"),
            "node 'n' (SplitToSequence): input 0 's' must be a tensor");
  EXPECT_EQ(errorOfNode("op_type: 'SplitToSequence' input: 'x' input: 's' output: 'y'"),
            "node 'n' (SplitToSequence): input 1 's' must be a tensor");
  EXPECT_EQ(errorOfNode("op_type: 'SplitToSequence' input: 'x' input: 'ones' output: 'y'"),
            "node 'n' (SplitToSequence): split [1, 1] does not fit extent 3");
  EXPECT_EQ(errorOfNode("op_type: 'ConcatFromSequence' input: 'none' output: 'y' attribute { name: "
                        "'axis' type: INT i: 0 }"),
            "node 'n' (ConcatFromSequence): input 0 'none' must hold at least one tensor");
  EXPECT_EQ(errorOfNode("op_type: 'SequenceMap' input: 's' input: 'none' output: 'y' attribute { "
                        "name: 'body' type: GRAPH g { name: "
                        "'b' } }"),
            "node 'n' (SequenceMap): sequences differ in length");
  EXPECT_EQ(errorOfNode("op_type: 'SequenceErase' input: 'none' output: 'y'"),
            "node 'n' (SequenceErase): input 0 'none' is empty");
  EXPECT_EQ(errorOfNode("op_type: 'OptionalGetElement' input: 'o' output: 'y'"),
            "node 'n' (OptionalGetElement): input 0 'o' is an empty optional");
}

std::string body(const std::string &graph) {
  return " attribute { name: 'body' type: GRAPH g { name: 'b' " + graph + " } } ";
}

TEST(RefusedModels, ControlFlow) {
  const std::string loop = "op_type: 'Loop' output: 'y' ",
                    turn = "input { name: 'i' } input { name: 'c' } output { name: 'c' } ",
                    scan = "op_type: 'Scan' output: 'y' ";
  EXPECT_EQ(errorOfNode("op_type: 'If' input: 's' output: 'y'"),
            "node 'n' (If): input 0 's' must be one boolean");
  EXPECT_EQ(errorOfNode("op_type: 'If' input: 'yes' output: 'y' attribute { name: 'then_branch' "
                        "type: INT i: 1 }"),
            "node 'n' (If): attribute 'then_branch' must be a graph");
  EXPECT_EQ(errorOfNode("op_type: 'If' input: 'run' output: 'y' attribute { name: 'then_branch' "
                        "type: GRAPH g { name: 'a' output { name: 'x' } } } attribute { name: "
                        "'else_branch' type: GRAPH g { name: 'b' output { name: 'one' } } }"),
            "node 'n' (If): input 0 'run' must be known at compile time: the branches yield "
            "different shapes or types; a branch of the If here is chosen when the program runs, "
            "so both are compiled: if an input that always has one value chooses, say which with "
            "--fix-input NAME=NUMBER");
  EXPECT_EQ(errorOfNode("op_type: 'If' input: 'yes' output: 'y' attribute { name: 'then_branch' "
                        "type: GRAPH g { name: 'a' input { name: 'i' } } }"),
            "node 'n' (If): graph 'then_branch' takes 1 inputs, 0 are given");
  EXPECT_EQ(errorOfNode(loop + "input: 'ones' input: 'yes'" + body(turn)),
            "node 'n' (Loop): input 0 'ones' must be a scalar");
  EXPECT_EQ(errorOfNode(loop + "input: 's' input: 'yes'" + body(turn)),
            "node 'n' (Loop): input 0 's' must be a tensor");
  EXPECT_EQ(errorOfNode(loop + "input: 'one' input: 'run'" + body(turn)),
            "node 'n' (Loop): input 1 'run' must be known at compile time: loops are unrolled");
  EXPECT_EQ(errorOfNode(loop + "input: 'one' input: 'yes' input: 'x'" + body(turn)),
            "node 'n' (Loop): body does not fit 1 loop-carried values");
  EXPECT_EQ(errorOfNode(loop + "input: '' input: 'yes'" + body(turn)),
            "node 'n' (Loop): runs more than 65536 iterations, too many to unroll");
  EXPECT_EQ(errorOfNode(loop + "input: 'two' input: 'yes'" +
                        body("input { name: 'i' } input { name: 'c' } output { name: 'run' }")),
            "node 'n' (Loop): its condition depends on run-time values: loops are unrolled");
  EXPECT_EQ(errorOfNode(loop + "input: 'one' input: 'yes'" + body(turn + "output { name: 's' }")),
            "node 'n' (Loop): collects values that are no tensors");
  EXPECT_EQ(errorOfNode(scan + "input: 'x' attribute { name: 'num_scan_inputs' type: INT i: 2 }" +
                        body("")),
            "node 'n' (Scan): attribute 'num_scan_inputs' must be from 1 to 1");
  EXPECT_EQ(errorOfNode(scan + "input: 'x' attribute { name: 'num_scan_inputs' type: INT i: 1 }" +
                        body("")),
            "node 'n' (Scan): body does not fit 1 inputs");
  EXPECT_EQ(errorOfNode(scan +
                        "input: 'x' attribute { name: 'num_scan_inputs' type: INT i: 1 } "
                        "attribute { name: 'scan_input_axes' type: INTS ints: [0, 0] }" +
                        body("input { name: 'a' } output { name: 'a' }")),
            "node 'n' (Scan): attribute 'scan_input_axes' must have 1 entries");
  EXPECT_EQ(
      errorOfNode(scan +
                  "input: 'x' input: 'ones' attribute { name: 'num_scan_inputs' type: INT i: 2 }" +
                  body("input { name: 'a' } input { name: 'b' } output { name: 'a' }")),
      "node 'n' (Scan): scanned extents differ, are empty or too many to unroll");
  EXPECT_EQ(errorOfNode(scan + "input: 'x' attribute { name: 'num_scan_inputs' type: INT i: 1 }" +
                        body("input { name: 'a' } output { name: 's' }")),
            "node 'n' (Scan): collects values that are no tensors");
  EXPECT_EQ(errorOfNode(scan + "input: 's' attribute { name: 'num_scan_inputs' type: INT i: 1 }" +
                        body("input { name: 'a' }")),
            "node 'n' (Scan): input 0 's' is no tensor");
  EXPECT_EQ(errorOfNode(
                scan + "input: 'x' input: '' attribute { name: 'num_scan_inputs' type: INT i: 1 }" +
                body("")),
            "node 'n' (Scan): an input is missing");
}

TEST(RefusedModels, LoopsOfManyOperations) {
  auto loop = [](const std::string &of, const std::string &node) {
    return "node { name: 'l' op_type: 'Loop' input: 'many' input: 'yes' input: '" + of +
           "' output: 'y' " +
           body("input { name: 'i' } input { name: 'c' } input { name: 'v' } " + node +
                "output { name: 'c' } output { name: 'y' }") +
           " }";
  };
  std::string error = errorOf(
      "initializer { name: 'many' data_type: 7 int64_data: [720] } initializer { name: 'yes' "
      "data_type: 9 int32_data: [1] } " +
      loop("x", loop("v", "node { name: 'e' op_type: 'Identity' input: 'v' output: 'y' }")));
  EXPECT_NE(error.find("the model unrolls to more than 500000 operations"), std::string::npos)
      << error;
}

TEST(RefusedModels, OperatorsInSubgraphs) {
  // Only the branch that is taken has to be supported, so these are met one at a time.
  auto errorOfBranch = [](const std::string &node) {
    return errorOfNode("op_type: 'If' input: 'yes' output: 'y' attribute { name: 'then_branch' "
                       "type: GRAPH g { name: 'a' node { name: 'in' " +
                       node + " input: 'x' output: 'z' } output { name: 'z' } } }");
  };
  const std::string in = "node 'n/then/in' ";
  EXPECT_EQ(errorOfBranch("op_type: 'Frobnicate'"),
            in + "(Frobnicate): is not supported (domain '', version 17)");
  EXPECT_EQ(errorOfBranch("op_type: 'StringNormalizer'"),
            in + "(StringNormalizer): is refused: works on strings, which have no type in the "
                 "dialect");
}

TEST(RefusedModels, Attributes) {
  const std::string slope = "attribute { name: 'alpha' type: FLOAT f: 0.5 } ";
  EXPECT_EQ(errorOfNode("op_type: 'Elu' input: 'x' output: 'y' " + slope + slope),
            "node 'n' (Elu): attribute 'alpha' is given twice");
  EXPECT_EQ(errorOfNode("op_type: 'ConstantOfShape' input: 'ones' output: 'y' attribute { name: "
                        "'value' type: TENSOR t { dims: [2] data_type: 1 float_data: [1, 2] } }"),
            "node 'n' (ConstantOfShape): attribute 'value' must hold one element");
}

TEST(RefusedModels, ScansOfVersion8) {
  auto errorOfScan = [](const std::string &inputs) {
    return errorOfModel(
        "ir_version: 8 opset_import { version: 8 } graph { name: 'g' " + x +
        "input { name: 's' type { tensor_type { elem_type: 1 shape { } } } } "
        "input { name: 'z' type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { "
        "dim_value: 2 } } } } } "
        "node { name: 'n' op_type: 'Scan' output: 'y' " +
        inputs + body("input { name: 'a' } input { name: 'b' } output { name: 'b' }") + " } }");
  };
  const std::string count = " attribute { name: 'num_scan_inputs' type: INT i: 1 } ";
  EXPECT_EQ(errorOfScan("input: 'x' input: 'x' input: 'x'" + count),
            "node 'n' (Scan): input 0 'x' is not supported: sequences of different lengths have no "
            "static shape");
  EXPECT_EQ(errorOfScan("input: '' input: 's' input: 'x'" + count),
            "node 'n' (Scan): an input is missing or has no batch dimension");
  EXPECT_EQ(errorOfScan("input: '' input: 'x' input: 'z'" + count),
            "node 'n' (Scan): batch extents differ or are too many to unroll");
}

TEST(RefusedModels, Functions) {
  const std::string call = "node { name: 'n' op_type: 'F' domain: 'own' ",
                    own = "opset_import { domain: 'own' version: 1 } functions { name: 'F' domain: "
                          "'own' input: 'a' output: 'b' "
                          "opset_import { version: 17 } opset_import { domain: 'own' version: 1 } "
                          "node { name: 'i' ";
  const std::string plain = own + "op_type: 'Relu' input: 'a' output: 'b' } } ";
  EXPECT_EQ(errorOf(call + "input: 'x' input: 'x' output: 'y' }", plain),
            "node 'n' (F): has more inputs or outputs than the model's function");
  EXPECT_EQ(errorOf(call + "input: 'x' output: 'y' attribute { name: 'z' type: INT } }", plain),
            "node 'n' (F): attribute 'z' is unknown to the model's function");
  std::string error = errorOf(call + "input: 'x' output: 'y' }",
                              own + "op_type: 'F' domain: 'own' input: 'a' output: 'b' } } ");
  EXPECT_NE(error.find("functions and subgraphs are nested more than "), std::string::npos)
      << error;
}

TEST(RefusedModels, TrainingSteps) {
  const std::string w = "initializer { name: 'w' dims: [1] data_type: 1 float_data: [1] } ";
  auto errorOfTraining = [&](const std::string &info, const std::string &graph = "") {
    return errorOf(w + graph, "training_info { " + info + " } ");
  };
  const std::string initial = "initialization_binding { key: 'w' value: 'v' } ",
                    update = "update_binding { key: 'w' value: 'w2' } ";
  EXPECT_EQ(errorOfTraining(initial + initial), "training_info initializes 'w' twice");
  EXPECT_EQ(errorOfTraining(update + update), "training_info updates 'w' twice");
  EXPECT_EQ(errorOfTraining(initial), "training_info initializes 'w', but never updates it");
  EXPECT_EQ(errorOfTraining("update_binding { key: 'v' value: 'x' }"),
            "updated initializer 'v' is neither an input, an initializer nor the output of an "
            "earlier node");
  const std::string algorithm =
      "algorithm { name: 'a' node { op_type: 'Neg' input: 'w' output: 'w2' } } ";
  EXPECT_EQ(
      errorOfTraining(initial + update + algorithm +
                      "initialization { name: 'i' initializer { name: 'v' dims: [2] data_type: "
                      "1 float_data: [1, 1] } }"),
      "node 'Neg_0' (Neg): training_info initializes 'w' with a value of another type");
  EXPECT_EQ(
      errorOfTraining(initial + update + algorithm +
                      "initialization { name: 'i' node { op_type: 'SequenceEmpty' output: 'v' } }"),
      "node 'Neg_0' (Neg): training_info: the initial value 'v' is no tensor");
}

} // namespace
