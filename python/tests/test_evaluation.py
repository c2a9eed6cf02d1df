# SPDX-License-Identifier: Apache-2.0
"""Evaluation changes nothing, and a loss that is no number changes nothing either and names where it came from."""

import json
import os
import pathlib
import subprocess
from typing import Dict, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
from conftest import BATCH, SEQ, VOCAB, Example

TRAIN = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-2), clip_norm=1.0)


def run(*words: object) -> "subprocess.CompletedProcess[str]":
    """autopar-run, whatever comes of it."""
    return subprocess.run([autopar.find_tool("autopar-run"), *map(os.fspath, words)], capture_output=True, text=True, timeout=120,
                          check=False)


def lines(file: pathlib.Path) -> List[dict]:
    """The metrics of each step."""
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("ranks", [1, 4])
def test_an_evaluation_gives_the_next_loss_and_changes_nothing(gpt2: Example, tmp_path: pathlib.Path, ranks: int) -> None:
    artifact = autopar.compile(gpt2.path, tmp_path / "train.bin", bind=gpt2.bind, ranks=ranks, train=TRAIN)
    draw = np.random.default_rng(3).integers
    batches = [{name: draw(0, VOCAB, (BATCH, SEQ)) for name in ("input_ids", "labels")} for _ in range(4)]
    with autopar.Session(artifact) as plain, autopar.Session(artifact) as watched:
        for batch, other in zip(batches, batches[1:] + batches[:1]):
            watched.evaluate(other)
            before = watched.evaluate(batch)["loss"]
            loss = float(watched.run(batch)["loss"])
            assert before == loss == float(plain.run(batch)["loss"])
            assert watched.evaluate(batch)["loss"] != loss


def test_a_program_without_a_loss_is_not_evaluated(gpt2: Example, tmp_path: pathlib.Path) -> None:
    artifact = autopar.compile(gpt2.path, tmp_path / "forward.bin", bind=gpt2.bind)
    with autopar.Session(artifact) as session, pytest.raises(autopar.Error, match="has no loss to evaluate"):
        session.evaluate(gpt2.inputs)
    np.zeros(500, np.uint16).tofile(tmp_path / "tokens.bin")
    data = [tmp_path / "tokens.bin", "--fields", "input_ids=tokens[:]"]
    assert "has no loss" in run(artifact, "--data", *data, "--eval-data", tmp_path / "tokens.bin").stderr


def test_the_evaluation_loss_stands_in_the_metrics(gpt2: Example, tmp_path: pathlib.Path) -> None:
    artifact = autopar.compile(gpt2.path, tmp_path / "train.bin", bind=gpt2.bind, ranks=2, train=TRAIN)
    rng = np.random.default_rng(5)
    for name, count in (("tokens", 1000), ("held-out", 2 * BATCH * SEQ + 1)):
        rng.integers(0, VOCAB, count).astype(np.uint16).tofile(tmp_path / f"{name}.bin")
    words = ["--data", tmp_path / "tokens.bin", "--fields", "input_ids=tokens[:-1], labels=tokens[1:]", "--steps", "5"]
    evaluate = ["--eval-data", tmp_path / "held-out.bin", "--eval-every", "2"]
    assert run(artifact, *words, "--metrics", tmp_path / "plain.jsonl").returncode == 0
    said = run(artifact, *words, *evaluate, "--metrics", tmp_path / "both.jsonl")
    assert said.returncode == 0 and "eval_loss" in said.stderr
    plain, both = lines(tmp_path / "plain.jsonl"), lines(tmp_path / "both.jsonl")
    assert [line["loss"] for line in plain] == [line["loss"] for line in both]
    assert ["eval_loss" in line for line in both] == [False, True, False, True, True]
    said = run(artifact, *words, *evaluate, "--eval-steps", "3")
    assert said.returncode == 65 and "--eval-steps 3 wants more" in said.stderr
    said = run(artifact, *words, "--eval-every", "2")
    assert said.returncode == 2 and "need --eval-data" in said.stderr


