# SPDX-License-Identifier: Apache-2.0
"""Models of single nodes of com.microsoft, with drawn numbers, against onnxruntime: each node is a case, all cases are one model."""

import pathlib
from typing import Callable, Dict, NamedTuple, Optional, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import autopar

DRAW = np.random.default_rng()
FLOAT, HALF, U8, I8 = np.float32, np.float16, np.uint8, np.int8
VNNI = "avx512_vnni" in pathlib.Path("/proc/cpuinfo").read_text()


def draw_anew(seed: int) -> None:
    """Tables of cases are drawn alike whichever modules were read before."""
    DRAW.bit_generator.state = np.random.default_rng(seed).bit_generator.state


class Given(NamedTuple):
    """An input of the model; arrays elsewhere are initializers."""

    array: np.ndarray


class Case(NamedTuple):
    """One node: operator, inputs (None is left out), attributes, number of outputs."""

    operator: str
    inputs: Sequence[object]
    attributes: Dict[str, object] = {}
    outputs: int = 1
    #: What the node yields, where onnxruntime has no kernel for it on CPUs.
    expected: Optional[np.ndarray] = None


def floats(*shape: int, kind: type = FLOAT) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(kind)


def scales(*shape: int, kind: type = FLOAT) -> np.ndarray:
    return DRAW.uniform(0.01, 0.1, shape).astype(kind)


def whole(kind: type, *shape: int) -> np.ndarray:
    """All numbers of a type of 8 or 16 bits."""
    return DRAW.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, endpoint=True).astype(kind)


def factors(kind: type, *shape: int) -> np.ndarray:
    """Numbers of a weight of 8 bits. Without VNNI onnxruntime adds pairs of products in 16 bits, which hold those of 7 bits."""
    drawn = whole(kind, *shape)
    return drawn if VNNI or kind != I8 else drawn // 2


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
    """What onnxruntime computes of a model as it stands. With several threads its quantized LSTM would take a range of states for each."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    if not VNNI:  # else it adds pairs of products of bytes in 16 bits, which saturate
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, fed)))


Reference = Callable[[pathlib.Path, Dict[str, np.ndarray]], Dict[str, np.ndarray]]


def unrounded(path: pathlib.Path, fed: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """The same of a model that permits no rounding to 8 bits."""
    model = onnx.load(path)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 0
    onnx.save(model, path.with_suffix(".unrounded.onnx"))
    return reference(path.with_suffix(".unrounded.onnx"), fed)


def rounded_before(path: pathlib.Path, fed: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """The same of a model whose products get what its MatMulNBits may round their rows to: 127 steps of both signs up to the largest
    of a block."""
    fed = dict(fed)
    for node in onnx.load(path).graph.node:
        numbers = {attribute.name: attribute.i for attribute in node.attribute}
        if numbers.get("accuracy_level") == 4:
            rows = fed[node.input[0]]
            blocks = rows.reshape(*rows.shape[:-1], -1, numbers["block_size"])
            largest = np.abs(blocks).max(-1, keepdims=True)
            fed[node.input[0]] = (np.rint(blocks * (np.float32(127) / largest)) * (largest / np.float32(127))).reshape(rows.shape)
    return unrounded(path, fed)


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
    if expected.dtype == np.bool_:
        assert (actual == expected).all(), name
        return
    unit = 2e-3 if expected.dtype == HALF else 1e-5
    magnitude = np.abs(expected.astype(np.float64)).max(initial=0)
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=unit, atol=unit * max(magnitude, 1e-3), err_msg=name)


def save(path: pathlib.Path, cases: Sequence[Case]) -> Dict[str, np.ndarray]:
    """All cases as one model, and what it is fed."""
    model = helper.make_model(helper.make_graph([], "g", [], []), ir_version=10,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    fed: Dict[str, np.ndarray] = {}
    for number, case in enumerate(cases):
        add_case(number, case, model.graph, fed)
    onnx.save(model, path)
    return fed


def check(folder: pathlib.Path, cases: Sequence[Case], *options: str, expect: Reference = reference, ranks: int = 2) -> None:
    """In one model a plan is drawn for each node of it."""
    known = [case for case in cases if case.expected is None]
    fed = save(folder / "known.onnx", known)
    expected = expect(folder / "known.onnx", fed)
    expected.update({f"{case.operator}_{len(known) + i}_result0": case.expected
                     for i, case in enumerate(case for case in cases if case.expected is not None)})
    actual = run(folder / "all.onnx", save(folder / "all.onnx", [*known, *(case for case in cases if case.expected is not None)]), ranks, *options)
    for name, array in expected.items():
        assert_close(actual[name], array, name)
