# SPDX-License-Identifier: Apache-2.0
"""From ONNX to numbers through the Python package: ranks agree with onnxruntime, and bad requests are refused by name."""

import json
import pathlib
import shutil

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autopar
from conftest import BATCH, SEQ, Example

TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def compiled(gpt2: Example, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """gpt2 for two ranks."""
    path = tmp_path_factory.mktemp("compiled") / "compiled.bin"
    autopar.compile(gpt2.path, path, bind=gpt2.bind, ranks=2)
    return path


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_gpt2_equals_onnxruntime(gpt2: Example, tmp_path: pathlib.Path, ranks: int) -> None:
    done = autopar.compile(gpt2.path, tmp_path / "compiled.bin", bind=gpt2.bind, ranks=ranks)
    with autopar.Session(done) as session:
        assert session.ranks == ranks
        outputs = session.run(gpt2.inputs)
    assert list(outputs) == list(gpt2.expected)
    np.testing.assert_allclose(outputs["logits"], gpt2.expected["logits"], rtol=TOLERANCE, atol=TOLERANCE)


def test_runs_repeat_bit_for_bit(gpt2: Example, compiled: pathlib.Path) -> None:
    with autopar.Session(compiled) as session:
        first, second = session.run(gpt2.inputs), session.run(gpt2.inputs)
    np.testing.assert_array_equal(first["logits"], second["logits"])


def test_session_describes_itself(compiled: pathlib.Path) -> None:
    with autopar.load(compiled) as session:
        (ids,), (logits,) = session.inputs, session.outputs
    assert (ids.name, ids.dtype, ids.shape) == ("input_ids", np.dtype(np.int64), (BATCH, SEQ))
    assert (logits.name, logits.dtype, logits.shape[:2]) == ("logits", np.dtype(np.float32), (BATCH, SEQ))


def test_closed_session_says_so(gpt2: Example, compiled: pathlib.Path) -> None:
    session = autopar.Session(compiled)
    session.close()
    session.close()
    with pytest.raises(autopar.Error, match="closed"):
        session.run(gpt2.inputs)


@pytest.mark.parametrize("change, words", [
    (lambda ids: {"ids": ids}, ["'ids'", "input_ids"]),
    (lambda ids: {}, ["input_ids"]),
    (lambda ids: {"input_ids": ids[:2]}, ["input_ids", str(BATCH)]),
    (lambda ids: {"input_ids": ids.astype(np.float32)}, ["input_ids", "i64"]),
])
def test_wrong_inputs_are_named(gpt2: Example, compiled: pathlib.Path, change, words) -> None:
    with autopar.Session(compiled) as session, pytest.raises(autopar.Error) as caught:
        session.run(change(gpt2.inputs["input_ids"]))
    assert caught.value.code in (2, 65) and all(word in str(caught.value) for word in words), str(caught.value)


def test_model_in_memory(tmp_path: pathlib.Path) -> None:
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"], "twice")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    with autopar.Session(autopar.compile(model, tmp_path / "c.bin", bind={"n": 5}, ranks=2)) as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], 2 * x)


def test_explanation(gpt2: Example, tmp_path: pathlib.Path) -> None:
    done = autopar.compile(gpt2.path, tmp_path / "c.bin", bind=gpt2.bind, ranks=2, explain=True)
    assert done.explanation
    assert done.path.stat().st_size > 0


def refused(tmp_path: pathlib.Path, *args, **options) -> autopar.Error:
    """Compiles what must be refused; nothing may be left behind."""
    output = tmp_path / "refused.bin"
    with pytest.raises(autopar.Error) as caught:
        autopar.compile(*args, output, **options)
    assert not list(tmp_path.glob("refused*")), "a refused compilation left a file"
    return caught.value


def test_unbound_dimensions_are_named(gpt2: Example, tmp_path: pathlib.Path) -> None:
    error = refused(tmp_path, gpt2.path, bind={"batch": 4})
    assert error.code == 65 and "seq" in str(error) and "--bind" in str(error), str(error)


def test_unknown_binding_is_named(gpt2: Example, tmp_path: pathlib.Path) -> None:
    error = refused(tmp_path, gpt2.path, bind={**gpt2.bind, "bach": 4})
    assert error.code in (2, 65) and "bach" in str(error), str(error)


def test_missing_file(tmp_path: pathlib.Path) -> None:
    error = refused(tmp_path, tmp_path / "none.onnx")
    assert error.code == 66 and "none.onnx" in str(error), str(error)


def test_broken_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model" * 100)
    error = refused(tmp_path, tmp_path / "broken.onnx")
    assert error.code == 65 and "broken.onnx" in str(error), str(error)


def test_unsupported_operators_are_reported_together(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("NoSuchOp", ["x"], ["a"], "first"), helper.make_node("NorThis", ["a"], ["y"], "second")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    error = refused(tmp_path, model)
    assert error.code == 65 and "NoSuchOp" in str(error) and "NorThis" in str(error), str(error)


def test_weights_that_are_absent_cannot_run(tmp_path: pathlib.Path) -> None:
    from autopar import models

    models.save("gpt2-124m", tmp_path / "m.onnx", weights=False, layers=1, hidden=64, heads=4, vocab=100)
    done = autopar.compile(tmp_path / "m.onnx", tmp_path / "c.bin", bind={"batch": 1, "seq": 8}, ranks=1)
    with pytest.raises(autopar.Error) as caught:
        autopar.Session(done)
    assert caught.value.code == 66 and "has no weights" in str(caught.value)


def test_foreign_artifact_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "foreign.bin").write_bytes(bytes(8192))
    with pytest.raises(autopar.Error) as caught:
        autopar.Session(tmp_path / "foreign.bin")
    assert caught.value.code == 65


def test_cluster_as_dict_or_file(gpt2: Example, tmp_path: pathlib.Path) -> None:
    error = refused(tmp_path, gpt2.path, bind=gpt2.bind, cluster={"no": "cluster"})
    assert error.code == 65, str(error)
    (tmp_path / "cluster.json").write_text(json.dumps({"no": "cluster"}))
    error = refused(tmp_path, gpt2.path, bind=gpt2.bind, cluster=tmp_path / "cluster.json")
    assert error.code == 65, str(error)


def test_ranks_and_cluster_exclude_each_other(gpt2: Example, tmp_path: pathlib.Path) -> None:
    assert refused(tmp_path, gpt2.path, ranks=2, cluster="presets:cpux2").code == 2


def test_onnx_message_is_accepted_in_place_of_a_path(gpt2: Example, tmp_path: pathlib.Path) -> None:
    model = onnx.load(gpt2.path)
    with autopar.Session(autopar.compile(model, tmp_path / "c.bin", bind=gpt2.bind)) as session:
        assert session.ranks == 1


def test_external_data_behind_two_gibibytes_is_read_where_it_lies(tmp_path: pathlib.Path) -> None:
    weights = np.random.default_rng(3).standard_normal((64, 32)).astype(np.float32)
    offset = (5 << 29) + 4096  # 2.5 GiB, most of it a hole
    with open(tmp_path / "weights.data", "wb") as file:
        file.seek(offset)
        file.write(weights.tobytes())
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=weights.shape,
                              data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "weights.data"), ("offset", offset), ("length", weights.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "far",
                                   [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [8, 64])],
                                   [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [8, 32])], [tensor])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "far.onnx")
    x = np.random.default_rng(4).standard_normal((8, 64)).astype(np.float32)
    compiled = autopar.compile(tmp_path / "far.onnx", tmp_path / "compiled.bin", ranks=2)
    assert compiled.path.stat().st_size < 1 << 20
    with autopar.Session(compiled) as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], x @ weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ranks", [1, 2])
