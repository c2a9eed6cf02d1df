# SPDX-License-Identifier: Apache-2.0
"""Metrics of a step are what NumPy computes of the model's outputs, under any plan; evaluations give them too."""

import pathlib
import subprocess
from typing import Dict, List

import numpy as np
import pytest

import autopar
import emulated_cuda
from autopar import curves, models
from test_evaluation import lines, run

VOCAB, BATCH, SEQ = 24, 4, 8
METRICS = ["accuracy(logits, labels)", "top5=accuracy(logits, labels, top=5)",
           "weighted=accuracy(logits, labels, weights, top=5)", "mae(logits, wanted)", "binary_accuracy(logits, wanted, threshold=0.01)", "nll=softmax_cross_entropy(logits, labels, label_smoothing=0.1)"]
TRAIN = autopar.Train("softmax_cross_entropy(logits, labels, ignore_index=-100)", autopar.SGD(lr=0.1), metrics=METRICS)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("gpt2") / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=2, hidden=32, heads=2, vocab=VOCAB)
    return path


def batch(seed: int) -> Dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, VOCAB, (BATCH, SEQ))
    labels[random.random(labels.shape) < 0.2] = -100
    return {"input_ids": random.integers(0, VOCAB, (BATCH, SEQ)), "labels": labels, "weights": random.random((BATCH, SEQ), np.float32),
            "wanted": random.random((BATCH, SEQ, VOCAB), np.float32)}


def expected(logits: np.ndarray, labels: np.ndarray, wanted: np.ndarray, weights: np.ndarray) -> Dict[str, float]:
    kept = labels >= 0
    order = np.argsort(-logits, axis=-1, kind="stable")
    place = np.argmax(order == labels[..., None], axis=-1)  # of the label
    shifted = logits - logits.max(-1, keepdims=True)
    surprise = np.log(np.exp(shifted).sum(-1, keepdims=True)) - shifted
    own = np.take_along_axis(surprise, np.maximum(labels, 0)[..., None], -1)[..., 0]
    return {
        "loss": own[kept].mean(),
        "accuracy": (place < 1)[kept].mean(),
        "top5": (place < 5)[kept].mean(),
        "weighted": ((place < 5) * weights)[kept].mean(),
        "mae": np.abs(logits - wanted).mean(),
        "binary_accuracy": ((logits > 0.01) == (wanted > 0.5)).mean(),
        "nll": (0.9 * own + 0.1 * surprise.mean(-1))[kept].mean(),
    }


@pytest.mark.parametrize("options", [
    [], ["--ranks", "2", "--mesh", "data=2"], ["--ranks", "2", "--mesh", "tensor=2"],
    ["--ranks", "4", "--stages", "2", "--micro-batches", "2", "--pipeline-schedule", "zero-bubble"], ["--micro-batches", "4", "--rounds", "always"],
    ["--target", "cuda"]], ids=["one", "data", "tensor", "stages", "rounds", "cuda"])
def test_metrics_are_those_of_the_outputs(gpt2: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, options: List[str]) -> None:
    """Before a step, in it, and after it: of the outputs that the model has with the parameters of then."""
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(emulated_cuda.LIBRARIES))
    bind = {"batch": BATCH, "seq": SEQ}
    step = autopar.compile(gpt2, tmp_path / "train.bin", bind=bind, train=TRAIN, options=options)
    autopar.compile(gpt2, tmp_path / "forward.bin", bind=bind)

    def check(given: Dict[str, float], inputs: Dict[str, np.ndarray], initializer: str) -> None:
        with autopar.Session(tmp_path / "forward.bin", initializer=initializer) as forward:
            logits = forward.run({"input_ids": inputs["input_ids"]})["logits"]
        for name, value in expected(logits, inputs["labels"], inputs["wanted"], inputs["weights"]).items():
            np.testing.assert_allclose(given[name], value, rtol=1e-5, err_msg=name)

    with autopar.Session(step) as session:
        check(session.evaluate(batch(1)), batch(1), "")
        check(session.run(batch(2)), batch(2), "")
        session.export(tmp_path / "w.safetensors")
        after = session.evaluate(batch(3))
        assert list(after) == ["loss", "accuracy", "top5", "weighted", "mae", "binary_accuracy", "nll"]
        check(after, batch(3), str(tmp_path / "w.safetensors"))


