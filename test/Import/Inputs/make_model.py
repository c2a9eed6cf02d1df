# SPDX-License-Identifier: Apache-2.0
"""Makes the small ONNX models of the import tests: make_model.py NAME FILE."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, initializers=(), opset=17, **options):
    tensors = [numpy_helper.from_array(array, name) for name, array in initializers]
    graph = helper.make_graph(nodes, "test", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *options.pop("domains", [])],
                             ir_version=8, **options)


def mlp():
    """Two products with a gelu between, as an exporter names them."""
    nodes = [helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], "fc1", transB=1),
             helper.make_node("Gelu", ["h"], ["a"], "act"),
             helper.make_node("MatMul", ["a", "fc2.weight"], ["y"], "fc2")]
    weights = [("fc1.weight", np.zeros((256, 64), np.float32)), ("fc1.bias", np.zeros(256, np.float32)),
               ("fc2.weight", np.zeros((256, 64), np.float32))]
    return model(nodes, [value("x", ["batch", 64])], [value("y", ["batch", 64])], weights, opset=20)


def shapes():
    """A reshape to a computed shape: Shape, Gather, Unsqueeze, Concat, Reshape."""
    nodes = [helper.make_node("Shape", ["x"], ["s"]),
             helper.make_node("Gather", ["s", "zero"], ["b"]),
             helper.make_node("Unsqueeze", ["b", "axes"], ["b1"]),
             helper.make_node("Concat", ["b1", "rest"], ["shape"], axis=0),
             helper.make_node("Reshape", ["x", "shape"], ["y"], "flatten")]
    tables = [("zero", np.array(0)), ("axes", np.array([0])), ("rest", np.array([-1]))]
    return model(nodes, [value("x", ["n", "c", 4])], [value("y", None)], tables)


def flattened():
    """Rows of batch and sequence flattened around a Gemm."""
    nodes = [helper.make_node("Reshape", ["x", "rows"], ["r"]),
             helper.make_node("Gemm", ["r", "w", "b"], ["g"], "proj"),
             helper.make_node("Reshape", ["g", "back"], ["y"])]
    tables = [("rows", np.array([-1, 16])), ("back", np.array([2, 8, 32])),
              ("w", np.zeros((16, 32), np.float32)), ("b", np.zeros(32, np.float32))]
    return model(nodes, [value("x", [2, 8, 16])], [value("y", [2, 8, 32])], tables)


def rows():
    """A product of rows, of which there are batch times seq."""
    return model([helper.make_node("MatMul", ["x", "w"], ["y"], "fc")], [value("x", ["batch", "seq", 4])],
                 [value("y", ["batch", "seq", 4])], [("w", np.zeros((4, 4), np.float32))])


def loop():
    """Four steps of doubling, the rows collected."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c1"]), helper.make_node("Add", ["s", "s"], ["s1"], "double"),
         helper.make_node("Identity", ["s1"], ["row"])],
        "body", [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [3])],
        [value("c1", [], TensorProto.BOOL), value("s1", [3]), value("row", [3])])
    nodes = [helper.make_node("Loop", ["trips", "yes", "x"], ["last", "rows"], "loop", body=body)]
    return model(nodes, [value("x", [3])], [value("rows", [4, 3])], [("trips", np.array(4)), ("yes", np.array(True))])


def function():
    """A function of the model, with an attribute, called twice."""
    scaled = helper.make_function("local", "Scaled", ["a"], ["b"], [
        helper.make_node("Constant", [], ["f"]), helper.make_node("Mul", ["a", "f"], ["b"], "times")],
        [helper.make_opsetid("", 17)], ["by"])
    reference = scaled.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "by", onnx.AttributeProto.FLOAT
    nodes = [helper.make_node("Scaled", ["x"], ["h"], "first", domain="local", by=2.0),
             helper.make_node("Scaled", ["h"], ["y"], "second", domain="local", by=3.0)]
    return model(nodes, [value("x", [3])], [value("y", [3])], domains=[helper.make_opsetid("local", 1)], functions=[scaled])


def absent():
    """A parameter whose external file does not exist."""
    made = model([helper.make_node("MatMul", ["x", "w"], ["y"], "fc")], [value("x", [2, 4])], [value("y", [2, 8])])
    tensor = made.graph.initializer.add()
    tensor.name, tensor.data_type, tensor.data_location = "w", TensorProto.FLOAT, TensorProto.EXTERNAL
    tensor.dims.extend([4, 8])
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "nowhere"
    return made


