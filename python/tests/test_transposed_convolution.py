# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions against onnxruntime: strides, pads, dilations, groups, and what lies in blocks of channels."""

import pathlib
import subprocess
from typing import Any, Dict, List

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
from autopar.tools import find_tool

#: channels, filters of a group, groups, kernel and the node's attributes
CASES: Dict[str, Any] = {
    "twice as large": (32, 16, 1, [2, 2], {"strides": [2, 2]}),
    "overlapping": (16, 16, 1, [4, 4], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "groups": (32, 16, 2, [3, 3], {"strides": [2, 1], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}),
    "dilated": (16, 16, 1, [3, 3], {"strides": [2, 2], "dilations": [2, 2]}),
    "one channel each": (16, 1, 16, [3, 3], {"strides": [2, 2]}),
    "few channels": (3, 5, 1, [3, 3], {"strides": [3, 3], "output_padding": [2, 2]}),
    "cut": (4, 4, 1, [1, 1], {"strides": [1, 1], "pads": [1, 1, 1, 1]}),
    "a line": (16, 8, 1, [5], {"strides": [4]}),
}


def make_model(path: pathlib.Path, channels: int, filters: int, groups: int, kernel: List[int], attributes: Dict[str, Any]) -> np.ndarray:
    """Relu of a ConvTranspose with bias; gives the input to run it on."""
    draw = np.random.default_rng(3)
    weight = numpy_helper.from_array(draw.standard_normal((channels, filters, *kernel)).astype(np.float32), "w")
    bias = numpy_helper.from_array(draw.standard_normal(filters * groups).astype(np.float32), "b")
    image = draw.standard_normal((4, channels, *range(7, 7 - len(kernel), -1))).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w", "b"], ["up"], "up", group=groups, **attributes),
         helper.make_node("Relu", ["up"], ["y"], "relu")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, image.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [weight, bias])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return image


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_as_onnxruntime(tmp_path: pathlib.Path, name: str, ranks: int) -> None:
    """The same numbers, by a call of the library as far as it has one."""
    model = tmp_path / "model.onnx"
    image = make_model(model, *CASES[name])
    expected = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"x": image})[0]
    compiled = autopar.compile(model, tmp_path / "c.bin", ranks=ranks)
    with autopar.Session(compiled) as session:
        actual = session.run({"x": image})["y"]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    dump = subprocess.run([find_tool("autopar-translate"), "--dump", compiled], capture_output=True, text=True, check=True).stdout
    assert "gradient of the input" in dump
