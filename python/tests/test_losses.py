# SPDX-License-Identifier: Apache-2.0
"""Every loss has PyTorch's value and slope, on one rank and on several."""

import pathlib
import subprocess
from typing import Dict, List, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
import emulated_cuda
from autopar import models

SHAPE = (6, 3, 8)
#: What autopar is told, and the same in PyTorch's words: y are predictions or logits of 8 classes, r weights of rows, v of all.
CASES: List[Tuple[str, str]] = [
    ("softmax_cross_entropy(y, labels)", "F.cross_entropy(y.transpose(1, 2), labels)"),
    ("softmax_cross_entropy(y, columns, axis=1)", "F.cross_entropy(y, columns)"),
    ("softmax_cross_entropy(y, labels, z_loss=0.01, ignore_index=2)",
     "F.cross_entropy(y.transpose(1, 2), labels, ignore_index=2) + 0.01 * y.logsumexp(-1)[labels != 2].square().mean()"),
    ("softmax_cross_entropy(y, labels, label_smoothing=0.2, z_loss=0.1)",
     "F.cross_entropy(y.transpose(1, 2), labels, label_smoothing=0.2) + 0.1 * y.logsumexp(-1).square().mean()"),
    ("soft_cross_entropy(y, p)", "F.cross_entropy(y.transpose(1, 2), p.transpose(1, 2))"),
    ("soft_cross_entropy(y, t, axis=1)", "F.cross_entropy(y, t)"),
    ("distillation(y, t)", "F.kl_div(y.log_softmax(-1), t.log_softmax(-1), log_target=True, reduction='sum') / 18"),
    ("distillation(y, t, axis=0, temperature=3)",
     "9 * F.kl_div((y / 3).log_softmax(0), (t / 3).log_softmax(0), log_target=True, reduction='sum') / 24"),
    ("negative_log_likelihood(y, labels)", "F.nll_loss(y.transpose(1, 2), labels)"),
    ("binary_cross_entropy(y, p)", "F.binary_cross_entropy_with_logits(y, p)"),
    ("binary_cross_entropy(y, p, pos_weight=3)", "F.binary_cross_entropy_with_logits(y, p, pos_weight=torch.tensor(3.0))"),
    ("binary_focal(y, hard)", "focal(y, hard, 0.25, 2)"),
    ("binary_focal(y, p, alpha=0.6, gamma=1)", "focal(y, p, 0.6, 1)"),
    ("mse(y, t)", "F.mse_loss(y, t)"),
    ("mean_absolute_error(y, t)", "F.l1_loss(y, t)"),
    ("mae(y, t)", "F.l1_loss(y, t)"),
    ("huber(y, t)", "F.huber_loss(y, t)"),
    ("huber(y, t, delta=0.3)", "F.huber_loss(y, t, delta=0.3)"),
    ("smooth_l1(y, t, beta=0.5)", "F.smooth_l1_loss(y, t, beta=0.5)"),
    ("softmax_cross_entropy(y, labels, r, ignore_index=2, label_smoothing=0.1)",
     "(F.cross_entropy(y.transpose(1, 2), labels, ignore_index=2, label_smoothing=0.1, reduction='none') * r).sum() / (labels != 2).sum()"),
    ("soft_cross_entropy(y, p, r)", "(F.cross_entropy(y.transpose(1, 2), p.transpose(1, 2), reduction='none') * r).mean()"),
    ("distillation(y, t, r, temperature=2)",
     "4 * (F.kl_div((y / 2).log_softmax(-1), (t / 2).log_softmax(-1), log_target=True, reduction='none').sum(-1) * r).mean()"),
    ("negative_log_likelihood(y, labels, r)", "(F.nll_loss(y.transpose(1, 2), labels, reduction='none') * r).mean()"),
    ("binary_cross_entropy(y, p, v)", "F.binary_cross_entropy_with_logits(y, p, weight=v)"),
    ("mse(y, t, v)", "((y - t).square() * v).mean()"),
    ("dpo(y, labels, f)", "-F.logsigmoid(margin(y, labels, labels >= 0, f, 0.1)).mean()"),
    ("dpo(y, labels, f, beta=0.5, label_smoothing=0.1, ignore_index=2)",
     "(-0.9 * F.logsigmoid(margin(y, labels, labels != 2, f, 0.5)) - 0.1 * F.logsigmoid(-margin(y, labels, labels != 2, f, 0.5))).mean()"),
    ("ppo(y, labels, r, old)", "clipped(y, labels, labels >= 0, r, old, 0.8, 1.2)"),
    ("ppo(y, labels, r, old, clip=0.1, clip_high=0.3, ignore_index=2)", "clipped(y, labels, labels != 2, r, old, 0.9, 1.3)"),
]
#: Runs in Debian's Python, which has PyTorch. Focal is that of torchvision.
TORCH = """
import sys
import numpy, torch
from torch.nn import functional as F

def focal(y, t, alpha, gamma):
    p = y.sigmoid()
    each = F.binary_cross_entropy_with_logits(y, t, reduction="none") * (1 - (p * t + (1 - p) * (1 - t))) ** gamma
    return ((alpha * t + (1 - alpha) * (1 - t)) * each).mean()

def own(y, labels):
    return y.log_softmax(-1).gather(-1, labels[..., None])[..., 0]

def margin(y, labels, kept, reference, beta):
    moved = (own(y, labels) * kept).sum(1) - reference
    return beta * (moved[0::2] - moved[1::2])

def clipped(y, labels, kept, advantages, old, low, high):
    ratio = (own(y, labels) - old).exp()
    return -(torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages) * kept).sum() / kept.sum()

given = {name: torch.from_numpy(array) for name, array in numpy.load(sys.argv[1]).items()}
y = given["y"].requires_grad_()
results = {}
for i, words in enumerate(sys.argv[3:]):
    loss = eval(words, {**globals(), **given})
    results[f"loss{i}"] = loss.item()
    results[f"slope{i}"], = (part.numpy() for part in torch.autograd.grad(loss, y))
numpy.savez(sys.argv[2], **results)
"""