def unsupported():
    """Three operators that do not exist, one of them twice, and one that is refused."""
    nodes = [helper.make_node("Frobnicate", ["x"], ["a"], "f0"), helper.make_node("Frobnicate", ["a"], ["b"], "f1"),
             helper.make_node("Other", ["b"], ["c"], domain="com.example"), helper.make_node("StringNormalizer", ["c"], ["y"], "s")]
    return model(nodes, [value("x", [3])], [value("y", [3])], domains=[helper.make_opsetid("com.example", 1)])


def onnxruntimes():
    """An operator of onnxruntime that is refused, and a convolution in the layout that its optimizer chose for a processor."""
    nodes = [helper.make_node("MatMulFpQ4", ["x", "x", "x"], ["h"], "product", domain="com.microsoft"),
             helper.make_node("Conv", ["h", "x"], ["y"], "conv", domain="com.microsoft.nchwc")]
    return model(nodes, [value("x", [3])], [value("y", [3])],
                 domains=[helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("com.microsoft.nchwc", 1)])


def newer():
    """An operator set that is not known yet, in the body of a Loop."""
    made = loop()
    made.opset_import[0].version = 29
    return made


def classical():
    """Operators of ai.onnx.ml, of a version that is not known yet."""
    return model([helper.make_node("Scaler", ["x"], ["y"], "s", domain="ai.onnx.ml", scale=[2.0])], [value("x", [3])], [value("y", [3])],
                 domains=[helper.make_opsetid("ai.onnx.ml", 6)])


def preview():
    """An operator of ai.onnx.preview, of a version that is not known yet."""
    heads = [value(name, [1, 2, 3, 4]) for name in "qkvy"]
    return model([helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], "f", domain="ai.onnx.preview")], heads[:3], heads[3:],
                 domains=[helper.make_opsetid("ai.onnx.preview", 2)])


def unversioned():
    """Operators of a domain of which the model imports no version."""
    made = classical()
    del made.opset_import[1]
    return made


def twice():
    """Two versions of the same operators."""
    made = attribute()
    made.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    return made


def oldest():
    """Forms of the first operator sets: rounded constants of a Selu, a Dropout that is of training unless it says otherwise."""
    nodes = [helper.make_node("Selu", ["x"], ["a"], "selu"), helper.make_node("Dropout", ["a"], ["b"], "kept", is_test=1),
             helper.make_node("Dropout", ["b"], ["y", "mask"], "dropped")]
    return model(nodes, [value("x", [3])], [value("y", [3]), value("mask", [3])], opset=1)


def attribute():
    """An attribute that the operator does not have."""
    return model([helper.make_node("Relu", ["x"], ["y"], "act", slope=0.5)], [value("x", [3])], [value("y", [3])])


def cycle():
    """Two nodes that wait for each other."""
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], "first"), helper.make_node("Neg", ["a"], ["b"], "second")]
    return model(nodes, [value("x", [3])], [value("a", [3])])


def misfit():
    """Operands that do not broadcast."""
    return model([helper.make_node("Add", ["x", "z"], ["y"], "sum")], [value("x", [3]), value("z", [4])], [value("y", [3])])


def dynamic():
    """A result whose shape depends on values."""
    return model([helper.make_node("NonZero", ["x"], ["y"], "where")], [value("x", [3])], [value("y", None, TensorProto.INT64)])


def note(proto, **entries):
    """Metadata of a value or node."""
    for key, text in entries.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = {"kind": "pkg.torch.export.graph_signature.InputSpec.kind", "fx": "pkg.torch.onnx.fx_node",
                                  "folded": "pkg.onnxscript.optimizer.folded_from", "scopes": "pkg.torch.onnx.name_scopes"}[key], text
    return proto


def branches():
    """y = 2 x where rate is 16000, else x twice, one behind the other."""
    twice = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["t"], "double")], "twice", [], [value("t", ["n"])])
    behind = helper.make_graph([helper.make_node("Concat", ["x", "x"], ["e"], "behind", axis=0)], "behind", [], [value("e", ["m"])])
    nodes = [helper.make_node("Equal", ["rate", "high"], ["is_high"]),
             helper.make_node("If", ["is_high"], ["y"], "choice", then_branch=twice, else_branch=behind)]
    inputs = [value("x", [3]), value("rate", [], TensorProto.INT64)]
    return model(nodes, inputs, [value("y", ["k"])], [("two", np.array(2, np.float32)), ("high", np.array(16000))])


def unlike():
    """As branches, but one branch does not hold for the shape of x."""
    proto = branches()
    del proto.graph.node[1].attribute[1].g.node[0].attribute[:]
    proto.graph.node[1].attribute[1].g.node[0].op_type = "MatMul"
    proto.graph.node[1].attribute[1].g.node[0].input[:] = ["x", "pair"]
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros((2, 2), np.float32), "pair"))
    return proto


