# SPDX-License-Identifier: Apache-2.0
"""Networks whose channels fill no blocks learn with activations whose channels lie behind all else, as they do written out."""

import pathlib
import subprocess
from typing import List

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar

CHANNELS, STEPS = 24, 3


@pytest.fixture(name="network", scope="module")
def fixture_network(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An image, a depthwise convolution with its normalization, a residual, another width, the mean of each channel."""
    generator = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((generator.standard_normal(shape) * 0.2).astype(np.float32), name)

    ones, zeros = np.ones(CHANNELS, np.float32), np.zeros(CHANNELS, np.float32)
    statistics = [numpy_helper.from_array(value, name) for name, value in
                  (("scale", ones), ("bias", zeros), ("mean", zeros), ("variance", ones))]
    nodes = [helper.make_node("Conv", ["x", "first"], ["a"], pads=[1] * 4, strides=[2, 2]),
             helper.make_node("Conv", ["a", "depthwise"], ["b"], pads=[2] * 4, group=CHANNELS),
             helper.make_node("BatchNormalization", ["b", "scale", "bias", "mean", "variance"], ["c", "m", "v"], training_mode=1),
             helper.make_node("HardSwish", ["c"], ["d"]),
             helper.make_node("Add", ["a", "d"], ["e"]),
             helper.make_node("Conv", ["e", "last"], ["f"]),
             helper.make_node("GlobalAveragePool", ["f"], ["g"]),
             helper.make_node("Flatten", ["g"], ["y"])]
    graph = helper.make_graph(
        nodes, "odd", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 10])],
        [weight("first", CHANNELS, 3, 3, 3), weight("depthwise", CHANNELS, 1, 5, 5), weight("last", 10, CHANNELS, 1, 1), *statistics])
    path = tmp_path_factory.mktemp("network") / "odd.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def losses(network: pathlib.Path, artifact: pathlib.Path, ranks: int, convolutions: str) -> List[float]:
    """Of some steps of gradient descent on one batch."""
    generator = np.random.default_rng(1)
    batch = {"x": generator.standard_normal((4, 3, 16, 16)).astype(np.float32), "target": generator.standard_normal((4, 10)).astype(np.float32)}
    train = autopar.Train(loss="mse(y, target)", optimizer=autopar.SGD(lr=0.1))
    compiled = autopar.compile(network, artifact, ranks=ranks, train=train, options=["--convolutions", convolutions])
    with autopar.Session(compiled) as session:
        return [float(session.run(batch)["loss"]) for _ in range(STEPS)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_odd_channels_learn_by_calls_as_written_out(network: pathlib.Path, tmp_path: pathlib.Path, ranks: int) -> None:
    calls = losses(network, tmp_path / "calls.bin", ranks, "auto")
    written = losses(network, tmp_path / "kernels.bin", 1, "kernels")
    assert calls == pytest.approx(written, rel=1e-4)
    assert calls[-1] < calls[0]


@pytest.mark.parametrize("options", [[], ["--ranks", "2", "--mesh", "data=2"], ["--ranks", "2", "--mesh", "tensor=2"], ["--ranks", "2", "--stages", "2"]],
                         ids=["one", "data", "tensor", "stages"])
def test_channels_that_fill_no_block_are_filled_between_convolutions(tmp_path: pathlib.Path, options: List[str]) -> None:
    """16, 8, 12 and 16 channels with biases and activations, against onnxruntime; on one rank all run on blocks."""
    generator = np.random.default_rng(2)
    channels, nodes, weights, value = [16, 8, 12, 16], [], [], "x"
    for number, (before, after) in enumerate(zip(channels, channels[1:])):
        weights += [numpy_helper.from_array((generator.standard_normal(shape) * 0.2).astype(np.float32), name)
                    for name, shape in ((f"w{number}", (after, before, 3, 3)), (f"b{number}", (after,)))]
        nodes += [helper.make_node("Conv", [value, f"w{number}", f"b{number}"], [f"c{number}"], f"conv{number}", pads=[1] * 4),
                  helper.make_node(("Relu", "Sigmoid", "HardSwish")[number], [f"c{number}"], [f"a{number}"])]
        value = f"a{number}"
    graph = helper.make_graph(nodes, "filled", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 16, 12, 12])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, [2, 16, 12, 12])], weights)
    path = tmp_path / "filled.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    x = generator.standard_normal((2, 16, 12, 12)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    compiled = autopar.compile(path, tmp_path / "filled.bin", options=options)
    with autopar.Session(compiled) as session:
        np.testing.assert_allclose(session.run({"x": x})[value], expected, rtol=1e-4, atol=1e-5)
    if not options:
        dump = subprocess.run([autopar.find_tool("autopar-translate"), "--dump", compiled.path], capture_output=True, text=True, check=True, timeout=60).stdout
        assert dump.count("/blocked>blocked") >= 3 and "plain>plain" not in dump
