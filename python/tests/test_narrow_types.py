# SPDX-License-Identifier: Apache-2.0
"""Integers of 2 and 4 bits and floats of 4 and 8: what is below 8 bits models pack into bytes and programs hold one per
byte. Against NumPy and onnxruntime."""

import pathlib
import subprocess
from typing import Dict, List, Tuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
from autopar.tools import find_tool

RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
FLOATS = ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1"]


def narrow(name: str) -> np.dtype:
    return helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name.upper()))


def save(path: pathlib.Path, nodes: List[onnx.NodeProto], inputs: Dict[str, Tuple[int, List[int]]], outputs: Dict[str, int],
         weights: List[onnx.TensorProto], version: int = 25, **options: object) -> pathlib.Path:
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
                              [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=11), path, **options)
    return path


def run(path: pathlib.Path, ranks: int, inputs: Dict[str, np.ndarray], *options: str) -> Dict[str, np.ndarray]:
    random = ["--engine", "random", "--seed", "3"] if ranks > 1 else []
    compiled = autopar.compile(path, path.with_suffix(".bin"), ranks=ranks, options=[*random, *options])
    with autopar.Session(compiled) as session:
        return session.run(inputs)


def repeated(array: np.ndarray, shape: Tuple[int, int], axis: int, block: int) -> np.ndarray:
    """A scale or zero point for each element of `shape`."""
    if block:
        return np.repeat(array, block, axis).take(range(shape[axis]), axis)
    return np.broadcast_to(array if array.ndim == 0 else np.expand_dims(array, 1 - axis), shape)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind, shape, axis, block, has_zero, external", [
    ("int4", (64, 48), 0, 16, True, False), ("uint4", (64, 48), 0, 32, True, True), ("int4", (64, 48), 1, 16, False, False),
    ("uint4", (70, 48), 0, 32, True, False),  # the last block is shorter
    ("int4", (65, 47), 1, 0, True, False),  # rows do not fill whole bytes
    ("uint2", (96, 64), 0, 16, True, False), ("int2", (96, 64), 1, 0, False, True), ("int4", (6, 4), 0, 2, True, False)])
