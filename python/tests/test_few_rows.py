# SPDX-License-Identifier: Apache-2.0
"""Products of few rows, which are kernels that read weights once, against NumPy: on one rank, on two that share columns or
what is summed, and on the emulated GPU."""

import pathlib
import subprocess
from typing import Dict, List, Tuple

import emulated_cuda
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
from autopar.tools import find_tool

TERMS, COLUMNS, BLOCK = 128, 192, 32
F32, F16 = TensorProto.FLOAT, TensorProto.FLOAT16


def quantized(bits: int, along: bool) -> Tuple[List[onnx.TensorProto], onnx.NodeProto, np.ndarray]:
    """Weights of few bits with a scale and zero point per block of terms, [columns, terms] if `along`; as floats [terms, columns]."""
    draw = np.random.default_rng(bits)
    shape, blocks = ([COLUMNS, TERMS], [COLUMNS, TERMS // BLOCK]) if along else ([TERMS, COLUMNS], [TERMS // BLOCK, COLUMNS])
    axis = 1 if along else 0
    numbers, zeros = (draw.integers(0, 2**bits, extents).astype(np.uint8) for extents in (shape, blocks))
    scales = draw.uniform(0.01, 0.02, blocks).astype(np.float32)

    def stored(name: str, values: np.ndarray) -> onnx.TensorProto:
        kind = {4: TensorProto.UINT4, 8: TensorProto.UINT8}[bits]
        flat = values.reshape(-1)
        return helper.make_tensor(name, kind, values.shape, (flat[0::2] | flat[1::2] << 4 if bits == 4 else flat).tobytes(), raw=True)

    floats = (numbers - np.repeat(zeros, BLOCK, axis).astype(np.float32)) * np.repeat(scales, BLOCK, axis)
    node = helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=axis, block_size=BLOCK)
    return [stored("w", numbers), numpy_helper.from_array(scales, "s"), stored("z", zeros)], node, floats.T if along else floats


def floats(kind: int, along: bool) -> Tuple[List[onnx.TensorProto], onnx.NodeProto, np.ndarray]:
    """The same for weights that are floats."""
    values = np.random.default_rng(0).standard_normal([COLUMNS, TERMS] if along else [TERMS, COLUMNS]).astype(helper.tensor_dtype_to_np_dtype(kind))
    return [numpy_helper.from_array(values, "w")], helper.make_node("Cast", ["w"], ["f"], to=F32), (values.T if along else values).astype(np.float32)


WEIGHTS = {"f32": (floats, F32), "f16": (floats, F16), "4 bits": (quantized, 4), "8 bits": (quantized, 8)}


def model(folder: pathlib.Path, weights: str, along: bool, rows: int) -> Tuple[pathlib.Path, Dict[str, np.ndarray], np.ndarray]:
    """y = x W + b in a file, a value for x, and y."""
    make, argument = WEIGHTS[weights]
    tensors, node, matrix = make(argument, along)
    draw = np.random.default_rng(1)
    x, bias = draw.standard_normal((rows, TERMS)).astype(np.float32), draw.standard_normal(COLUMNS).astype(np.float32)
    nodes = [node, helper.make_node("Gemm", ["x", "f", "b"], ["y"], transB=int(along), name="product")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", F32, x.shape)], [helper.make_tensor_value_info("y", F32, [rows, COLUMNS])],
                              [*tensors, numpy_helper.from_array(bias, "b")])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path, {"x": x}, x @ matrix + bias


def instructions(artifact: pathlib.Path) -> str:
    return subprocess.run([find_tool("autopar-translate"), "--dump", artifact], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("along", [True, False], ids=["along", "across"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_kernel_computes_the_product(tmp_path: pathlib.Path, weights: str, along: bool, rows: int) -> None:
    path, fed, expected = model(tmp_path, weights, along, rows)
    autopar.compile(path, tmp_path / "one.bin")
    calls = " matmul " in instructions(tmp_path / "one.bin")
    assert calls == (weights == "f32" and rows > 2), "which products are kernels"
    with autopar.Session(tmp_path / "one.bin") as session:
        np.testing.assert_allclose(session.run(fed)["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("along", [True, False], ids=["along", "across"])
@pytest.mark.parametrize("shared", ["x, -", "-, x"])
@pytest.mark.parametrize("weights", ["f32", "4 bits"])
def test_two_ranks_share_it(tmp_path: pathlib.Path, weights: str, shared: str, along: bool) -> None:
    """By columns or by the terms of the sums."""
    path, fed, expected = model(tmp_path, weights, along, 1)
    autopar.compile(path, tmp_path / "two.bin", ranks=2, options=["--constrain", f"mesh=x=2, w: [{shared}]"])
    with autopar.Session(tmp_path / "two.bin") as session:
        np.testing.assert_allclose(session.run(fed)["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("along", [True, False], ids=["along", "across"])
@pytest.mark.parametrize("weights", ["4 bits", "8 bits"])
def test_a_gpu_makes_the_weights_of_rows_in_its_kernel(tmp_path: pathlib.Path, weights: str, along: bool, rows: int) -> None:
    path, fed, expected = model(tmp_path, weights, along, rows)
    for outputs in emulated_cuda.on_both(path, tmp_path, fed).values():
        np.testing.assert_allclose(outputs["y"], expected, rtol=1e-4, atol=1e-4)
    assert " matmul " not in instructions(tmp_path / "cuda.bin")


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_weights_of_8_bits_are_much_less_than_those_of_16(tmp_path: pathlib.Path, target: str, rows: int) -> None:
    path, fed, expected = model(tmp_path, "8 bits", True, rows)
    autopar.compile(path, tmp_path / "m.bin", options=["--quiet", "--precision", "bf16", "--target", target])
    assert " matmul " not in instructions(tmp_path / "m.bin")
    result = emulated_cuda.run(tmp_path / "m.bin", fed, tmp_path / "run")["y"]
    np.testing.assert_allclose(result, expected, rtol=2e-2, atol=2e-2 * np.abs(expected).max())
