# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft that onnxruntime's quantizers and its optimizer write, against onnxruntime, on two ranks under
a random plan."""

import pathlib
import re
from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import autopar

DRAW = np.random.default_rng(3)
FLOAT, HALF, U8, I8 = np.float32, np.float16, np.uint8, np.int8


class Given(NamedTuple):
    """An input of the model; arrays elsewhere are initializers."""

    array: np.ndarray


class Case(NamedTuple):
    """One node: operator, inputs (None is left out), attributes, number of outputs."""

    operator: str
    inputs: Sequence[object]
    attributes: Dict[str, object] = {}
    outputs: int = 1


def floats(*shape: int, kind: type = FLOAT) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(kind)


def scales(*shape: int, kind: type = FLOAT) -> np.ndarray:
    return DRAW.uniform(0.01, 0.1, shape).astype(kind)


def whole(kind: type, *shape: int) -> np.ndarray:
    """All numbers of a type of 8 or 16 bits."""
    return DRAW.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, endpoint=True).astype(kind)


def add_case(number: int, case: Case, graph: onnx.GraphProto, fed: Dict[str, np.ndarray]) -> None:
    """A node of the case's operator with its own inputs, initializers and outputs."""
    names = []
    for position, value in enumerate(case.inputs):
        names.append("" if value is None else f"{case.operator}_{number}_{position}")
        if isinstance(value, Given):
            kind = helper.np_dtype_to_tensor_dtype(value.array.dtype)
            graph.input.append(helper.make_tensor_value_info(names[-1], kind, value.array.shape))
            fed[names[-1]] = value.array
        elif value is not None:
            graph.initializer.append(numpy_helper.from_array(np.asarray(value), names[-1]))
    outputs = [f"{case.operator}_{number}_result{i}" for i in range(case.outputs)]
    graph.node.append(helper.make_node(case.operator, names, outputs, f"n{number}", domain="com.microsoft", **case.attributes))
    for name in outputs:
        graph.output.append(onnx.ValueInfoProto(name=name))


def reference(path: pathlib.Path, fed: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """What onnxruntime computes of a model as it stands."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, fed)))


def run(path: pathlib.Path, fed: Dict[str, np.ndarray], ranks: int, *options: str, **bind: int) -> Dict[str, np.ndarray]:
    random = ["--engine", "random", "--seed", "5"] if ranks > 1 else []
    compiled = autopar.compile(path, path.with_suffix(".bin"), ranks=ranks, bind=bind, options=[*random, *options])
    with autopar.Session(compiled) as session:
        return session.run(fed)


def assert_close(actual: np.ndarray, expected: np.ndarray, name: str) -> None:
    """Floats up to the rounding of sums; a few quantized numbers may differ by the step that it decides."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), name
    if np.issubdtype(expected.dtype, np.integer):
        steps = np.abs(actual.astype(np.int64) - expected.astype(np.int64))
        assert steps.max(initial=0) <= 1 and (steps > 0).mean() < 0.02, f"{name}: {(steps > 0).sum()} differ, by up to {steps.max()}"
        return
    unit = 2e-3 if expected.dtype == HALF else 1e-5
    magnitude = np.abs(expected.astype(np.float64)).max(initial=0)
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=unit, atol=unit * max(magnitude, 1e-3), err_msg=name)


def check(path: pathlib.Path, cases: Sequence[Case]) -> None:
    """All cases as one model: a plan is drawn for each node of it."""
    model = helper.make_model(helper.make_graph([], "g", [], []), ir_version=10,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    fed: Dict[str, np.ndarray] = {}
    for number, case in enumerate(cases):
        add_case(number, case, model.graph, fed)
    onnx.save(model, path)
    expected = reference(path, fed)
    actual = run(path, fed, 2)
    for name, array in expected.items():
        assert_close(actual[name], array, name)


def blocked(n: int, k: int, block: int, bits: int, kind: type = FLOAT, points: str = "", rank: int = 2, bias: bool = False,
            groups: bool = False) -> Case:
    """A product with a weight in blocks; `points`: none, packed or floats."""
    blocks = -(-k // block)
    zero = {"": None, "packed": whole(U8, n, (blocks * bits + 7) // 8),
            "floats": DRAW.integers(0, 2**bits, (n, blocks)).astype(kind)}[points]
    group = DRAW.integers(0, blocks, k).astype(np.int32) if groups else None
    inputs = [Given(floats(*[3, 2, 4][3 - rank:], k, kind=kind)), whole(U8, n, blocks, block * bits // 8), scales(n, blocks, kind=kind),
              zero, group, floats(n, kind=kind) if bias else None]
    return Case("MatMulNBits", inputs, {"K": k, "N": n, "bits": bits, "block_size": block})


WEIGHTS = [
    blocked(32, 64, 16, 4), blocked(32, 64, 16, 4, points="packed"), blocked(30, 96, 32, 4, points="packed", bias=True),
    blocked(32, 64, 32, 8, points="packed"), blocked(32, 128, 32, 2, points="packed"), blocked(16, 64, 32, 2), blocked(16, 64, 32, 8),
    blocked(24, 70, 32, 4, points="packed"), blocked(24, 70, 32, 4, rank=3, points="floats"), blocked(24, 70, 16, 8),
    blocked(32, 64, 16, 4, kind=HALF, points="packed", bias=True), blocked(128, 256, 32, 4, points="packed"),
    blocked(32, 64, 16, 4, groups=True), blocked(32, 64, 16, 4, points="floats", groups=True),
]


@pytest.mark.parametrize("name", ["WEIGHTS"])
def test_as_onnxruntime(tmp_path: pathlib.Path, name: str) -> None:
    check(tmp_path / "model.onnx", globals()[name])


@pytest.mark.parametrize("axes, part", [("", "512x32x16"), ("x, -, -", "256x32x16"), ("-, x, -", "512x16x16")])
def test_weights_stay_packed(tmp_path: pathlib.Path, axes: str, part: str) -> None:
    """The bytes are the parameter, of which each rank has rows or blocks; one kernel makes floats of them, another one of zero points."""
    case = blocked(512, 1024, 32, 4, points="packed")
    model = helper.make_model(helper.make_graph([], "g", [], []), ir_version=10,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    fed: Dict[str, np.ndarray] = {}
    add_case(0, case, model.graph, fed)
    onnx.save(model, tmp_path / "model.onnx")
    options = ["--constrain", f"mesh=x=2, MatMulNBits_0_1: [{axes}]"] if axes else []
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", ranks=2 if axes else 1,
                               options=[*options, "--emit-mlir", str(tmp_path / "phases")])
    lowered = next((tmp_path / "phases").glob("*-lower.mlir")).read_text()
    assert lowered.count("exec.launch") == 2
    assert re.search(rf"exec.buffer \"MatMulNBits_0_1\" .* : tensor<{part}xui8>", lowered)
    with autopar.Session(compiled) as session:
        actual = session.run(fed)
    for name, expected in reference(tmp_path / "model.onnx", fed).items():
        assert_close(actual[name], expected, name)
