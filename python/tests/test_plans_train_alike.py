# SPDX-License-Identifier: Apache-2.0
"""Fifty steps under data, tensor, sequence, expert and optimizer-state sharded plans, and mixes, equal one rank."""

import collections
import json
import pathlib
import re
from typing import Dict, List, NamedTuple

import numpy as np
import pytest

import autopar
import plans
from autopar import models
from plans import Layout

STEPS, TOLERANCE = 50, 1e-5
#: Extents are all different, so that a plan can name them.
BATCH, SEQ, HEADS, HEAD_SIZE, HIDDEN, INNER, VOCAB, EXPERTS = 16, 24, 8, 5, 40, 160, 56, 32
OPTIMIZER = "adamw(lr=1e-3, weight_decay=0.1)"


class Job(NamedTuple):
    """A training step on one rank: model, options, data, its module and its losses."""

    model: pathlib.Path
    words: List[str]
    batches: Dict[str, np.ndarray]
    module: pathlib.Path
    losses: List[float]


def run(compiled: autopar.Compiled, batches: Dict[str, np.ndarray], steps: int) -> List[float]:
    """The losses of the steps; four batches in turn."""
    with autopar.Session(compiled) as session:
        return [float(session.run({name: values[step % 4] for name, values in batches.items()})["loss"])
                for step in range(steps)]


def make(folder: pathlib.Path, name: str, logits: str, batches: Dict[str, np.ndarray], freeze: str = "", steps: int = STEPS,
         **options: object) -> Job:
    """Trains on one rank, all but the parameters of that name."""
    model, module = folder / f"{name}.onnx", folder / f"{name}.mlir"
    models.save(name, model, **{**dict(layers=2, hidden=HIDDEN, heads=HEADS, vocab=VOCAB), **options})
    words = ["--train", f"loss=softmax_cross_entropy({logits}, labels)", "--optimizer", OPTIMIZER, "--clip-norm", "1"]
    words += ["--freeze", freeze] if freeze else []
    bind = {"batch": BATCH, "seq": SEQ}
    autopar.compile(model, module, bind=bind, options=[*words, "--stop-after=train"])
    losses = run(autopar.compile(model, folder / f"{name}.bin", bind=bind, options=words), batches, steps)
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    return Job(model, words, batches, module, losses)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A small gpt2."""
    tokens = np.random.default_rng(1).integers(0, VOCAB, (4, BATCH, SEQ + 1))
    return make(tmp_path_factory.mktemp("gpt2"), "gpt2-124m", "logits",
                {"input_ids": tokens[:, :, :-1].copy(), "labels": tokens[:, :, 1:].copy()})


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A small bert-switch."""
    random, shape = np.random.default_rng(1), (4, BATCH, SEQ)
    return make(tmp_path_factory.mktemp("switch"), "bert-switch", "last_hidden_state",
                {"input_ids": random.integers(0, VOCAB, shape), "token_type_ids": random.integers(0, 2, shape),
                 "attention_mask": np.ones(shape, np.int64), "labels": random.integers(0, HIDDEN, shape)},
                experts=EXPERTS, capacity_factor=4.0)


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A small qwen3-moe, whose tokens reach experts by position; experts have little room."""
    tokens = np.random.default_rng(1).integers(0, VOCAB, (4, BATCH, SEQ + 1))
    return make(tmp_path_factory.mktemp("gathered"), "qwen3-30b-a3b", "logits",
                {"input_ids": tokens[:, :, :-1].copy(), "labels": tokens[:, :, 1:].copy()},
                kv_heads=4, head_size=6, inner=20, experts=EXPERTS, top_k=3)


@pytest.fixture(scope="module")
def dropless(tmp_path_factory: pytest.TempPathFactory, gathered: Job) -> Job:
    """The same, whose tokens look up the weights of all of their experts. After more steps the order of a sum decides which of
    two experts a token has."""
    return make(tmp_path_factory.mktemp("dropless"), "qwen3-30b-a3b", "logits", gathered.batches, steps=8, kv_heads=4, head_size=6,
                inner=20, experts=EXPERTS, top_k=3, dispatch="dropless")


@pytest.fixture(scope="module")
def latent(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A small deepseek: a block without experts, then one with groups of them and one that every token visits."""
    tokens = np.random.default_rng(1).integers(0, VOCAB, (4, BATCH, SEQ + 1))
    return make(tmp_path_factory.mktemp("latent"), "deepseek-v3", "logits",
                {"input_ids": tokens[:, :, :-1].copy(), "labels": tokens[:, :, 1:].copy()}, freeze="*e_score_correction_bias",
                dense_layers=1, query_rank=28, key_value_rank=20, plain_size=6, rotary_size=4, value_size=5, inner=INNER, expert_inner=12,
                experts=EXPERTS, groups=8, top_groups=3, top_k=3)


