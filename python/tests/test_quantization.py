# SPDX-License-Identifier: Apache-2.0
"""Quantized networks between QuantizeLinear and DequantizeLinear, against exact arithmetic: every sum in whole numbers, scales and roundings in float64."""

import pathlib
from typing import Dict, List, Optional, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar


class Network:
    """A chain of quantized layers as ONNX, and what each of them computes exactly."""

    def __init__(self, image: np.ndarray, scale: float, zero: int, per_channel: bool) -> None:
        self.draw, self.per_channel = np.random.default_rng(5), per_channel
        self.nodes: List[onnx.NodeProto] = []
        self.weights: List[onnx.TensorProto] = []
        self.results: Dict[str, np.ndarray] = {}
        self.count, self.value, self.scale, self.zero = 0, image.astype(np.float64), np.float32(scale), zero
        self.image = image
        self.quantize("x")

    def constant(self, values: np.ndarray) -> str:
        """An initializer."""
        self.weights.append(numpy_helper.from_array(values, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, kind: str, inputs: List[str], **attributes: object) -> str:
        """A node with one output, whose name it gives."""
        self.count += 1
        self.nodes.append(helper.make_node(kind, inputs, [f"t{self.count}"], f"n{self.count}", **attributes))
        return f"t{self.count}"

    def quantize(self, real: str) -> None:
        """Rounds `value` to whole numbers, half to even; what follows reads them times the scale."""
        scale, zero = self.constant(self.scale), self.constant(np.uint8(self.zero))
        whole = self.node("QuantizeLinear", [real, scale, zero])
        stored = np.clip(np.rint(self.value / float(self.scale)) + self.zero, 0, 255)
        self.results[whole] = stored.astype(np.uint8)
        self.whole = stored - self.zero
        self.current = self.node("DequantizeLinear", [whole, scale, zero])

    def layer(self, kind: str, shape: List[int], channels_at: int, scale: float, **attributes: object) -> None:
        """A product of what is there and a drawn weight of 8 bits, with a bias of 32 bits where it is a convolution, then Relu."""
        stored = self.draw.integers(-127, 128, shape).astype(np.int8)
        channels = shape[channels_at] * attributes.get("group", 1) if kind == "ConvTranspose" else shape[channels_at]
        scales = self.draw.uniform(0.001, 0.01, channels if self.per_channel else ()).astype(np.float32)
        zeros = np.zeros(scales.shape, np.int8)
        weight = self.node("DequantizeLinear", [self.constant(stored), self.constant(scales), self.constant(zeros)], axis=channels_at)
        factors = float(self.scale) * scales.astype(np.float64)
        if kind == "MatMul":
            y = self.node("MatMul", [self.current, weight])
            self.value = self.whole @ stored.astype(np.float64) * factors
        else:
            bias = self.draw.integers(-20000, 20000, channels).astype(np.int32)
            # As quantizers write it: the bias has the scales of the sum, rounded to f32.
            rounded = (self.scale * scales).astype(np.float32) * np.ones(channels, np.float32)
            real_bias = self.node("DequantizeLinear", [self.constant(bias), self.constant(rounded), self.constant(np.zeros(channels, np.int32))], axis=0)
            y = self.node(kind, [self.current, weight, real_bias], **attributes)
            sums = convolved(kind, self.whole, stored.astype(np.float64), attributes)
            column = (1, -1, 1, 1)
            self.value = sums * (factors * np.ones(channels)).reshape(column) + (bias * rounded.astype(np.float64)).reshape(column)
        y = self.node("Relu", [y])
        self.value, self.scale, self.zero = np.maximum(self.value, 0), np.float32(scale), 3
        self.quantize(y)

    def save(self, path: pathlib.Path) -> None:
        """All quantized values are outputs."""
        outputs = [helper.make_tensor_value_info(name, TensorProto.UINT8, None) for name in self.results]
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.image.shape)], outputs, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def convolved(kind: str, x: np.ndarray, w: np.ndarray, attributes: Dict[str, object]) -> np.ndarray:
    """Conv or ConvTranspose of images with 3x3 or 2x2 filters by their definition, in float64, which is exact for whole numbers."""
    groups, stride, pad = attributes.get("group", 1), attributes["strides"][0], attributes["pads"][0]
    side, (n, c, height, width) = w.shape[2], x.shape
    if kind == "ConvTranspose":
        y = np.zeros((n, w.shape[1], (height - 1) * stride + side, (width - 1) * stride + side))
        for i, j in np.ndindex(side, side):
            y[:, :, i:i + (height - 1) * stride + 1:stride, j:j + (width - 1) * stride + 1:stride] += np.einsum("nchw,co->nohw", x, w[:, :, i, j])
        return y
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    seen = np.lib.stride_tricks.sliding_window_view(x, (side, side), (2, 3))[:, :, ::stride, ::stride]
    seen = seen.reshape(n, groups, c // groups, *seen.shape[2:])
    y = np.einsum("ngchwij,gocij->ngohw", seen, w.reshape(groups, -1, *w.shape[1:]))
    return y.reshape(n, -1, *y.shape[3:])


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_as_exact_arithmetic(tmp_path: pathlib.Path, ranks: int, per_channel: bool) -> None:
    """No element is off by a step, whatever the plan."""
    image = np.random.default_rng(7).standard_normal((4, 3, 24, 24)).astype(np.float32)
    net = Network(image, 0.03, 128, per_channel)
    net.layer("Conv", [32, 3, 3, 3], 0, 0.05, strides=[2, 2], pads=[1] * 4)
    net.layer("Conv", [32, 1, 3, 3], 0, 0.04, strides=[1, 1], pads=[1] * 4, group=32)
    net.layer("Conv", [64, 32, 3, 3], 0, 0.1, strides=[1, 1], pads=[1] * 4)
    net.layer("ConvTranspose", [64, 16, 2, 2], 1, 0.2, strides=[2, 2], pads=[0] * 4)
    net.layer("MatMul", [24, 16], 1, 0.1)
    net.save(tmp_path / "model.onnx")
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", ranks=ranks)
    with autopar.Session(compiled) as session:
        actual = session.run({"x": image})
    for name, expected in net.results.items():
        assert 0 < expected.std() < 200
        np.testing.assert_array_equal(actual[name], expected, err_msg=name)


def integer_network(operator: str, x: np.ndarray, w: np.ndarray, path: pathlib.Path, **attributes: object) -> None:
    """A product or convolution of integers alone, with zero points of zero."""
    weights = [numpy_helper.from_array(values, name) for name, values in (("w", w), ("zx", np.zeros((), x.dtype)), ("zw", np.zeros((), w.dtype)))]
    node = helper.make_node(operator, ["x", "w", "zx", "zw"], ["y"], "n", **attributes)
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    graph = helper.make_graph([node], "g", [given], [helper.make_tensor_value_info("y", TensorProto.INT32, None)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def worst(draw: np.random.Generator, kind: type, *shape: int) -> np.ndarray:
    """Numbers of 8 bits that make sums as large as can be, some of them odd so that a rounding shows."""
    top = 255 if kind == np.uint8 else -128
    return (top - draw.integers(0, 2, shape) * np.sign(top)).astype(kind)


#: What may be multiplied as bytes or as bf16, and what is in f32.
PROCESSORS = ["native", "x86-64-v3"]


def run_integers(folder: pathlib.Path, x: np.ndarray, processor: str, ranks: int) -> np.ndarray:
    compiled = autopar.compile(folder / "model.onnx", folder / "c.bin", ranks=ranks, options=["--target-cpu", processor])
    with autopar.Session(compiled) as session:
        return session.run({"x": x})["y"]


@pytest.mark.parametrize("processor, ranks", [(PROCESSORS[0], 1), (PROCESSORS[1], 1), (PROCESSORS[0], 2)])
@pytest.mark.parametrize("rows", [1, 4, 32])
@pytest.mark.parametrize("signs", [(np.uint8, np.int8), (np.uint8, np.uint8)])
def test_products_of_integers_are_exact(tmp_path: pathlib.Path, signs: Tuple[type, type], rows: int, processor: str, ranks: int) -> None:
    """The largest terms there are, so many that floats alone would round their sum: of few rows and of many, in pieces that no number divides."""
    draw = np.random.default_rng(2)
    x, w = worst(draw, signs[0], rows, 5003), worst(draw, signs[1], 5003, 24)
    integer_network("MatMulInteger", x, w, tmp_path / "model.onnx")
    expected = x.astype(np.int64) @ w.astype(np.int64)
    assert np.abs(expected).max() > 8 << 24
    np.testing.assert_array_equal(run_integers(tmp_path, x, processor, ranks), expected)


@pytest.mark.parametrize("processor, ranks", [(PROCESSORS[0], 1), (PROCESSORS[1], 1), (PROCESSORS[0], 2)])
@pytest.mark.parametrize("of_x, of_w", [("one", "one"), ("each", "each"), ("one", "each"), ("each", "one")])
@pytest.mark.parametrize("signs", [(a, b) for a in (np.uint8, np.int8) for b in (np.uint8, np.int8)])
def test_zero_points_of_products_are_exact(tmp_path: pathlib.Path, signs: Tuple[type, type], of_x: str, of_w: str, processor: str,
                                           ranks: int) -> None:
    """Zero points that come with the step and those of weights: one number, or one per row or column; of batches and of few rows."""
    draw = np.random.default_rng(4)
    cases = {"many": (9, 70, 40), "few": (3, 256, 24), "batch": (2, 5, 33, 6)}
    nodes, given, outputs, weights, values, expected = [], [], [], [], {}, {}
    for name, (*batch, rows, depth, columns) in cases.items():
        lines = {"x": of_x == "each" and not batch, "w": of_w == "each" and not batch}
        shapes = {"x": [*batch, rows, depth], "w": [*batch, depth, columns], "zx": [rows] if lines["x"] else [], "zw": [columns] if lines["w"] else []}
        kinds = {"x": signs[0], "w": signs[1], "zx": signs[0], "zw": signs[1]}
        drawn = {key: worst(draw, kinds[key], *shape) if len(key) == 1 else draw.integers(np.iinfo(kinds[key]).min, np.iinfo(kinds[key]).max + 1, shape).astype(kinds[key])
                 for key, shape in shapes.items()}
        nodes.append(helper.make_node("MatMulInteger", [f"{name}.{key}" for key in shapes], [name], name))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.INT32, None))
        for key, value in drawn.items():
            if key in ("w", "zw") and not batch:
                weights.append(numpy_helper.from_array(value, f"{name}.{key}"))
            else:
                given.append(helper.make_tensor_value_info(f"{name}.{key}", helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
                values[f"{name}.{key}"] = value
        wide = {key: value.astype(np.int64) for key, value in drawn.items()}
        zx = wide["zx"][:, None] if lines["x"] else wide["zx"]
        expected[name] = (wide["x"] - zx) @ (wide["w"] - wide["zw"])
    graph = helper.make_graph(nodes, "g", given, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx")
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", ranks=ranks, options=["--target-cpu", processor])
    with autopar.Session(compiled) as session:
        actual = session.run(values)
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_large_products_of_integers_are_exact(tmp_path: pathlib.Path, processor: str) -> None:
    """Where the runtime would compute a product of floats in quarters, whose sums are larger."""
    draw = np.random.default_rng(2)
    x, w = worst(draw, np.int8, 256, 1000), worst(draw, np.int8, 1000, 800)
    integer_network("MatMulInteger", x, w, tmp_path / "model.onnx")
    np.testing.assert_array_equal(run_integers(tmp_path, x, processor, 1), x.astype(np.int64) @ w.astype(np.int64))


@pytest.mark.parametrize("processor, ranks", [(PROCESSORS[0], 1), (PROCESSORS[1], 1), (PROCESSORS[0], 2)])
@pytest.mark.parametrize("channels, filters, groups", [(32, 32, 1), (96, 32, 1), (100, 24, 1), (64, 64, 64), (96, 32, 2), (160, 32, 2)])
def test_convolutions_of_integers_are_exact(tmp_path: pathlib.Path, channels: int, filters: int, groups: int, processor: str, ranks: int) -> None:
    """In one piece, where Winograd's algorithm would make fractions of the numbers, in several, with channels that no piece divides, and in groups."""
    draw = np.random.default_rng(2)
    x, w = worst(draw, np.uint8, 1, channels, 14, 14), worst(draw, np.int8, filters, channels // groups, 3, 3)
    integer_network("ConvInteger", x, w, tmp_path / "model.onnx", pads=[1] * 4, strides=[1, 1], group=groups)
    expected = convolved("Conv", x.astype(np.float64), w.astype(np.float64), {"group": groups, "strides": [1, 1], "pads": [1] * 4})
    np.testing.assert_array_equal(run_integers(tmp_path, x, processor, ranks), expected)


@pytest.mark.parametrize("processor, ranks", [(PROCESSORS[0], 1), (PROCESSORS[1], 1), (PROCESSORS[0], 2)])
@pytest.mark.parametrize("kind, of_filters", [(np.int8, 0), (np.uint8, 128), (np.uint8, 7)])
@pytest.mark.parametrize("kind_of_image", [np.uint8, np.int8])
def test_zero_points_of_convolutions_are_exact(tmp_path: pathlib.Path, kind_of_image: type, kind: type, of_filters: int, processor: str, ranks: int) -> None:
    """The border has the zero point of the image, which comes with the step; filters with and without a sign, in groups, and of one channel each."""
    draw = np.random.default_rng(6)
    x, zero = worst(draw, kind_of_image, 2, 32, 9, 9), draw.integers(1, 120, ()).astype(kind_of_image)
    nodes, outputs, expected = [], [], {}
    weights = [numpy_helper.from_array(np.array(of_filters, kind), "zw")]
    for name, groups, filters, pad, stride in (("whole", 1, 10, 1, 1), ("halves", 2, 32, 1, 2), ("each", 32, 32, 1, 1), ("inner", 1, 16, 0, 1)):
        w = worst(draw, kind, filters, 32 // groups, 3, 3)
        weights.append(numpy_helper.from_array(w, name + ".w"))
        attributes = {"strides": [stride] * 2, "pads": [pad] * 4, "group": groups}
        nodes.append(helper.make_node("ConvInteger", ["x", name + ".w", "zx", "zw"], [name], name, **attributes))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.INT32, None))
        expected[name] = convolved("Conv", x.astype(np.float64) - zero, w.astype(np.float64) - of_filters, attributes)
    given = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape),
             helper.make_tensor_value_info("zx", helper.np_dtype_to_tensor_dtype(x.dtype), [])]
    graph = helper.make_graph(nodes, "g", given, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx")
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", ranks=ranks, options=["--target-cpu", processor])
    with autopar.Session(compiled) as session:
        actual = session.run({"x": x, "zx": zero})
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


def dequantized_network(operator: str, x: np.ndarray, w: np.ndarray, path: pathlib.Path, **attributes: object) -> None:
    """A product or convolution of dequantized values alone. The zero points are 1 and 0, the scales 1/2 and 1/4: what they multiply keeps its digits."""
    constants = {"w": w, "sx": np.float32(0.5), "zx": np.array(1, x.dtype), "sw": np.float32(0.25), "zw": np.array(0, w.dtype)}
    nodes = [helper.make_node("DequantizeLinear", [name, f"s{name}", f"z{name}"], [f"d{name}"], f"n{name}") for name in "xw"]
    nodes.append(helper.make_node(operator, ["dx", "dw"], ["y"], "n", **attributes))
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    weights = [numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()]
    graph = helper.make_graph(nodes, "g", [given], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


DEQUANTIZED = {
    "long": ("MatMul", (32, 5003), (5003, 24), {}),
    "few rows": ("MatMul", (3, 5003), (5003, 24), {}),
    "in quarters": ("MatMul", (256, 1000), (1000, 800), {}),
    "Winograd": ("Conv", (1, 32, 14, 14), (32, 32, 3, 3), {"pads": [1] * 4, "strides": [1, 1]}),
    "many channels": ("Conv", (1, 100, 14, 14), (24, 100, 3, 3), {"pads": [1] * 4, "strides": [1, 1]}),
    "groups": ("Conv", (1, 160, 14, 14), (32, 80, 3, 3), {"pads": [1] * 4, "strides": [1, 1], "group": 2}),
    "large window": ("Conv", (1, 3, 64, 64), (16, 3, 32, 32), {"pads": [0] * 4, "strides": [32, 32]}),
    "overlapping windows": ("Conv", (1, 3, 40, 40), (16, 3, 30, 30), {"pads": [2] * 4, "strides": [3, 3]}),
    "transposed": ("ConvTranspose", (1, 300, 8, 8), (300, 8, 2, 2), {"pads": [0] * 4, "strides": [2, 2]}),
}


@pytest.mark.parametrize("processor, ranks", [(PROCESSORS[0], 1), (PROCESSORS[1], 1), (PROCESSORS[0], 2)])
@pytest.mark.parametrize("case", DEQUANTIZED)
def test_dequantized_sums_are_exact(tmp_path: pathlib.Path, case: str, processor: str, ranks: int) -> None:
    """The largest sums of dequantized values: those of f32 would be rounded, differently in every order."""
    operator, given, weights, attributes = DEQUANTIZED[case]
    draw = np.random.default_rng(2)
    x, w = worst(draw, np.uint8, *given), worst(draw, np.int8, *weights)
    dequantized_network(operator, x, w, tmp_path / "model.onnx", **attributes)
    numbers = x.astype(np.float64) - 1, w.astype(np.float64)
    sums = numbers[0] @ numbers[1] if operator == "MatMul" else convolved(operator, *numbers, attributes)
    np.testing.assert_array_equal(run_integers(tmp_path, x, processor, ranks), (sums * 0.125).astype(np.float32))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("ranks", [1, 2])
def test_rows_of_quantized_tables_are_dequantized(tmp_path: pathlib.Path, ranks: int, axis: Optional[int]) -> None:
    """With a scale and zero point for all, per row or per column, however the table is split."""
    draw = np.random.default_rng(4)
    table, found = draw.integers(0, 256, (512, 96)).astype(np.uint8), draw.integers(-512, 512, (4, 8))
    shape = () if axis is None else (table.shape[axis],)
    scales, zeros = draw.uniform(0.01, 0.02, shape).astype(np.float32), draw.integers(0, 256, shape).astype(np.uint8)
    nodes = [helper.make_node("DequantizeLinear", ["t", "s", "z"], ["f"], axis=axis or 0), helper.make_node("Gather", ["f", "i"], ["y"])]
    weights = [numpy_helper.from_array(np.asarray(values), name) for name, values in (("t", table), ("s", scales), ("z", zeros))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("i", TensorProto.INT64, found.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx")
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", ranks=ranks, options=["--engine", "random"] if ranks > 1 else [])
    with autopar.Session(compiled) as session:
        actual = session.run({"i": found})["y"]
    lined = scales[:, None] if axis == 0 else scales, zeros[:, None] if axis == 0 else zeros
    np.testing.assert_array_equal(actual, ((table.astype(np.float32) - lined[1]) * lined[0])[found])