def test_the_evaluation_loss_is_the_mean_over_the_file_in_its_order(gpt2: Example, tmp_path: pathlib.Path) -> None:
    artifact = autopar.compile(gpt2.path, tmp_path / "train.bin", bind=gpt2.bind, train=TRAIN)
    rows = np.random.default_rng(6).integers(0, VOCAB, (2, 3 * BATCH, SEQ))
    np.savez(tmp_path / "rows.npz", input_ids=rows[0], labels=rows[1])
    words = ["--data", tmp_path / "rows.npz", "--in-order", "--steps", "1", "--metrics", tmp_path / "metrics.jsonl"]
    assert run(artifact, *words, "--eval-data", tmp_path / "rows.npz").returncode == 0
    batches = [{"input_ids": rows[0, i:i + BATCH], "labels": rows[1, i:i + BATCH]} for i in range(0, 3 * BATCH, BATCH)]
    with autopar.Session(artifact) as session:
        session.run(batches[0])
        expected = np.mean([session.evaluate(batch)["loss"] for batch in batches])
    assert lines(tmp_path / "metrics.jsonl")[0]["eval_loss"] == expected


@pytest.mark.parametrize("options", [["--ranks", "2"], ["--micro-batches", "2"]], ids=["ranks", "micro-batches"])
@pytest.mark.parametrize("rows", [3, 8, 13])
def test_samples_that_fill_no_batch_count_as_much_as_others(gpt2: Example, tmp_path: pathlib.Path, options: List[str], rows: int) -> None:
    """The mean over all samples, each evaluated alone; labels that are ignored are as many in each."""
    train = autopar.Train("softmax_cross_entropy(logits, labels, ignore_index=-1)", "sgd(lr=0)", metrics="accuracy(logits, labels)")
    artifact = autopar.compile(gpt2.path, tmp_path / "train.bin", bind={"batch": 4, "seq": SEQ}, train=train, options=options)
    single = autopar.compile(gpt2.path, tmp_path / "single.bin", bind={"batch": 1, "seq": SEQ}, train=train)
    ids, labels = np.random.default_rng(7).integers(0, VOCAB, (2, rows, SEQ))
    labels[:, 1] = -1
    np.savez(tmp_path / "rows.npz", input_ids=ids, labels=labels)
    said = run(artifact, "--steps", "0", "--eval-data", tmp_path / "rows.npz", "--metrics", tmp_path / "metrics.jsonl")
    assert said.returncode == 0, said.stderr
    with autopar.Session(single) as session:
        alone = [session.evaluate({"input_ids": ids[row:row + 1], "labels": labels[row:row + 1]}) for row in range(rows)]
    for name in ("loss", "accuracy"):
        assert lines(tmp_path / "metrics.jsonl")[0][f"eval_{name}"] == pytest.approx(np.mean([told[name] for told in alone]), rel=1e-5)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_checkpoint_is_evaluated_without_a_step(gpt2: Example, tmp_path: pathlib.Path, ranks: int) -> None:
    """The loss that the training had in the end; without a checkpoint, of the start. Nothing is written but metrics."""
    artifact = autopar.compile(gpt2.path, tmp_path / "train.bin", bind=gpt2.bind, ranks=ranks, train=TRAIN)
    rng = np.random.default_rng(5)
    for name in ("tokens", "held-out"):
        rng.integers(0, VOCAB, 200).astype(np.uint32).tofile(tmp_path / f"{name}.bin")
    fields = ["--fields", "input_ids=tokens[:-1], labels=tokens[1:]", "--token-type", "u32"]
    held_out = ["--eval-data", tmp_path / "held-out.bin", *fields]
    kept = ["--checkpoint-dir", tmp_path / "ckpt"]
    assert run(artifact, "--data", tmp_path / "tokens.bin", *held_out, *kept, "--steps", "3", "--metrics", tmp_path / "a.jsonl").returncode == 0
    before = sorted(path.stat().st_mtime_ns for path in (tmp_path / "ckpt").rglob("*"))
    alone = run(artifact, *held_out, *kept, "--steps", "0", "--metrics", tmp_path / "b.jsonl")
    assert alone.returncode == 0 and "step 3: eval_loss " in alone.stderr
    assert sorted(path.stat().st_mtime_ns for path in (tmp_path / "ckpt").rglob("*")) == before
    last, (line,) = lines(tmp_path / "a.jsonl")[-1], lines(tmp_path / "b.jsonl")
    assert {key: line[key] for key in ("step", "eval_loss")} == {key: last[key] for key in ("step", "eval_loss")}
    start = run(artifact, *held_out, "--steps", "0")
    assert start.returncode == 0 and "step 0: eval_loss " in start.stderr
    assert "no checkpoint" in run(artifact, *held_out, "--checkpoint-dir", tmp_path / "none", "--steps", "0").stderr