def test_of_equal_logits_the_first_are_greater(tmp_path: pathlib.Path) -> None:
    """As NumPy's and PyTorch's argmax have it. A label that the loss does not ignore is refused where none is ignored."""
    layer = """
module { autopar.origin @w : tensor<3x4xf32>
func.func @main(%x: tensor<4x3xf32> {autopar.name = "x"}, %w: tensor<3x4xf32> {autopar.name = "w", autopar.origin = @w})
    -> (tensor<4x4xf32> {autopar.name = "logits"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32> } }
"""
    (tmp_path / "line.mlir").write_text(layer)
    train = autopar.Train("softmax_cross_entropy(logits, labels)", "sgd(lr=0.1)",
                          metrics="accuracy(logits, labels), two=accuracy(logits, labels, top=2), other=accuracy(logits, labels, ignore_index=2)")
    autopar.compile(tmp_path / "line.mlir", tmp_path / "line.bin", train=train)
    with autopar.Session(tmp_path / "line.bin", initializer="zeros") as session:
        inputs = {"x": np.ones((4, 3), np.float32), "labels": np.array([0, 1, 2, 0])}
        told = session.evaluate(inputs)
        assert (told["accuracy"], told["two"]) == (0.5, 0.75) and told["other"] == pytest.approx(2 / 3)
        with pytest.raises(autopar.Error, match="labels"):
            session.evaluate({**inputs, "labels": np.array([0, 1, -100, 0])})


def test_metrics_of_held_out_data_stand_beside_its_loss(gpt2: pathlib.Path, tmp_path: pathlib.Path) -> None:
    train = autopar.Train("softmax_cross_entropy(logits, labels)", "sgd(lr=0.1)", metrics="accuracy(logits, labels)")
    step = autopar.compile(gpt2, tmp_path / "train.bin", bind={"batch": BATCH, "seq": SEQ}, ranks=2, train=train)
    rows = np.random.default_rng(6).integers(0, VOCAB, (2, 3 * BATCH, SEQ))
    np.savez(tmp_path / "rows.npz", input_ids=rows[0], labels=rows[1])
    said = run(step, "--data", tmp_path / "rows.npz", "--eval-data", tmp_path / "rows.npz", "--steps", "2", "--metrics", tmp_path / "metrics.jsonl")
    assert said.returncode == 0 and " accuracy 0.0" in said.stderr and " eval_accuracy 0.0" in said.stderr
    assert [("accuracy" in line, "eval_accuracy" in line) for line in lines(tmp_path / "metrics.jsonl")] == [(True, False), (True, True)]
    assert run(step, "--eval-data", tmp_path / "rows.npz", "--steps", "0", "--metrics", tmp_path / "start.jsonl").returncode == 0
    with autopar.Session(step) as session:
        told = [session.evaluate({"input_ids": rows[0, i:i + BATCH], "labels": rows[1, i:i + BATCH]}) for i in range(0, 3 * BATCH, BATCH)]
    drawn = curves.write_page([curves.read_metrics(tmp_path / "metrics.jsonl")])
    assert "<h2>accuracy</h2>" in drawn and "<td>eval_accuracy</td>" in drawn
    start, = lines(tmp_path / "start.jsonl")
    for name in ("loss", "accuracy"):
        assert start[f"eval_{name}"] == pytest.approx(np.mean([values[name] for values in told]), rel=1e-12)


