# SPDX-License-Identifier: Apache-2.0
"""A hundred steps of training from the same weights on the same data give the losses that PyTorch gives."""

import pathlib
from typing import Dict, List, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autopar
import pytorch
from autopar import models

STEPS, FREE_STEPS = 100, 20
TOLERANCE = 1e-4
DECAY = 0.1
Arrays = Dict[str, np.ndarray]


class Task(NamedTuple):
    """A model of the zoo, its training data (one entry per step) and what PyTorch has to know of it.

    Rates are low enough for PyTorch's own results in 32 and in 64 bits to agree to the tolerance."""

    path: pathlib.Path
    bind: Dict[str, int]
    logits: str
    batches: Arrays
    rate: float
    settings: Dict[str, object]


def four_in_turn(drawn: Arrays) -> Arrays:
    """Four batches, again and again."""
    return {name: np.concatenate([values] * (STEPS // 4)) for name, values in drawn.items()}


def gpt2_task(folder: pathlib.Path) -> Task:
    """gpt2 with two layers."""
    batch, seq, vocab = 4, 16, 100
    models.save("gpt2-124m", folder / "gpt2.onnx", layers=2, hidden=32, heads=4, vocab=vocab)
    tokens = np.random.default_rng(1).integers(0, vocab, (4, batch, seq + 1))
    drawn = {"input_ids": tokens[:, :, :-1], "labels": tokens[:, :, 1:]}
    return Task(folder / "gpt2.onnx", {"batch": batch, "seq": seq}, "logits", four_in_turn(drawn), 1e-3,
                {"model": "gpt2", "layers": 2, "heads": 4})


def resnet_task(folder: pathlib.Path, frozen: bool) -> Task:
    """resnet with eight layers (3 + 3 in the blocks), by the statistics of the batch or by the running ones."""
    batch, classes = 16, 10
    models.save("resnet50", folder / "resnet.onnx", blocks="1,1", channels=8, image=32, classes=classes)
    random = np.random.default_rng(1)
    drawn = {"input": random.standard_normal((4, batch, 3, 32, 32)).astype(np.float32),
             "labels": random.integers(0, classes, (4, batch))}
    return Task(folder / "resnet.onnx", {"batch": batch}, "output", four_in_turn(drawn), 3e-4,
                {"model": "resnet", "blocks": [1, 1], "frozen_norm": frozen})


def switch_task(folder: pathlib.Path) -> Task:
    """bert-switch with two layers, the second a mixture of four experts. One sequence ends in padding."""
    batch, seq, vocab, hidden = 4, 16, 100, 32
    models.save("bert-switch", folder / "switch.onnx", layers=2, hidden=hidden, heads=4, vocab=vocab, experts=4, positions=seq)
    random = np.random.default_rng(1)
    drawn = {"input_ids": random.integers(0, vocab, (4, batch, seq)), "token_type_ids": random.integers(0, 2, (4, batch, seq)),
             "attention_mask": np.ones((4, batch, seq), np.int64), "labels": random.integers(0, hidden, (4, batch, seq))}
    drawn["attention_mask"][:, 1, 12:] = 0
    return Task(folder / "switch.onnx", {"batch": batch, "seq": seq}, "last_hidden_state", four_in_turn(drawn), 1e-3,
                {"model": "bert-switch", "layers": 2, "heads": 4, "capacity_factor": 1.25})


def record_routing(task: Task) -> Task:
    """The same with the choice of experts as an input: the gate's weight at that index in place of the greatest."""
    model = onnx.load(task.path)
    (top,) = [node for node in model.graph.node if node.op_type == "TopK"]
    place = list(model.graph.node).index(top)
    model.graph.node.remove(top)
    model.graph.node.insert(place, helper.make_node("GatherElements", [top.input[0], "routing"], [top.output[0]], axis=-1))
    model.graph.node.insert(place, helper.make_node("Identity", ["routing"], [top.output[1]]))
    model.graph.input.append(helper.make_tensor_value_info("routing", TensorProto.INT64, ["batch", "seq", 1]))
    path = task.path.with_suffix(".recorded.onnx")
    onnx.save(model, path)
    shape = task.batches["input_ids"].shape
    routing = np.random.default_rng(2).choice(4, (*shape, 1), p=[0.4, 0.3, 0.2, 0.1])
    return task._replace(path=path, batches={**task.batches, "routing": routing})


def losses_here(task: Task, folder: pathlib.Path, steps: int, **options: object) -> List[float]:
    """The losses of the compiled step."""
    train = autopar.Train(f"softmax_cross_entropy({task.logits}, labels)", autopar.AdamW(lr=task.rate, weight_decay=DECAY),
                          **options)  # type: ignore[arg-type]
    compiled = autopar.compile(task.path, folder / "train.bin", bind=task.bind, train=train)
    with autopar.Session(compiled) as session:
        return [float(session.run({name: values[step] for name, values in task.batches.items()})["loss"])
                for step in range(steps)]


def compare(task: Task, folder: pathlib.Path, steps: int = STEPS, **options: object) -> None:
    """Each step's loss is PyTorch's, and something is learnt."""
    batches = {name: values[:steps] for name, values in task.batches.items()}
    expected = pytorch.losses(task.path, folder, batches, optimizer="adamw", lr=task.rate, weight_decay=DECAY, clip_norm=0,
                              **task.settings)
    np.testing.assert_allclose(losses_here(task, folder, steps, **options), expected, rtol=TOLERANCE)
    assert np.mean(expected[-4:]) < np.mean(expected[:4])


def test_gpt2(tmp_path: pathlib.Path) -> None:
    compare(gpt2_task(tmp_path), tmp_path)


@pytest.mark.parametrize("frozen", [False, True], ids=["batch-statistics", "running-statistics"])
def test_resnet(tmp_path: pathlib.Path, frozen: bool) -> None:
    compare(resnet_task(tmp_path, frozen), tmp_path, inference_mode=frozen)


def test_switch_with_recorded_routing(tmp_path: pathlib.Path) -> None:
    compare(record_routing(switch_task(tmp_path)), tmp_path)


def test_switch_with_free_routing(tmp_path: pathlib.Path) -> None:
    compare(switch_task(tmp_path), tmp_path, FREE_STEPS)