def tied():
    """Token embedding and output matrix as torch.onnx exports them: one weight, and what was computed of it and of tables."""
    random = np.random.default_rng(0)
    embed = random.standard_normal((5, 4)).astype(np.float32)
    weights = {"embed.weight": embed, "val_1": embed.T.copy(), "rope.table": np.ones((5, 4), np.float32),
               "val_2": random.standard_normal((5, 4)).astype(np.float32), "slopes": np.arange(4, dtype=np.float32),
               "add_1": np.full(4, 2, np.float32), "other.weight": np.zeros((4, 4), np.float32), "val_3": np.zeros((4, 4), np.float32)}
    nodes = [helper.make_node("Gather", ["embed.weight", "ids"], ["e"], "embed"),
             helper.make_node("Gather", ["rope.table", "ids"], ["r"], "rope"),
             note(helper.make_node("Gather", ["val_2", "ids"], ["p"], "positions"),
                  fx="%g : call_function[target=torch.ops.aten.index.Tensor](args = (%b_pos_table, [%ids]), kwargs = {})"),
             helper.make_node("Sum", ["e", "r", "p", "slopes"], ["s"], "sum"), note(helper.make_node("Mul", ["s", "add_1"], ["m"], "norm"),
                  fx="%norm : call_function[target=norm](args = (%s, %p_norm_weight, %p_norm_bias), kwargs = {})", scopes="['', 'norm']"),
             helper.make_node("MatMul", ["m", "other.weight"], ["a"], "a"), note(helper.make_node("MatMul", ["a", "val_3"], ["b"], "b"),
                  fx="%linear : call_function[target=torch.ops.aten.linear.default](args = (%a, %p_other2_weight), kwargs = {})"),
             helper.make_node("MatMul", ["b", "val_1"], ["logits"], "head")]
    made = model(nodes, [value("ids", ["n"], TensorProto.INT64)], [value("logits", ["n", 5])], weights.items(), producer_name="pytorch")
    for name, entries in {"embed.weight": {"kind": "PARAMETER"}, "rope.table": {"kind": "BUFFER"}, "val_1": {"folded": "['embed.weight']"},
                          "val_2": {"folded": "['pos.table']"}, "slopes": {"folded": "['arange', 'pow_1']"},
                          "add_1": {"folded": "['norm.weight', 'val_6']"}, "val_3": {"folded": "['other2.weight']"}}.items():
        made.graph.value_info.append(note(value(name, weights[name].shape), **entries))
    return made


def composed():
    """Dimensions that are named by others."""
    inputs = {"past": ["batch", "past_length", 2], "mask": ["batch", "past_length + length"], "wide": ["2*(length - 1)*batch"], "odd": ["batch-size"]}
    nodes = [helper.make_node("Identity", [name], [name + "_out"]) for name in inputs]
    return model(nodes, [value(name, shape) for name, shape in inputs.items()], [value(name + "_out", None) for name in inputs])


def shared():
    """A layer that is used twice and single numbers, as torch.onnx exports them: what it computed of the layer's weight is stored twice."""
    twice = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    weights = {"val_1": twice, "val_2": twice, "scale": np.array(2, np.float32), "exp": np.array(3, np.float32), "clone": np.array(4, np.float32),
               "pow_1": np.array([5], np.float32), "offset": np.array([6], np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "val_1"], ["a"], "first"), helper.make_node("Relu", ["a"], ["r"]),
             helper.make_node("MatMul", ["r", "val_2"], ["b"], "second"), helper.make_node("Mul", ["b", "scale"], ["c"]),
             helper.make_node("Mul", ["c", "exp"], ["d"]), helper.make_node("Mul", ["d", "clone"], ["e"]), helper.make_node("Mul", ["e", "pow_1"], ["f"]),
             helper.make_node("Add", ["f", "offset"], ["y"])]
    made = model(nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], weights.items(), producer_name="pytorch")
    for name, entries in {"val_1": {"folded": "['layer.weight']"}, "val_2": {"folded": "['layer.weight']"}, "scale": {"kind": "PARAMETER"},
                          "exp": {"folded": "['head.logit_scale']"}, "clone": {"folded": "['head.lifted_tensor_0']"},
                          "pow_1": {"folded": "['val_7']"}, "offset": {"kind": "BUFFER"}}.items():
        made.graph.value_info.append(note(value(name, weights[name].shape), **entries))
    return made


if __name__ == "__main__":
    onnx.save(globals()[sys.argv[1]](), sys.argv[2])
