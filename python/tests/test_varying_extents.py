# SPDX-License-Identifier: Apache-2.0
"""Extents that are bound to a range: one program takes any of them, and computes what onnxruntime does for that one."""

import pathlib
from typing import Any, Dict, List, Tuple

import numpy as np
import onnxruntime
import pytest

import autopar
from autopar import models
from autopar.compiler import run_tool
from autopar.tools import find_tool

from emulated_cuda import assert_alike, on_both
from varying import VOCAB, assert_as_onnxruntime, graph, node, values

SIZES = {"layers": 2, "hidden": 64, "heads": 4, "vocab": VOCAB, "positions": 40}


def some(*extents: Tuple[int, int]) -> List[Dict[str, int]]:
    return [{"batch": batch, "seq": seq} for batch, seq in extents]


@pytest.mark.parametrize("ranks,options", [(1, []), (2, []), (2, ["--mesh", "tensor=2"]), (4, ["--mesh", "data=2,tensor=2"]), (2, ["--stages", "2"]),
                                           (3, ["--mesh", "data=3"]), (2, ["--stages", "2", "--micro-batches", "2"])])
@pytest.mark.parametrize("name", ["gpt2-124m", "bert-base", "llama3-8b"])
def test_one_program_takes_any_batch_and_length(tmp_path: pathlib.Path, name: str, ranks: int, options: List[str]) -> None:
    model, path = tmp_path / "model.onnx", tmp_path / "any.bin"
    models.save(name, model, **SIZES)
    autopar.compile(model, path, bind={"batch": (1, 4), "seq": (1, 24)}, ranks=ranks, options=["--quiet", *options])
    with autopar.Session(path) as session:
        ids = next(port for port in session.inputs if port.name == "input_ids")
        assert (ids.least, ids.shape) == ((1, 1), (4, 24))
        assert_as_onnxruntime(model, session, some((4, 24), (1, 1), (3, 17), (2, 24), (4, 2)))