@pytest.fixture(scope="module")
def sinks(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A small gpt-oss: a block whose queries see a window, one whose see all before them, both with sinks. Fewer steps: once
    two experts are as good for a token, the order of a sum chooses."""
    tokens = np.random.default_rng(1).integers(0, VOCAB, (4, BATCH, SEQ + 1))
    return make(tmp_path_factory.mktemp("sinks"), "gpt-oss-120b", "logits",
                {"input_ids": tokens[:, :, :-1].copy(), "labels": tokens[:, :, 1:].copy()},
                steps=16, kv_heads=4, head_size=6, window=7, inner=20, experts=EXPERTS, top_k=3)


TENSOR = {HEADS: "t", INNER: "t", VOCAB: "t"}
EXPERT = {EXPERTS: "e"}
#: name -> layout, collectives that the program must have.
GPT2_PLANS = {
    "data-2": (Layout({"d": 2}, {BATCH: "d"}), "all_reduce"),
    "data-8": (Layout({"d": 8}, {BATCH: "d"}), "all_reduce"),
    "tensor-4": (Layout({"t": 4}, TENSOR), "all_reduce all_gather"),
    "sequence-4": (Layout({"s": 4}, {SEQ: "s"}), "all_reduce all_gather"),
    "state-4": (Layout({"d": 4}, {BATCH: "d"}, state="d"), "reduce_scatter all_gather"),
    "data-tensor-4": (Layout({"d": 2, "t": 2}, {BATCH: "d", **TENSOR}), "all_reduce all_gather"),
    "sequence-tensor-state-8": (Layout({"s": 2, "t": 2, "d": 2}, {SEQ: "s", BATCH: "d", **TENSOR}, state="d"),
                                "all_reduce reduce_scatter all_gather"),
}
SWITCH_PLANS = {
    "expert-4": (Layout({"e": 4}, EXPERT), "all_reduce all_gather"),
    "data-expert-state-8": (Layout({"d": 2, "e": 4}, {BATCH: "d", **EXPERT}, state="d"), "all_reduce reduce_scatter all_gather"),
}


GATHERED_PLANS = {
    "data-8": (Layout({"d": 8}, {BATCH: "d"}), "all_reduce"),
    "expert-4": (Layout({"e": 4}, EXPERT), "all_reduce"),
    "data-expert-state-8": (Layout({"d": 2, "e": 4}, {BATCH: "d", **EXPERT}, state="d"), "all_reduce reduce_scatter"),
    "hidden-2": (Layout({"h": 2}, {HIDDEN: "h"}), "all_reduce"),
}

DROPLESS_PLANS = {
    "data-8": (Layout({"d": 8}, {BATCH: "d"}), "all_reduce"),
    "expert-4": (Layout({"e": 4}, EXPERT), "all_reduce"),
    "sequence-4": (Layout({"s": 4}, {SEQ: "s"}), "all_reduce all_gather"),
    "data-expert-state-8": (Layout({"d": 2, "e": 4}, {BATCH: "d", **EXPERT}, state="d"), "all_reduce reduce_scatter"),
    "hidden-2": (Layout({"h": 2}, {HIDDEN: "h"}), "all_reduce"),
}

SINKS_PLANS = {
    "data-8": (Layout({"d": 8}, {BATCH: "d"}), "all_reduce"),
    "heads-4": (Layout({"t": 4}, {HEADS: "t", VOCAB: "t"}), "all_reduce"),
    "sequence-4": (Layout({"s": 4}, {SEQ: "s"}), "all_reduce all_gather"),
    "data-expert-state-8": (Layout({"d": 2, "e": 4}, {BATCH: "d", **EXPERT}, state="d"), "all_reduce reduce_scatter"),
}


def compare(job: Job, layout: Layout, collectives: str, folder: pathlib.Path) -> None:
    """Every loss equals one rank's, and the program communicates as the plan's name promises."""
    plans.write(job.module, layout, folder / "plan.json")
    compiled = autopar.compile(job.model, folder / "step.bin", bind={"batch": BATCH, "seq": SEQ},
                               ranks=int(np.prod(list(layout.axes.values()))),
                               options=[*job.words, "--plan", str(folder / "plan.json"), "--emit-mlir", str(folder)])
    (local,) = folder.glob("*-optimize-collectives.mlir")
    found = collections.Counter(re.findall(r"autopar\.(all_reduce|all_gather|reduce_scatter|all_to_all) ", local.read_text()))
    assert not set(collectives.split()) - set(found), found
    np.testing.assert_allclose(run(compiled, job.batches, len(job.losses)), job.losses, rtol=TOLERANCE)


@pytest.mark.parametrize("name", GPT2_PLANS)
def test_gpt2(gpt2: Job, tmp_path: pathlib.Path, name: str) -> None:
    compare(gpt2, *GPT2_PLANS[name], tmp_path)


@pytest.mark.parametrize("name", SWITCH_PLANS)
def test_switch(switch: Job, tmp_path: pathlib.Path, name: str) -> None:
    compare(switch, *SWITCH_PLANS[name], tmp_path)


@pytest.mark.parametrize("name", GATHERED_PLANS)
def test_gathered(gathered: Job, tmp_path: pathlib.Path, name: str) -> None:
    compare(gathered, *GATHERED_PLANS[name], tmp_path)


@pytest.mark.parametrize("name", DROPLESS_PLANS)
def test_dropless(dropless: Job, tmp_path: pathlib.Path, name: str) -> None:
    compare(dropless, *DROPLESS_PLANS[name], tmp_path)


@pytest.mark.parametrize("keys", [{"data": 2, "tensor": 2}, {"data": 2, "pipeline": 2, "micro_batch": 4}])
def test_dropless_by_degrees(dropless: Job, tmp_path: pathlib.Path, keys: Dict[str, int]) -> None:
    train_by(dropless, tmp_path, keys)


@pytest.mark.parametrize("keys, axes", [
    ({"data": 2, "experts": 2}, ["expert"]),
    ({"data": 4, "experts": 4}, ["expert"]),
    ({"data": 4, "experts": 2, "zero": 1}, ["expert"]),
    ({"data": 2, "experts": 2, "tensor": 2}, ["expert"]),
    ({"data": 2, "experts": 2, "pipeline": 2, "micro_batch": 4, "recompute": "full"}, ["expert"]),
    ({"data": 2, "experts": 4, "tensor": 2, "sequence": True, "expert_tensor": 1}, ["expert", "tensor"]),
    ({"data": 2, "experts": 2, "tensor": 2, "expert_tensor": 1}, ["tensor"]),
])
def test_dropless_experts_as_a_degree(dropless: Job, tmp_path: pathlib.Path, keys: Dict[str, int], axes: List[str]) -> None:
    """Without capacity too experts lie apart; samples are split over the axes besides, losses are one rank's. The plan, replayed,
    is the same program."""
    plan = train_by(dropless, tmp_path, keys)
    assert all(dims[0][: len(axes)] == axes for dims in experts_of(plan)), experts_of(plan)
    assert keys.get("expert_tensor") != 1 or not any(any(dims[1:]) for dims in experts_of(plan)), experts_of(plan)
    assert plan["expert_parts"] == keys["experts"]
    assert "expert" not in axes or any("expert" in axis for axis in plan["shard"]["input_ids"])
    replayed = autopar.compile(dropless.model, tmp_path / "again.bin", bind={"batch": BATCH, "seq": SEQ}, ranks=ranks_of(keys),
                               options=[*dropless.words, "--plan", str(tmp_path / "plan.json")])
    assert run(replayed, dropless.batches, 2) == run(autopar.Compiled(tmp_path / "step.bin"), dropless.batches, 2)


def test_dropless_experts_train_like_dense_ones(dropless: Job, tmp_path: pathlib.Path) -> None:
    dense = make(tmp_path, "qwen3-30b-a3b", "logits", dropless.batches, steps=8, kv_heads=4, head_size=6, inner=20, experts=EXPERTS,
                 top_k=3, dispatch="dense")
    np.testing.assert_allclose(dropless.losses, dense.losses, rtol=TOLERANCE)


@pytest.mark.parametrize("name", SINKS_PLANS)
def test_sinks(sinks: Job, tmp_path: pathlib.Path, name: str) -> None:
    compare(sinks, *SINKS_PLANS[name], tmp_path)


def ranks_of(keys: Dict[str, int]) -> int:
    """Of a plan in degrees."""
    return int(np.prod([keys.get(key, 1) for key in ("data", "tensor", "pipeline")]))


def train_by(trained: Job, folder: pathlib.Path, keys: Dict[str, int]) -> Dict[str, object]:
    """The plan in degrees, filled in; every loss equals one rank's."""
    (folder / "degrees.json").write_text(json.dumps({"kind": "degrees", "version": 1, **keys}))
    compiled = autopar.compile(trained.model, folder / "step.bin", bind={"batch": BATCH, "seq": SEQ}, ranks=ranks_of(keys),
                               options=[*trained.words, "--plan", str(folder / "degrees.json"), "--emit-plan", str(folder / "plan.json"),
                                        "--emit-mlir", str(folder)])
    np.testing.assert_allclose(run(compiled, trained.batches, len(trained.losses)), trained.losses, rtol=TOLERANCE)
    return json.loads((folder / "plan.json").read_text())


def experts_of(plan: Dict[str, object]) -> List[List[List[str]]]:
    """How the parameters and state of experts lie."""
    found = [axes for name, axes in plan["shard"].items() if ".experts." in name]
    assert found
    return found


def exchanges(folder: pathlib.Path) -> bool:
    """Whether the program has an all-to-all over the axis "expert"."""
    (local,) = folder.glob("*-optimize-collectives.mlir")
    return re.search(r'autopar\.all_to_all [^\n]*"expert"', local.read_text()) is not None


@pytest.mark.parametrize("keys", [{"data": 4, "experts": 4}, {"data": 4, "experts": 2, "zero": 1}, {"data": 2, "experts": 2, "tensor": 2},
                                  {"data": 2, "experts": 2, "pipeline": 2, "micro_batch": 4}])
@pytest.mark.parametrize("job", ["switch", "gathered", "latent", "sinks"])
def test_experts_as_a_degree(request: pytest.FixtureRequest, tmp_path: pathlib.Path, job: str, keys: Dict[str, int]) -> None:
    """Expert parallelism as users of Megatron write it: experts lie apart, tokens go to them by all-to-all, losses are one rank's."""
    plan = train_by(request.getfixturevalue(job), tmp_path, keys)
    assert all(axes[0][:1] == ["expert"] for axes in experts_of(plan)), experts_of(plan)
    assert any("expert" in axes for axes in plan["shard"]["input_ids"])
    assert exchanges(tmp_path)


@pytest.mark.parametrize("keys, axes", [
    ({"data": 2, "experts": 4, "tensor": 2}, ["expert", "tensor"]),
    ({"data": 2, "experts": 4, "tensor": 2, "sequence": True}, ["expert", "tensor"]),
    ({"data": 4, "experts": 4, "tensor": 2, "sequence": True, "zero": 1}, ["expert", "tensor"]),
    ({"data": 2, "experts": 4, "tensor": 2, "sequence": True, "pipeline": 2, "micro_batch": 4}, ["expert", "tensor"]),
    ({"data": 2, "experts": 2, "tensor": 2}, ["tensor"]),
])
@pytest.mark.parametrize("job", ["switch", "gathered"])
def test_whole_experts_on_ranks_of_data_and_tensor(request: pytest.FixtureRequest, tmp_path: pathlib.Path, job: str, keys: Dict[str, int],
                                                   axes: List[str]) -> None:
    """Experts are never cut by tensor, attention is, and losses are one rank's."""
    plan = train_by(request.getfixturevalue(job), tmp_path, {**keys, "expert_tensor": 1})
    assert all(dims[0] == axes and not any(dims[1:]) for dims in experts_of(plan)), experts_of(plan)
    attention = [dims for name, dims in plan["shard"].items() if re.search(r"attn?.*weight$|attention.*weight$", name)]
    assert any(["tensor"] in dims for dims in attention), attention
    assert exchanges(tmp_path) == ("expert" in axes)
