# SPDX-License-Identifier: Apache-2.0
"""What models of speech are made of: networks of LSTMs of which the last step is read, and inputs that always have one value."""

import pathlib
import time

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
STEPS, BATCH, WIDE, HIDDEN = 16, 2, 24, 64


def model_of(nodes, inputs, outputs, initializers) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in initializers.items()]
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info(*one) for one in inputs],
                              [helper.make_tensor_value_info(*one) for one in outputs], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(path: pathlib.Path, feeds, tmp_path: pathlib.Path, **options) -> None:
    """The same as onnxruntime."""
    reference = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = dict(zip([output.name for output in reference.get_outputs()], reference.run(None, feeds)))
    fixed = options.get("fix_inputs", {})
    with autopar.Session(autopar.compile(path, tmp_path / "compiled.bin", **options)) as session:
        actual = session.run({name: value for name, value in feeds.items() if name not in fixed})
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("ranks", [1, 2])
def test_two_bidirectional_lstms_compile_in_a_moment_and_only_the_last_step_of_the_second_is_kept(
        ranks: int, tmp_path: pathlib.Path) -> None:
    random = np.random.default_rng(1)

    def drawn(*shape: int) -> np.ndarray:
        return (0.2 * random.standard_normal(shape)).astype(np.float32)

    weights = {}
    for layer, (wide, hidden) in enumerate([(WIDE, HIDDEN), (2 * HIDDEN, HIDDEN // 2)]):
        weights |= {f"w{layer}": drawn(2, 4 * hidden, wide), f"r{layer}": drawn(2, 4 * hidden, hidden), f"b{layer}": drawn(2, 8 * hidden)}
    nodes = [
        helper.make_node("LSTM", ["x", "w0", "r0", "b0"], ["y0"], "first", direction="bidirectional", hidden_size=HIDDEN),
        helper.make_node("Split", ["y0"], ["to_end", "to_start"], axis=1),
        helper.make_node("Squeeze", ["to_end", "one"], ["to_end_flat"]),
        helper.make_node("Squeeze", ["to_start", "one"], ["to_start_flat"]),
        helper.make_node("Concat", ["to_end_flat", "to_start_flat"], ["both"], axis=2),
        helper.make_node("LSTM", ["both", "w1", "r1", "b1"], ["y1"], "second", direction="bidirectional", hidden_size=HIDDEN // 2),
        helper.make_node("Squeeze", ["y1_forward", "one"], ["forward"]),
        helper.make_node("Slice", ["forward", "last", "end", "zero"], ["z"]),
    ]
    nodes.insert(6, helper.make_node("Slice", ["y1", "zero", "one", "one"], ["y1_forward"]))
    constants = {"one": np.array([1]), "zero": np.array([0]), "last": np.array([-1]),
                 "end": np.array([2**63 - 1])}
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, [("x", FLOAT, [STEPS, BATCH, WIDE])], [("z", FLOAT, [1, BATCH, HIDDEN // 2])], weights | constants), path)
    start = time.monotonic()
    autopar.compile(path, tmp_path / "timed.bin", ranks=ranks)
    assert time.monotonic() - start < 6  # 14 s while copies of steps were written out
    prepared = autopar.compiler.run_tool([str(autopar.find_tool("autopar-compile")), str(path), "--stop-after", "prepare", "-o", "-", "--quiet"])
    assert 'autopar.id = "first/concat' in prepared and 'autopar.id = "second/concat' not in prepared
    check(path, {"x": drawn(STEPS, BATCH, WIDE)}, tmp_path, ranks=ranks)


@pytest.mark.parametrize("rate", [16000, 8000])
def test_an_input_that_is_fixed_chooses_the_branch_that_holds(rate: int, tmp_path: pathlib.Path) -> None:
    def window(size: int) -> onnx.GraphProto:
        node = helper.make_node("MatMul", ["x", f"weight{size}"], [f"y{size}"], f"matmul{size}")
        return helper.make_graph([node], f"window{size}", [], [helper.make_tensor_value_info(f"y{size}", FLOAT, [1, 4])])

    size = {16000: 6, 8000: 3}[rate]
    nodes = [helper.make_node("Equal", ["sr", "high"], ["is_high"]),
             helper.make_node("If", ["is_high"], ["y"], "choice", then_branch=window(6), else_branch=window(3))]
    random = np.random.default_rng(0)
    values = {"high": np.array(16000), **{f"weight{n}": random.standard_normal((n, 4)).astype(np.float32) for n in (3, 6)}}
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, [("x", FLOAT, [1, "size"]), ("sr", INT64, [])], [("y", FLOAT, [1, 4])], values), path)
    feeds = {"x": random.standard_normal((1, size)).astype(np.float32), "sr": np.array(rate)}
    with pytest.raises(autopar.Error, match=r"\(MatMul\): .*; a branch of the If here .* --fix-input NAME=NUMBER"):
        autopar.compile(path, tmp_path / "compiled.bin", bind={"size": size})
    check(path, feeds, tmp_path, bind={"size": size}, fix_inputs={"sr": rate})