def tensors() -> Dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    y, t = (2 * random.standard_normal(SHAPE, np.float32) for _ in range(2))
    p = np.exp(t) / np.exp(t).sum(-1, keepdims=True)
    labels = random.integers(0, 8, SHAPE[:2])
    own = np.take_along_axis(y - np.log(np.exp(y).sum(-1, keepdims=True)), labels[..., None], -1)[..., 0]
    return {"y": y, "t": t, "p": p, "hard": (t > 0).astype(np.float32), "labels": labels, "f": random.standard_normal(SHAPE[0], np.float32),
            "old": own + 0.3 * random.standard_normal(SHAPE[:2], np.float32),
            "r": random.standard_normal(SHAPE[:2], np.float32), "v": random.standard_normal(SHAPE, np.float32),
            "columns": random.integers(0, 3, SHAPE[::2])}


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, np.ndarray]:
    """Loss and slope of every case by PyTorch."""
    folder = tmp_path_factory.mktemp("torch")
    np.savez(folder / "given.npz", **tensors())
    done = subprocess.run(["/usr/bin/python3", "-c", TORCH, folder / "given.npz", folder / "truth.npz", *(words for _, words in CASES)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(np.load(folder / "truth.npz"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """y = x + w, so that the slope is what a step at rate 1 takes away from w."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "sum", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)], [numpy_helper.from_array(np.zeros(SHAPE, np.float32), "w")])
    path = tmp_path_factory.mktemp("sum") / "sum.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("number", range(len(CASES)), ids=[words for words, _ in CASES])
def test_value_and_slope_are_those_of_pytorch(model: pathlib.Path, truth: Dict[str, np.ndarray], tmp_path: pathlib.Path, number: int) -> None:
    given = {**tensors(), "x": tensors()["y"]}
    for ranks in (1, 2):
        compiled = autopar.compile(model, tmp_path / "step.bin", train=autopar.Train(CASES[number][0], "sgd(lr=1)"), ranks=ranks)
        with autopar.Session(compiled) as session:
            told = session.run({port.name: given[port.name] for port in session.inputs})
            np.testing.assert_allclose(told["loss"], truth[f"loss{number}"], rtol=2e-6)
            np.testing.assert_allclose(-session.state("w"), truth[f"slope{number}"], rtol=2e-5, atol=1e-8)


PLANS = [["--ranks", "4", "--mesh", "data=4"], ["--ranks", "2", "--mesh", "tensor=2"], ["--ranks", "2", "--stages", "2", "--micro-batches", "2"],
         ["--micro-batches", "4", "--rounds", "always"], ["--target", "cuda"]]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("gpt2") / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=2, hidden=32, heads=4, vocab=50)
    return path


@pytest.mark.parametrize("options", PLANS, ids=["data", "tensor", "stages", "rounds", "cuda"])
@pytest.mark.parametrize("loss", ["dpo(logits, labels, reference, beta=1)", "ppo(logits, labels, weights, old)", "distillation(logits, teacher, weights)",
                                  "softmax_cross_entropy(logits, labels, weights, z_loss=0.01)"], ids=lambda loss: loss.partition("(")[0])
def test_plans_learn_alike(gpt2: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, loss: str, options: List[str]) -> None:
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(emulated_cuda.LIBRARIES))
    random = np.random.default_rng(0)
    batch = {"input_ids": random.integers(0, 50, (8, 12)), "labels": random.integers(0, 50, (8, 12)), "reference": -40 - random.random(8, np.float32),
             "weights": random.standard_normal((8, 12), np.float32), "old": -4 - random.random((8, 12), np.float32),
             "teacher": random.standard_normal((8, 12, 50), np.float32)}
    results: List[List[float]] = []
    for words in ([], options):
        train = autopar.Train(loss, "adamw(lr=0.01)", clip_norm=1.0)
        compiled = autopar.compile(gpt2, tmp_path / "step.bin", bind={"batch": 8, "seq": 12}, train=train, options=words)
        with autopar.Session(compiled) as session:
            given = {port.name: batch[port.name] for port in session.inputs}
            steps = [session.run(given) for _ in range(3)]
            results.append([float(step[name]) for step in steps for name in ("loss", "gradient_norm")])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4)


def test_micro_batches_do_not_part_a_pair(gpt2: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(autopar.Error, match="couples the samples of a batch"):
        autopar.compile(gpt2, tmp_path / "step.bin", bind={"batch": 8, "seq": 12}, train=autopar.Train("dpo(logits, labels, reference)", micro_batches=8))


def test_a_teacher_in_the_model_learns_nothing(tmp_path: pathlib.Path) -> None:
    random = np.random.default_rng(0)
    nodes = [helper.make_node("MatMul", ["x", f"{who}.weight"], [who], who) for who in ("student", "teacher")]
    graph = helper.make_graph(
        nodes, "pair", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 8))],
        [helper.make_tensor_value_info(who, TensorProto.FLOAT, (4, 5)) for who in ("student", "teacher")],
        [numpy_helper.from_array(random.standard_normal((8, 5), np.float32), f"{who}.weight") for who in ("student", "teacher")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = random.standard_normal((4, 8), np.float32)
    train = autopar.Train("distillation(student, teacher, temperature=2)", "adamw(lr=0.05)", freeze="teacher.*")
    compiled = autopar.compile(model, tmp_path / "step.bin", train=train)
    with autopar.Session(compiled) as session:
        assert [port.name for port in session.inputs] == ["x"]
        losses = [float(session.run({"x": x})["loss"]) for _ in range(100)]
    assert losses[-1] < 0.05 * losses[0]


def test_a_teacher_on_a_later_stage_teaches_beside_another_loss(tmp_path: pathlib.Path) -> None:
    """What the slope of the one needs stands behind the values of both."""
    random = np.random.default_rng(0)
    nodes = [node for who in ("student", "teacher") for node in (
        helper.make_node("MatMul", ["x", f"{who}.up"], [f"{who}.h"], f"{who}.fc1"), helper.make_node("Tanh", [f"{who}.h"], [f"{who}.a"], f"{who}.act"),
        helper.make_node("MatMul", [f"{who}.a", f"{who}.down"], [who], f"{who}.fc2"))]
    graph = helper.make_graph(
        nodes, "pair", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 8))],
        [helper.make_tensor_value_info(who, TensorProto.FLOAT, (4, 5)) for who in ("student", "teacher")],
        [numpy_helper.from_array(random.standard_normal(shape, np.float32), f"{who}.{name}") for who in ("student", "teacher")
         for name, shape in (("up", (8, 16)), ("down", (16, 5)))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    batch = {"x": random.standard_normal((4, 8), np.float32), "labels": random.integers(0, 5, 4)}
    losses = []
    for options in ([], ["--ranks", "2", "--stages", "2", "--micro-batches", "2"]):
        train = autopar.Train("softmax_cross_entropy(student, labels) + 0.5*distillation(student, teacher)", "sgd(lr=0.1)", freeze="teacher.*",
                              metrics="mse(student, teacher)")
        with autopar.Session(autopar.compile(model, tmp_path / "step.bin", train=train, options=options)) as session:
            losses.append([[float(value) for value in session.run(batch).values()] for _ in range(3)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