def test_metrics_need_a_loss(gpt2: pathlib.Path) -> None:
    said = subprocess.run([autopar.find_tool("autopar-compile"), gpt2, "--metric", "accuracy(logits, labels)"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert said.returncode == 2 and "--metric" in said.stderr and 'need --train "loss=..."' in said.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_weights_of_the_best_evaluation_are_kept(gpt2: pathlib.Path, tmp_path: pathlib.Path, ranks: int) -> None:
    """Over an interruption, too. The rate is so high that the last steps are worse than some before."""
    train = autopar.Train("softmax_cross_entropy(logits, labels)", "sgd(lr=2)", metrics="accuracy(logits, labels)")
    step = autopar.compile(gpt2, tmp_path / "train.bin", bind={"batch": BATCH, "seq": SEQ}, ranks=ranks, train=train)
    rows = np.random.default_rng(8).integers(0, 4, (2, 3 * BATCH, SEQ))
    np.savez(tmp_path / "rows.npz", input_ids=rows[0], labels=rows[1])
    words = ["--data", tmp_path / "rows.npz", "--eval-data", tmp_path / "rows.npz", "--eval-every", "1", "--checkpoint-dir", tmp_path / "ckpt"]
    for by, better in (("min:loss", min), ("max:accuracy", max)):
        words[-1] = tmp_path / by[:3]
        best, name = tmp_path / f"{by[:3]}.safetensors", "eval_" + by[4:]
        metrics = tmp_path / f"{by[:3]}.jsonl"
        for steps in ("4", "9"):
            said = run(step, *words, "--steps", steps, "--export-best", best, "--best-by", by, "--metrics", metrics)
            assert said.returncode == 0, said.stderr
        told = [line[name] for line in lines(metrics)]
        assert len(told) == 9 and better(told) != told[-1]
        alone = tmp_path / "alone.jsonl"
        alone.unlink(missing_ok=True)
        assert run(step, "--init", best, "--steps", "0", "--eval-data", tmp_path / "rows.npz", "--metrics", alone).returncode == 0
        assert lines(alone)[0][name] == pytest.approx(better(told), rel=1e-6)


@pytest.mark.parametrize("ranks", [1, 2])
def test_training_stops_when_nothing_gets_better(gpt2: pathlib.Path, tmp_path: pathlib.Path, ranks: int) -> None:
    """After as many evaluations as --patience says; a run that goes on has counted those before."""
    train = autopar.Train("softmax_cross_entropy(logits, labels)", "sgd(lr=0)")
    step = autopar.compile(gpt2, tmp_path / "train.bin", bind={"batch": BATCH, "seq": SEQ}, ranks=ranks, train=train)
    rows = np.random.default_rng(8).integers(0, 4, (2, 3 * BATCH, SEQ))
    np.savez(tmp_path / "rows.npz", input_ids=rows[0], labels=rows[1])
    words = ["--data", tmp_path / "rows.npz", "--eval-data", tmp_path / "rows.npz", "--eval-every", "1", "--checkpoint-dir", tmp_path / "ckpt",
             "--export-best", tmp_path / "best.safetensors", "--metrics", tmp_path / "metrics.jsonl"]
    for steps, done in (("3", 3), ("20", 5), ("20", 6)):  # the first is the best; then 2, 4 and 5 were no better
        said = run(step, *words, "--steps", steps, "--patience", "4")
        assert said.returncode == 0 and len(lines(tmp_path / "metrics.jsonl")) == done
        assert (f"stopped after step {done}: 4 evaluations were no better than the best" in said.stderr) == (steps == "20")


@pytest.mark.parametrize("words, code, says", [
    (["--best-by", "accuracy", "--eval-data", "synthetic", "--eval-steps", "1"], 2, "--best-by accuracy: expected min: or max: and a metric, as in max:accuracy"),
    (["--best-by", "max:f1", "--eval-data", "synthetic", "--eval-steps", "1"], 65, "--best-by: there is no metric 'f1'; evaluations of "),
    ([], 2, "--export-best takes the best of several evaluations: it goes with --eval-data and steps"),
])
def test_what_is_best_is_said_and_known(gpt2: pathlib.Path, tmp_path: pathlib.Path, words: List[str], code: int, says: str) -> None:
    train = autopar.Train("softmax_cross_entropy(logits, labels)", "sgd(lr=2)", metrics="accuracy(logits, labels)")
    step = autopar.compile(gpt2, tmp_path / "train.bin", bind={"batch": BATCH, "seq": SEQ}, train=train)
    said = run(step, "--data", "synthetic", "--steps", "2", "--export-best", tmp_path / "best.safetensors", *words)
    assert said.returncode == code and says in said.stderr and not (tmp_path / "best.safetensors").exists()
