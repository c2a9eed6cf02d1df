// SPDX-License-Identifier: Apache-2.0
// A line split at blanks; every word says by its first letters what it is.
#include "NodeText.h"
#include "ImportTest.h"

#include "autopar-onnx.pb.h"

#include <sstream>

namespace onnx = ::autopar_onnx;

namespace {

constexpr int newestVersion = 27;
const std::string typeLetters = "fdhijbusn";

int typeOf(char letter) {
  switch (letter) {
  case 'f':
    return onnx::TensorProto::FLOAT;
  case 'd':
    return onnx::TensorProto::DOUBLE;
  case 'h':
    return onnx::TensorProto::FLOAT16;
  case 'i':
    return onnx::TensorProto::INT64;
  case 'j':
    return onnx::TensorProto::INT32;
  case 'b':
    return onnx::TensorProto::BOOL;
  case 'u':
    return onnx::TensorProto::UINT8;
  case 'n':
    return 22; // INT4, which Debian's header lacks
  default:
    return onnx::TensorProto::STRING;
  }
}

std::vector<std::string> split(const std::string &list) {
  std::vector<std::string> parts;
  std::istringstream words(list);
  for (std::string part; std::getline(words, part, ',');)
    parts.push_back(part);
  return parts;
}

/// What stands between the first character and the last one.
std::string inside(const std::string &text) { return text.substr(1, text.size() - 2); }

void addInput(onnx::GraphProto &graph, const std::string &name, const std::string &word) {
  onnx::ValueInfoProto *value = graph.add_input();
  value->set_name(name);
  auto *tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(typeOf(word[0]));
  tensor->mutable_shape();
  for (const std::string &extent : split(inside(word.substr(1))))
    tensor->mutable_shape()->add_dim()->set_dim_value(std::stoll(extent));
}

void addConstant(onnx::GraphProto &graph, const std::string &name, const std::string &word) {
  onnx::TensorProto *tensor = graph.add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(typeOf(word[0]));
  std::string values = word[1] == '=' ? word.substr(2) : inside(word.substr(1));
  if (size_t colon = values.find(':'); colon != std::string::npos) {
    for (const std::string &extent : split(values.substr(0, colon)))
      tensor->add_dims(std::stoll(extent));
    values = values.substr(colon + 1);
  } else if (word[1] != '=') {
    tensor->add_dims(int64_t(split(values).size()));
  }
  for (const std::string &text : split(values))
    if (word[0] == 'f')
      tensor->add_float_data(std::stof(text));
    else if (word[0] == 'd')
      tensor->add_double_data(std::stod(text));
    else if (word[0] == 'i')
      tensor->add_int64_data(std::stoll(text));
    else
      tensor->add_int32_data(std::stoi(text));
}

void addAttribute(onnx::NodeProto &node, const std::string &name, const std::string &value) {
  onnx::AttributeProto *attribute = node.add_attribute();
  attribute->set_name(name);
  bool hasPoint = value.find('.') != std::string::npos;
  if (value[0] == '\'') {
    attribute->set_type(onnx::AttributeProto::STRING);
    attribute->set_s(inside(value));
  } else if (value[0] == '[' && value[1] == '\'') {
    attribute->set_type(onnx::AttributeProto::STRINGS);
    for (const std::string &part : split(inside(value)))
      attribute->add_strings(inside(part));
  } else if (value[0] == '[') {
    attribute->set_type(hasPoint ? onnx::AttributeProto::FLOATS : onnx::AttributeProto::INTS);
    for (const std::string &part : split(inside(value)))
      if (hasPoint)
        attribute->add_floats(std::stof(part));
      else
        attribute->add_ints(std::stoll(part));
  } else if (hasPoint) {
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(std::stof(value));
  } else {
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(std::stoll(value));
  }
}

} // namespace

std::string autopar::test::modelOf(const std::string &line) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  onnx::GraphProto &graph = *model.mutable_graph();
  graph.set_name("one");
  onnx::NodeProto &node = *graph.add_node();
  node.set_name("n");
  int version = newestVersion, outputs = 1;
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (size_t colons = word.find("::"); colons != std::string::npos) {
    node.set_domain(word.substr(0, colons));
    word = word.substr(colons + 2);
  }
  node.set_op_type(word);
  while (words >> word) {
    std::string name = "x" + std::to_string(node.input_size());
    size_t equals = word.find('=');
    if (word[0] == '>') {
      outputs = std::stoi(word.substr(1));
    } else if (word[0] == '@') {
      version = std::stoi(word.substr(1));
    } else if (word == "-") {
      node.add_input("");
    } else if (word[1] == '[') {
      addInput(graph, name, word);
      node.add_input(name);
    } else if (word[1] == '{' || (equals == 1 && typeLetters.find(word[0]) != std::string::npos)) {
      addConstant(graph, name, word);
      node.add_input(name);
    } else {
      addAttribute(node, word.substr(0, equals), word.substr(equals + 1));
    }
  }
  for (int i = 0; i < outputs; ++i) {
    node.add_output("y" + std::to_string(i));
    graph.add_output()->set_name(node.output(i));
  }
  model.add_opset_import()->set_version(version);
  if (!node.domain().empty()) {
    model.add_opset_import()->set_domain(node.domain());
    model.mutable_opset_import(1)->set_version(1);
  }
  return model.SerializeAsString();
}

void autopar::test::expectRefusals(const std::vector<Refusal> &refusals) {
  Folder folder;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  for (const Refusal &refusal : refusals) {
    std::string line = refusal.line, name = line.substr(0, line.find(' ')), says = refusal.message,
                error;
    if (size_t colons = name.find("::"); colons != std::string::npos)
      name = name.substr(colons + 2);
    const std::string unsupported = "unsupported: ";
    if (says.rfind(unsupported, 0) == 0)
      says = "1 unsupported operator\n      1 x " + says.substr(unsupported.size()) + " in n\n";
    else
      says = "node 'n' (" + name + "): " + says + "\n";
    folder.write("model.onnx", modelOf(line));
    importFile(folder.file("model.onnx"), context, error);
    EXPECT_EQ(error, says) << line;
  }
}
