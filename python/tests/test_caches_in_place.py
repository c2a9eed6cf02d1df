# SPDX-License-Identifier: Apache-2.0
"""Caches as torch writes them (index_copy, by which transformers' StaticCache works): along an inner dimension that is brought to
the front and back."""

import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autopar
from autopar.tools import find_tool

BATCH, HEADS, ROOM, SIZE = 2, 4, 8, 16


def decoder(path: pathlib.Path) -> None:
    """Writes keys at a position and attends to all of them."""
    nodes = [helper.make_node("Unsqueeze", ["position", "last"], ["at"]),
             helper.make_node("Transpose", ["past"], ["rows"], perm=[2, 1, 0, 3]),
             helper.make_node("Transpose", ["key"], ["row"], perm=[2, 1, 0, 3]),
             helper.make_node("ScatterND", ["rows", "at", "row"], ["written"]),
             helper.make_node("Transpose", ["written"], ["present"], perm=[2, 1, 0, 3]),
             helper.make_node("Transpose", ["present"], ["turned"], perm=[0, 1, 3, 2]),
             helper.make_node("MatMul", ["query", "turned"], ["scores"]),
             helper.make_node("Softmax", ["scores"], ["weights"]),
             helper.make_node("MatMul", ["weights", "present"], ["output"])]

    def port(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.INT64 if name == "position" else TensorProto.FLOAT, shape)

    row, cache = (BATCH, HEADS, 1, SIZE), (BATCH, HEADS, ROOM, SIZE)
    graph = helper.make_graph(nodes, "g", [port("query", *row), port("key", *row), port("position", 1), port("past", *cache)],
                              [port("output", *row), port("present", *cache)], [onnx.numpy_helper.from_array(np.array([-1]), "last")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


@pytest.mark.parametrize("mesh", ["", "data=2", "heads=2"])
def test_they_are_written_where_they_lie(tmp_path: pathlib.Path, mesh: str) -> None:
    decoder(tmp_path / "m.onnx")
    options = ["--quiet", "--carry", "present=past", *(["--mesh", mesh] if mesh else [])]
    autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", ranks=2 if mesh else 1, options=options)
    dump = subprocess.run([str(find_tool("autopar-translate")), "--dump", str(tmp_path / "m.bin")], check=True, capture_output=True, text=True).stdout
    assert " copy " not in dump and dump.count(": launch ") <= 2 + 2 * bool(mesh)  # the write; scores, or a product with a softmax
    random = np.random.default_rng(0)
    cache = np.zeros((BATCH, HEADS, ROOM, SIZE), np.float32)
    with autopar.Session(tmp_path / "m.bin") as session:
        for position in (0, 1, 5):
            query, key = random.standard_normal((2, BATCH, HEADS, 1, SIZE)).astype(np.float32)
            cache[:, :, position] = key[:, :, 0]
            scores = np.exp(query @ cache.swapaxes(2, 3))
            found = session.run({"query": query, "key": key, "position": np.array([position])})["output"]
            np.testing.assert_allclose(found, scores / scores.sum(axis=-1, keepdims=True) @ cache, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(session.state("past"), cache)