@pytest.fixture(scope="module")
def logarithm(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """y = log(x w), smaller where it is negative: no number where x is, and infinite where it is 0."""
    folder = tmp_path_factory.mktemp("logarithm")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="product"), helper.make_node("Log", ["h"], ["l"], name="log"),
             helper.make_node("LeakyRelu", ["l"], ["y"], name="leaky")]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "logarithm", [tensor("x", TensorProto.FLOAT, [4, 3])],
                              [tensor("y", TensorProto.FLOAT, [4, 2])], [numpy_helper.from_array(np.ones((3, 2), np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "log.onnx")
    return folder / "log.onnx"


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("bad, kind", [(-1.0, "NaN"), (np.nan, "input x"), (0.0, "infinity")])
def test_a_loss_that_is_no_number_names_the_first_bad_tensor(logarithm: pathlib.Path, tmp_path: pathlib.Path, ranks: int,
                                                             bad: float, kind: str) -> None:
    step = autopar.Train("mse(y, target)", autopar.SGD(lr=0.1), clip_norm=1.0)
    artifact = autopar.compile(logarithm, tmp_path / "step.bin", ranks=ranks, train=step)
    good = {"x": np.ones((4, 3), np.float32), "target": np.zeros((4, 2), np.float32)}
    wrong = dict(good, x=np.where(np.arange(4)[:, None] == 1, np.float32(bad), good["x"]))
    with autopar.Session(artifact) as session, autopar.Session(artifact, on_nan="skip") as skipping:
        for batch in (good, wrong, good):
            expected = skipping.run(batch)["loss"]
            if batch is good:
                assert session.run(batch)["loss"] == expected and np.isfinite(expected)
                continue
            with pytest.raises(autopar.Error) as raised:
                session.run(batch)
            assert raised.value.code == 65
            assert f"the first {kind} is in the result of" in str(raised.value) or f"is in {kind}" in str(raised.value)
            assert "log" in str(raised.value) or kind == "input x"
            assert "step 1" in str(raised.value) and "on rank" in str(raised.value)


def test_a_run_stops_or_skips(logarithm: pathlib.Path, tmp_path: pathlib.Path) -> None:
    artifact = autopar.compile(logarithm, tmp_path / "step.bin", train=autopar.Train("mse(y, target)", autopar.SGD(lr=0.1)))
    rows = np.ones((12, 3), np.float32)
    rows[5] = -1
    np.savez(tmp_path / "data.npz", x=rows, target=np.zeros((12, 2), np.float32))
    words = [artifact, "--data", tmp_path / "data.npz", "--in-order", "--steps", "3", "--metrics", tmp_path / "metrics.jsonl"]
    stopped = run(*words)
    assert stopped.returncode == 65 and "step 1: loss is NaN; the first NaN is in the result of" in stopped.stderr
    assert len(lines(tmp_path / "metrics.jsonl")) == 1
    skipped = run(*words, "--on-nan", "skip")
    assert skipped.returncode == 0 and "step 1: the loss is not finite; the step changed nothing" in skipped.stderr
    losses = [line["loss"] for line in lines(tmp_path / "metrics.jsonl")[1:]]
    assert losses[1] is None and losses[2] < losses[0]


def test_a_skipped_step_is_none_of_the_optimizer(logarithm: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Not for Adam's corrections nor for averages that begin with the first step; also behind a checkpoint, on one rank and on several."""
    good = {"x": np.ones((4, 3), np.float32), "target": np.zeros((4, 2), np.float32)}
    bad = {**good, "x": -good["x"]}
    expected: Dict[str, np.ndarray] = {}
    for ranks in (1, 2):
        artifact = autopar.compile(logarithm, tmp_path / "step.bin", ranks=ranks, train=autopar.Train("mse(y, target)", autopar.Adam(lr=0.1, ema=0.5)))
        for batches in ([good, good, good], [bad, good, bad, bad, good, good], [good, good, bad, good]):
            folder = tmp_path / f"{ranks}-{len(batches)}"
            for part in (batches[:3], batches[3:]):
                with autopar.Session(artifact, on_nan="skip") as session:
                    session.load_checkpoint(folder)
                    for batch in part:
                        session.run(batch)
                    session.save_checkpoint(folder)
                    found = {port.name: session.state(port.name) for port in session.states}
            expected = expected or found
            for name, value in expected.items():
                np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


def test_weights_are_exported_behind_a_skipped_step(logarithm: pathlib.Path, tmp_path: pathlib.Path) -> None:
    good = {"x": np.ones((4, 3), np.float32), "target": np.zeros((4, 2), np.float32)}
    artifact = autopar.compile(logarithm, tmp_path / "step.bin", train=autopar.Train("mse(y, target)", autopar.Adam(lr=0.1, ema=0.5)))
    with autopar.Session(artifact, on_nan="skip") as session:
        for batch in ({**good, "x": -good["x"]}, good):
            session.run(batch)
        for averages in (False, True):
            session.export(tmp_path / "w.safetensors", averages=averages)


@pytest.mark.parametrize("options", [["--stages", "2", "--micro-batches", "2"], ["--stages", "2", "--micro-batches", "2", "--offload", "state"],
                                     ["--offload", "state"], []], ids=lambda options: "".join(options) or "one")
@pytest.mark.parametrize("optimizer", ["sgd(lr=0.05, momentum=0.9)", "adamw(lr=0.05)", "muon(lr=0.05, ema=0.9)"])
def test_a_loss_that_is_no_number_changes_no_state(tmp_path: pathlib.Path, optimizer: str, options: List[str]) -> None:
    """Also of a stage that has computed its update before it hears of the loss."""
    random = np.random.default_rng(0)
    weights = {"w1": (6, 8), "w2": (8, 8), "w3": (8, 4)}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"], "fc1"), helper.make_node("Tanh", ["a"], ["b"], "t1"), helper.make_node("MatMul", ["b", "w2"], ["c"], "fc2"),
             helper.make_node("Tanh", ["c"], ["d"], "t2"), helper.make_node("MatMul", ["d", "w3"], ["y"], "fc3")]
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])],
                              [numpy_helper.from_array(random.standard_normal(shape, np.float32), name) for name, shape in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    artifact = autopar.compile(model, tmp_path / "step.bin", ranks=2, train=autopar.Train("mse(y, target)", optimizer), options=options)
    batch = {"x": random.standard_normal((4, 6), np.float32), "target": random.standard_normal((4, 4), np.float32)}
    with autopar.Session(artifact, on_nan="skip") as session:
        session.run(batch)
        before = {port.name: session.state(port.name) for port in session.states}
        session.run({**batch, "target": np.full((4, 4), np.nan, np.float32)})
        for name, value in before.items():
            np.testing.assert_array_equal(session.state(name), value, err_msg=name)


@pytest.fixture(scope="module")
def regularized(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A product, batch normalization, dropout, a product."""
    rng = np.random.default_rng(11)
    shapes = {"w": (6, 8), "scale": (8,), "bias": (8,), "running_mean": (8,), "running_var": (8,), "v": (8, 3)}
    weights = [numpy_helper.from_array(rng.uniform(0.5, 1.5, shape).astype(np.float32), name) for name, shape in shapes.items()]
    weights.append(numpy_helper.from_array(np.float32(0.5), "ratio"))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
             helper.make_node("BatchNormalization", ["h", "scale", "bias", "running_mean", "running_var"], ["n"], name="norm"),
             helper.make_node("Dropout", ["n", "ratio"], ["d"], name="dropout"),
             helper.make_node("MatMul", ["d", "v"], ["y"], name="second")]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "regularized", [tensor("x", TensorProto.FLOAT, [16, 6])],
                              [tensor("y", TensorProto.FLOAT, [16, 3])], weights)
    path = tmp_path_factory.mktemp("regularized") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_evaluation_uses_running_statistics_and_drops_nothing(regularized: pathlib.Path, tmp_path: pathlib.Path, ranks: int) -> None:
    artifact = autopar.compile(regularized, tmp_path / "train.bin", ranks=ranks,
                               train=autopar.Train("mse(y, target)", autopar.SGD(lr=0.01)))
    rng = np.random.default_rng(12)
    np.savez(tmp_path / "train.npz", x=rng.normal(size=(64, 6)).astype(np.float32), target=rng.normal(size=(64, 3)).astype(np.float32))
    held_out = {"x": rng.normal(size=(16, 6)).astype(np.float32), "target": rng.normal(size=(16, 3)).astype(np.float32)}
    np.savez(tmp_path / "held-out.npz", **held_out)
    done = run(artifact, "--data", tmp_path / "train.npz", "--eval-data", tmp_path / "held-out.npz", "--steps", "8", "--eval-every",
               "4", "--metrics", tmp_path / "metrics.jsonl", "--checkpoint-dir", tmp_path / "ckpt", "--export",
               tmp_path / "weights.safetensors")
    assert done.returncode == 0, done.stderr
    # The forward model, as exported, with what was trained.
    forward = autopar.compile(regularized, tmp_path / "forward.bin")
    with autopar.Session(forward, initializer=str(tmp_path / "weights.safetensors")) as session:
        y = session.run({"x": held_out["x"]})["y"]
    expected = np.mean((y - held_out["target"]) ** 2)
    assert lines(tmp_path / "metrics.jsonl")[-1]["eval_loss"] == pytest.approx(expected, rel=1e-5)


def test_every_rank_of_a_launcher_hears_of_the_first_bad_tensor(logarithm: pathlib.Path, tmp_path: pathlib.Path) -> None:
    artifact = autopar.compile(logarithm, tmp_path / "step.bin", ranks=2, train=autopar.Train("mse(y, target)", autopar.SGD(lr=0.1)))
    np.savez(tmp_path / "data.npz", x=-np.ones((8, 3), np.float32), target=np.zeros((8, 2), np.float32))
    words = [autopar.find_tool("autopar-run"), artifact, "--data", tmp_path / "data.npz", "--world-size", "2", "--rendezvous",
             f"file://{tmp_path / 'meeting'}"]
    ranks = [subprocess.Popen([*map(os.fspath, words), "--rank", str(rank)], stderr=subprocess.PIPE, text=True) for rank in range(2)]
    said = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [65, 65], said
    assert all("step 0: loss is NaN; the first NaN is in the result of" in text for text in said), said


def test_the_progress_line_shows_where_a_run_is(gpt2: Example, tmp_path: pathlib.Path) -> None:
    artifact = autopar.compile(gpt2.path, tmp_path / "train.bin", bind=gpt2.bind, train=TRAIN)
    reader, writer = os.openpty()
    words = [artifact, "--data", "synthetic", "--eval-data", "synthetic", "--eval-steps", "2", "--eval-every", "1", "--steps", "3"]
    subprocess.run([autopar.find_tool("autopar-run"), *map(os.fspath, words)], stderr=writer, check=True, timeout=120)
    os.close(writer)
    shown = os.read(reader, 1 << 16).decode()
    os.close(reader)
    for part in ("step 2/3", "loss ", "learning_rate 0.01", "eval_loss ", "tokens/s", "ms/step", " left"):
        assert part in shown, shown