@pytest.mark.parametrize("seed", range(4))
def test_random_plans_and_ranges(tmp_path: pathlib.Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    model, path = tmp_path / "model.onnx", tmp_path / "any.bin"
    name = str(random.choice(["gpt2-124m", "bert-base", "llama3-8b", "mixtral-8x7b"]))
    models.save(name, model, **SIZES)
    batch, seq = (int(random.integers(2, 6)), int(random.integers(2, 20)))
    mesh = ["data=2", "tensor=2", "data=2,tensor=2", "tensor=3"][int(random.integers(4))]
    ranks = int(np.prod([int(axis.split("=")[1]) for axis in mesh.split(",")]))
    autopar.compile(model, path, bind={"batch": (1, batch), "seq": (1, seq)}, ranks=ranks, options=["--quiet", "--mesh", mesh])
    extents = [(int(random.integers(1, batch + 1)), int(random.integers(1, seq + 1))) for _ in range(3)]
    with autopar.Session(path) as session:
        assert_as_onnxruntime(model, session, some(*extents))


@pytest.mark.parametrize("name,options", [("bert-base", []), ("gpt2-124m", ["--precision", "bf16"])])
def test_an_emulated_gpu_takes_any_length(tmp_path: pathlib.Path, name: str, options: List[str]) -> None:
    """Its steps are captured, and are told anew how much is missing."""
    models.save(name, tmp_path / "model.onnx", **SIZES)
    inputs = values(tmp_path / "model.onnx", {"batch": 3, "seq": 17})
    results = on_both(tmp_path / "model.onnx", tmp_path, inputs, steps=3, bind={"batch": (1, 4), "seq": (1, 24)}, options=options)
    assert_alike(results, 3e-2 if options else 1e-4)
    assert all(output.shape[:2] in ((3, 17), (3, 64)) for output in results["cuda"].values())


# ---- Graphs of a few operators -----------------------------------------------------------------------------------------------------

ONE, TWO, LAST = np.array([1]), np.array([2]), np.array([-1])
GRAPHS = {
    "sum": ([node("ReduceSum", ["x", "one"], "y", keepdims=0)], {"one": ONE}),
    "mean": ([node("ReduceMean", ["x", "one"], "y")], {"one": ONE}),
    "mean by its size": ([node("ReduceSum", ["x", "one"], "sum", keepdims=0), node("Shape", ["x"], "shape", start=1, end=2),
                          node("Cast", ["shape"], "size", to=1), node("Div", ["sum", "size"], "y")], {"one": ONE}),
    "times its size": ([node("Shape", ["x"], "shape", start=1, end=2), node("Cast", ["shape"], "size", to=1), node("Mul", ["x", "size"], "y")], {}),
    "normalized": ([node("MeanVarianceNormalization", ["x"], "y", axes=[1])], {}),
    "largest": ([node("ReduceMax", ["x", "one"], "y")], {"one": ONE}),
    "least": ([node("ReduceMin", ["x", "one"], "y")], {"one": ONE}),
    "product": ([node("ReduceProd", ["x", "one"], "y")], {"one": ONE}),
    "softmax": ([node("Softmax", ["x"], "y", axis=1)], {}),
    "log of a softmax": ([node("LogSoftmax", ["x"], "y", axis=1)], {}),
    "position of the largest": ([node("ArgMax", ["x"], "at", axis=1), node("Cast", ["at"], "y", to=1)], {}),
    "two largest": ([node("TopK", ["x", "two"], "y at", axis=1), ], {"two": TWO}),
    "running sum": ([node("CumSum", ["x", "axis"], "y")], {"axis": np.array(1)}),
    "running sum from the end": ([node("CumSum", ["x", "axis"], "y", reverse=1)], {"axis": np.array(1)}),
    "first": ([node("Slice", ["x", "zero", "one", "one"], "y")], {"zero": np.array([0]), "one": ONE}),
    "last": ([node("Gather", ["x", "last"], "y", axis=1)], {"last": LAST}),
    "last two": ([node("Slice", ["x", "start", "end", "one"], "y")], {"start": np.array([-2]), "end": np.array([1 << 40]), "one": ONE}),
    "all but the last": ([node("Slice", ["x", "zero", "last", "one"], "y")], {"zero": np.array([0]), "last": LAST, "one": ONE}),
    "flattened": ([node("Reshape", ["x", "flat"], "r"), node("MatMul", ["r", "w"], "m"), node("Shape", ["x"], "s"), node("Reshape", ["m", "s"], "y")],
                  {"flat": np.array([-1, 6]), "w": np.eye(6, dtype=np.float32) * 2}),
    "products of rows": ([node("Transpose", ["x"], "t", perm=[0, 2, 1]), node("MatMul", ["x", "t"], "y")], {}),
    "products of columns": ([node("Transpose", ["x"], "t", perm=[0, 2, 1]), node("MatMul", ["t", "x"], "y")], {}),
    "something in front": ([node("Concat", ["c", "x"], "y", axis=1)], {"c": np.ones((3, 2, 6), np.float32)}),
    "a sink": ([node("Transpose", ["x"], "t", perm=[0, 2, 1]), node("Concat", ["t", "c"], "j", axis=2), node("Softmax", ["j"], "s", axis=2),
                node("Shape", ["x"], "n", start=1, end=2), node("Slice", ["s", "zero", "n", "axis"], "w"), node("MatMul", ["w", "x"], "y")],
               {"c": np.ones((3, 6, 1), np.float32), "zero": np.array([0]), "axis": np.array([2])}),
    "padded": ([node("Pad", ["x", "pads", "value"], "y")], {"pads": np.array([0, 1, 0, 0, 2, 0]), "value": np.array(7, np.float32)}),
    "positions": ([node("Shape", ["x"], "shape", start=1, end=2), node("Squeeze", ["shape"], "size"), node("Range", ["zero", "size", "step"], "range"),
                   node("Cast", ["range"], "places", to=1), node("Unsqueeze", ["places", "one"], "column"), node("Add", ["x", "column"], "y")],
                  {"zero": np.array(0), "step": np.array(1), "one": ONE}),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_operators_stop_at_the_end(tmp_path: pathlib.Path, name: str, ranks: int) -> None:
    nodes, constants = GRAPHS[name]
    outputs = [output for output in nodes[-1].output if output != "at"] if name != "position of the largest" else ["y"]
    model = graph(tmp_path, nodes, {"x": [3, "seq", 6]}, outputs, {key: array if array.dtype == np.float32 else array.astype(np.int64) for key, array in constants.items()})
    autopar.compile(model, tmp_path / "g.bin", bind={"seq": (2, 9)}, ranks=ranks, options=["--quiet"])
    with autopar.Session(tmp_path / "g.bin") as session:
        assert_as_onnxruntime(model, session, [{"seq": seq} for seq in (9, 2, 5)], 1e-5)


REFUSED = {
    "wide strides along it": ([node("Transpose", ["x"], "t", perm=[0, 2, 1]), node("MaxPool", ["t"], "y", kernel_shape=[2], strides=[2])],
                              "it decides the attribute|strides by 2 along dimension 2, which varies by 1; bind a range with a step"),
    "a recurrence along it": ([node("RNN", ["x", "w", "r"], "y", hidden_size=4)], "which operations there are"),
    "a reversal": ([node("Slice", ["x", "last", "begin", "one", "back"], "y")], "in another order"),
    "something behind it": ([node("Concat", ["x", "x"], "y", axis=1)], "behind its end"),
    "something behind it that is summed up in order": ([node("Concat", ["x", "s"], "j", axis=1), node("CumSum", ["j", "one"], "y")], "needs to know where dimension 1 ends"),
    "positions that are not there": ([node("Slice", ["x", "two", "five", "one"], "y")], "reads position 4"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_end_is_refused(tmp_path: pathlib.Path, name: str) -> None:
    nodes, text = REFUSED[name]
    constants = {"last": LAST, "begin": np.array([-(1 << 40)]), "one": ONE, "back": -ONE, "two": TWO, "five": np.array([5])}
    constants = {key: array.astype(np.int64) for key, array in constants.items()}
    constants |= {"s": np.ones((3, 1, 6), np.float32), "w": np.ones((1, 4, 6), np.float32), "r": np.ones((1, 4, 4), np.float32)}
    model = graph(tmp_path, nodes, {"x": ["seq", 3, 6] if name == "a recurrence along it" else [3, "seq", 6]}, ["y"], constants)
    with pytest.raises(autopar.Error, match=text):
        autopar.compile(model, tmp_path / "g.bin", bind={"seq": (2, 9)}, options=["--quiet"])
    assert not (tmp_path / "g.bin").exists()


def test_two_ranges_decide_a_number_by_their_product(tmp_path: pathlib.Path) -> None:
    nodes = [node("ReduceSum", ["x"], "sum", keepdims=0), node("Size", ["x"], "size"), node("Cast", ["size"], "number", to=1), node("Div", ["sum", "number"], "y")]
    model = graph(tmp_path, nodes, {"x": ["batch", "seq", 6]}, ["y"])
    autopar.compile(model, tmp_path / "g.bin", bind={"batch": (1, 4), "seq": (1, 9)}, options=["--quiet"])
    with autopar.Session(tmp_path / "g.bin") as session:
        assert_as_onnxruntime(model, session, some((4, 9), (4, 2), (1, 9), (3, 5)), 1e-5)


def test_a_number_that_two_ranges_decide_otherwise_is_refused(tmp_path: pathlib.Path) -> None:
    nodes = [node("Shape", ["x"], "b", start=0, end=1), node("Shape", ["x"], "s", start=1, end=2), node("Add", ["b", "s"], "sum"),
             node("Cast", ["sum"], "number", to=1), node("Div", ["x", "number"], "y")]
    model = graph(tmp_path, nodes, {"x": ["batch", "seq", 6]}, ["y"])
    with pytest.raises(autopar.Error, match="it and another range decide one number that the model computes with, other than by their product"):
        autopar.compile(model, tmp_path / "g.bin", bind={"batch": (1, 4), "seq": (1, 9)}, options=["--quiet"])


def test_a_dimension_of_two_ranges_is_refused(tmp_path: pathlib.Path) -> None:
    model = graph(tmp_path, [node("Softmax", ["x"], "y", axis=1), node("Relu", ["z"], "r")], {"x": [3, "past + seq"], "z": ["past", "seq"]}, ["y", "r"])
    with pytest.raises(autopar.Error, match="dimension 1 of an input is made of it and another range"):
        autopar.compile(model, tmp_path / "g.bin", bind={"past": (1, 4), "seq": (1, 9)}, options=["--quiet"])


def test_a_range_that_leaves_nothing_is_refused(tmp_path: pathlib.Path) -> None:
    nodes, constants = GRAPHS["all but the last"]
    model = graph(tmp_path, nodes, {"x": [3, "seq", 6]}, ["y"], {key: array.astype(np.int64) for key, array in constants.items()})
    with pytest.raises(autopar.Error, match="has no positions where it is 1; begin the range above"):
        autopar.compile(model, tmp_path / "g.bin", bind={"seq": (1, 9)}, options=["--quiet"])


def test_rows_that_two_masks_hide_whole_are_those_of_the_length(tmp_path: pathlib.Path) -> None:
    """A triangle and a mask by the least float: where both hide all of a row, it is the mean of all columns that there are."""
    triangle = np.tril(np.ones((16, 16), bool))
    nodes = [node("Shape", ["x"], "n", start=1, end=2), node("Concat", ["n", "n"], "nn", axis=0), node("Slice", ["triangle", "zeros", "nn"], "seen"),
             node("Transpose", ["x"], "t", perm=[0, 2, 1]), node("MatMul", ["x", "t"], "s"), node("Where", ["seen", "s", "least"], "masked"),
             node("Add", ["masked", "z"], "both"), node("Softmax", ["both"], "w", axis=2), node("MatMul", ["w", "x"], "y")]
    constants = {"triangle": triangle, "zeros": np.array([0, 0]), "least": np.array(np.finfo(np.float32).min)}
    model = graph(tmp_path, nodes, {"x": [2, "seq", 6], "z": [2, 1, "seq"]}, ["y"], constants)
    autopar.compile(model, tmp_path / "g.bin", bind={"seq": (2, 9)}, options=["--quiet"])
    reference = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    for seq in (9, 5, 3):
        inputs = {"x": np.random.default_rng(seq).standard_normal((2, seq, 6)).astype(np.float32), "z": np.zeros((2, 1, seq), np.float32)}
        inputs["z"][0, 0, :2] = np.finfo(np.float32).min  # what the first two rows see
        with autopar.Session(tmp_path / "g.bin") as session:
            np.testing.assert_allclose(session.run(inputs)["y"], reference.run(None, inputs)[0], rtol=1e-4, atol=1e-5)


# ---- What a step is given ----------------------------------------------------------------------------------------------------------


@pytest.fixture(name="sums", scope="module")
def fixture_sums(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("sums")
    model = graph(folder, [node("Add", ["x", "z"], "y")], {"x": [3, "seq", 6], "z": ["seq", 6]}, ["y"])
    autopar.compile(model, folder / "g.bin", bind={"seq": (2, 9)}, options=["--quiet"])
    return folder / "g.bin"


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_inputs_that_disagree_are_refused(sums: pathlib.Path) -> None:
    with autopar.Session(sums) as session:
        with pytest.raises(autopar.Error, match="disagree about 'seq': z has 4 positions in dimension 0, where others ask for 5"):
            session.run({"x": ones(3, 5, 6), "z": ones(4, 6)})
        assert session.run({"x": ones(3, 5, 6), "z": ones(5, 6)})["y"].shape == (3, 5, 6)


@pytest.mark.parametrize("seq", [1, 10])
def test_extents_outside_of_the_range_are_refused(sums: pathlib.Path, seq: int) -> None:
    with autopar.Session(sums) as session:
        with pytest.raises(autopar.Error, match=r"expected x: f32 \[3,2..9,6\], got x: f32 \[3,%d,6\]" % seq):
            session.run({"x": ones(3, seq, 6), "z": ones(seq, 6)})


@pytest.mark.parametrize("bind,text", [({"seq": (0, 4)}, "begins at 1"), ({"seq": (5, 4)}, "begins at 1"), ({"seq": (1, 2, 3)}, "a step of at least 1 that leads from 1 to 2"), ({"seq": (1, 4, 0)}, "a step of at least 1"), ({"seq": (1, 2, 3, 4)}, "whole number")])
def test_ranges_that_are_none_are_refused(tmp_path: pathlib.Path, bind: Dict[str, Any], text: str) -> None:
    model = graph(tmp_path, [node("Relu", ["x"], "y")], {"x": [3, "seq", 6]}, ["y"])
    with pytest.raises(autopar.Error, match=text):
        autopar.compile(model, tmp_path / "g.bin", bind=bind)


def test_the_smallest_program_that_takes_the_inputs_runs(tmp_path: pathlib.Path) -> None:
    model = tmp_path / "model.onnx"
    models.save("bert-base", model, **SIZES)
    autopar.compile(model, tmp_path / "long.bin", bind={"batch": (1, 4), "seq": (1, 32)}, options=["--quiet"])
    autopar.compile(model, tmp_path / "short.bin", bind={"batch": (1, 4), "seq": (1, 8)}, beside=tmp_path / "long.bin", options=["--quiet"])
    with autopar.Programs(tmp_path / "long.bin", tmp_path / "short.bin") as programs:
        assert_as_onnxruntime(model, programs, some((4, 32), (2, 8), (3, 5), (1, 9)))  # type: ignore[arg-type]
        with pytest.raises(autopar.Error, match=r"no program takes .*\[1..4, 1..32\]"):
            programs.run(values(model, {"batch": 1, "seq": 33}))


def test_autopar_run_writes_outputs_of_the_length_of_its_inputs(sums: pathlib.Path, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", ones(3, 4, 6))
    np.save(tmp_path / "z.npy", ones(4, 6))
    run_tool([str(find_tool("autopar-run")), str(sums), "--input", f"x={tmp_path}/x.npy", "--input", f"z={tmp_path}/z.npy",
                            "--output-dir", str(tmp_path / "out")], None)
    np.testing.assert_array_equal(np.load(tmp_path / "out/y.npy"), 2 * ones(3, 4, 6))