def test_product_with_quantized_weights(tmp_path: pathlib.Path, kind: str, shape: Tuple[int, int], axis: int, block: int, has_zero: bool,
                                        external: bool, ranks: int) -> None:
    """As weight-only quantizers write it; beyond some size the weights are a parameter, which stays packed."""
    random = np.random.default_rng(11)
    low, high = RANGES[kind]
    scales_shape = list(shape) if block else [shape[axis]]
    if block:
        scales_shape[axis] = -(-shape[axis] // block)
    x = random.standard_normal((3, shape[0])).astype(np.float32)
    w = random.integers(low, high + 1, shape)
    scale = random.uniform(0.01, 0.1, scales_shape).astype(np.float32)
    zero = random.integers(low, high + 1, scales_shape) if has_zero else np.zeros(scales_shape, np.int64)
    weights = [numpy_helper.from_array(w.astype(narrow(kind)), "w"), numpy_helper.from_array(scale, "s")]
    weights += [numpy_helper.from_array(zero.astype(narrow(kind)), "z")] if has_zero else []
    nodes = [helper.make_node("DequantizeLinear", [tensor.name for tensor in weights], ["f"], axis=axis, block_size=block),
             helper.make_node("MatMul", ["x", "f"], ["y"])]
    options = {"save_as_external_data": True, "location": "weights", "size_threshold": 0} if external else {}
    path = save(tmp_path / "model.onnx", nodes, {"x": (TensorProto.FLOAT, list(x.shape))}, {"y": TensorProto.FLOAT}, weights, **options)
    y = run(path, ranks, {"x": x})["y"]
    real = (w - repeated(zero, shape, axis, block)) * repeated(scale, shape, axis, block).astype(np.float64)
    np.testing.assert_allclose(y, x @ real, rtol=1e-4, atol=1e-4)
    if kind in ("int4", "uint4") and shape[axis] % max(block, 1) == 0:
        theirs = save(tmp_path / "theirs.onnx", nodes, {"x": (TensorProto.FLOAT, list(x.shape))}, {"y": TensorProto.FLOAT}, weights, version=21)
        plain = onnxruntime.SessionOptions()  # optimized, it rounds x to 8 bits
        plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        np.testing.assert_allclose(y, onnxruntime.InferenceSession(theirs, plain).run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind, block", [*((kind, 0) for kind in FLOATS), ("float8e4m3fn", 16), ("float4e2m1", 16)])
def test_product_with_weights_in_narrow_floats(tmp_path: pathlib.Path, kind: str, block: int, ranks: int) -> None:
    random = np.random.default_rng(5)
    x, w = random.standard_normal((3, 64)).astype(np.float32), random.standard_normal((64, 48)).astype(narrow(kind))
    scale = random.uniform(0.01, 0.1, [64 // block, 48] if block else [48]).astype(np.float32)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"], axis=0 if block else 1, block_size=block),
             helper.make_node("MatMul", ["x", "f"], ["y"])]
    path = save(tmp_path / "model.onnx", nodes, {"x": (TensorProto.FLOAT, [3, 64])}, {"y": TensorProto.FLOAT},
                [numpy_helper.from_array(w, "w"), numpy_helper.from_array(scale, "s")])
    real = w.astype(np.float64) * repeated(scale, (64, 48), 0 if block else 1, block)
    np.testing.assert_allclose(run(path, ranks, {"x": x})["y"], x @ real, rtol=1e-4, atol=1e-4)


def test_python_takes_and_gives_narrow_floats(tmp_path: pathlib.Path) -> None:
    numbers = np.array([0.5, -6, 448, np.nan], np.float32).astype(narrow("float8e4m3fn"))
    to = TensorProto.FLOAT8E5M2
    path = save(tmp_path / "model.onnx", [helper.make_node("Cast", ["x"], ["y"], to=to)], {"x": (TensorProto.FLOAT8E4M3FN, [4])}, {"y": to}, [])
    y = run(path, 1, {"x": numbers})["y"]
    assert y.dtype == narrow("float8e5m2")
    np.testing.assert_array_equal(y.astype(np.float32), numbers.astype(np.float32))


@pytest.mark.parametrize("kind", ["bfloat16", "float16", *FLOATS])
def test_autopar_run_makes_up_narrow_floats_and_reads_their_files(tmp_path: pathlib.Path, kind: str) -> None:
    """What is made up is that of f32, rounded."""
    def run_tool(kind: str, source: str) -> np.ndarray:
        path = save(tmp_path / "model.onnx", [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
                    {"x": (getattr(TensorProto, kind.upper()), [64])}, {"y": TensorProto.FLOAT}, [])
        subprocess.run([find_tool("autopar-run"), autopar.compile(path, tmp_path / "c.bin"), "-i", f"x={source}", "-o", tmp_path], check=True)
        return np.load(tmp_path / "y.npy")

    rounded = run_tool("float", "random").astype(narrow(kind))
    np.testing.assert_array_equal(run_tool(kind, "random"), rounded.astype(np.float32))
    np.save(tmp_path / "x.npy", rounded[::-1].copy())
    np.testing.assert_array_equal(run_tool(kind, str(tmp_path / "x.npy")), rounded[::-1].astype(np.float32))


@pytest.mark.parametrize("kind", ["int4", "float4e2m1"])
def test_quantized_weights_stay_packed(tmp_path: pathlib.Path, kind: str) -> None:
    """A parameter of half a byte per element, under the initializer's name."""
    w = np.arange(64 * 48).reshape(64, 48) % 16 - 8
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"]), helper.make_node("MatMul", ["x", "f"], ["y"])]
    path = save(tmp_path / "model.onnx", nodes, {"x": (TensorProto.FLOAT, [3, 64])}, {"y": TensorProto.FLOAT},
                [numpy_helper.from_array(w.astype(narrow(kind)), "w"), numpy_helper.from_array(np.float32(0.5), "s")])
    compiled = autopar.compile(path, tmp_path / "compiled.bin")
    program = subprocess.run([autopar.find_tool("autopar-translate"), "--dump", compiled], check=True, capture_output=True, text=True).stdout
    assert 'parameter "w" : 64x24xu8 in' in program


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_are_stored_in_either_field(tmp_path: pathlib.Path, kind: str) -> None:
    numbers = np.array([0.5, -1, 2, -3, 0], np.float32).astype(narrow(kind))
    raw = numpy_helper.from_array(numbers, "raw")
    typed = onnx.TensorProto(data_type=raw.data_type, dims=raw.dims, name="typed", int32_data=list(raw.raw_data))
    nodes = [helper.make_node("Cast", [name], [f"y_{name}"], to=TensorProto.FLOAT) for name in ("raw", "typed")]
    path = save(tmp_path / "model.onnx", nodes, {}, {"y_raw": TensorProto.FLOAT, "y_typed": TensorProto.FLOAT}, [raw, typed])
    for y in run(path, 1, {}).values():
        np.testing.assert_array_equal(y, numbers.astype(np.float32))


@pytest.mark.parametrize("kind", list(RANGES))
def test_stored_in_either_field(tmp_path: pathlib.Path, kind: str) -> None:
    """Bytes, or int32_data with a byte in each; five of them leave part of the last one unused."""
    low, high = RANGES[kind]
    numbers = (np.arange(5) % (high - low + 1) + low).astype(narrow(kind))
    raw = numpy_helper.from_array(numbers, "raw")
    typed = onnx.TensorProto(data_type=raw.data_type, dims=raw.dims, name="typed", int32_data=list(raw.raw_data))
    nodes = [helper.make_node("Cast", [name], [f"y_{name}"], to=TensorProto.INT32) for name in ("raw", "typed")]
    nodes.append(helper.make_node("Transpose", ["typed"], ["held"]))
    path = save(tmp_path / "model.onnx", nodes, {}, {"y_raw": TensorProto.INT32, "y_typed": TensorProto.INT32, "held": raw.data_type}, [raw, typed])
    y = run(path, 1, {})
    for name in ("y_raw", "y_typed", "held"):
        np.testing.assert_array_equal(y[name], numbers.astype(np.int32))
    assert y["held"].dtype == (np.int8 if low < 0 else np.uint8)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind", list(RANGES))
def test_casts_and_quantization(tmp_path: pathlib.Path, kind: str, ranks: int) -> None:
    """Casts drop upper bits, quantization saturates; the caller's integers are held in bytes."""
    low, high = RANGES[kind]
    to = getattr(TensorProto, kind.upper())
    x = np.arange(-20, 20, dtype=np.float32).reshape(4, 10)
    q = np.resize(np.arange(low, high + 1), (4, 10)).astype(np.int8 if low < 0 else np.uint8)
    nodes = [helper.make_node("Cast", ["x"], ["from_float"], to=to), helper.make_node("Cast", ["i"], ["from_int"], to=to),
             helper.make_node("Cast", ["q"], ["to_float"], to=TensorProto.FLOAT), helper.make_node("CastLike", ["x", "q"], ["like"]),
             helper.make_node("QuantizeLinear", ["x", "s"], ["quantized"], output_dtype=to),
             helper.make_node("Cast", ["c"], ["known"], to=to), helper.make_node("Cast", ["known"], ["folded"], to=TensorProto.INT16),
             helper.make_node("Reshape", ["from_float", "shape"], ["moved"]), helper.make_node("Cast", ["moved"], ["back"], to=TensorProto.INT64)]
    weights = [numpy_helper.from_array(np.float32(2), "s"), numpy_helper.from_array(np.array([40]), "shape"), numpy_helper.from_array(x, "c")]
    path = save(tmp_path / "model.onnx", nodes, {"x": (TensorProto.FLOAT, [4, 10]), "i": (TensorProto.INT32, [4, 10]), "q": (to, [4, 10])},
                {"from_float": to, "from_int": to, "to_float": TensorProto.FLOAT, "like": to, "quantized": to, "known": to, "folded": TensorProto.INT16,
                 "back": TensorProto.INT64}, weights)
    y = run(path, ranks, {"x": x, "i": x.astype(np.int32), "q": q})
    wrapped = x.astype(np.int64)
    wrapped = (wrapped - low) % (high - low + 1) + low
    for name in ("from_float", "from_int", "like", "known", "folded", "back"):
        np.testing.assert_array_equal(y[name].reshape(4, 10), wrapped, name)
    np.testing.assert_array_equal(y["to_float"], q.astype(np.float32))
    np.testing.assert_array_equal(y["quantized"], np.clip(np.rint(x / 2), low, high))