def test_copied_weights_move_with_the_artifact(gpt2: Example, tmp_path: pathlib.Path, ranks: int) -> None:
    model = shutil.copy(gpt2.path, tmp_path / "gpt2.onnx")
    for path in gpt2.path.parent.glob("gpt2.onnx.*"):
        shutil.copy(path, tmp_path)
    (tmp_path / "built").mkdir()
    autopar.compile(model, tmp_path / "built" / "gpt2.bin", bind=gpt2.bind, ranks=ranks, copy_weights=True)
    (tmp_path / "built").rename(tmp_path / "shipped")
    for path in tmp_path.glob("gpt2.onnx*"):
        path.unlink()
    assert sorted(path.name for path in (tmp_path / "shipped").iterdir()) == ["gpt2.bin", "gpt2.bin.weights"]
    with autopar.Session(tmp_path / "shipped" / "gpt2.bin") as session:
        np.testing.assert_allclose(session.run(gpt2.inputs)["logits"], gpt2.expected["logits"], rtol=1e-3, atol=1e-4)
    (tmp_path / "shipped" / "gpt2.bin.weights").unlink()
    with pytest.raises(autopar.Error, match="gpt2.bin.weights: No such file .*or compile it with --copy-weights"):
        autopar.Session(tmp_path / "shipped" / "gpt2.bin")
