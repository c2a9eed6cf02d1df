# SPDX-License-Identifier: Apache-2.0
"""What ZeRO does by stages is a matter of where values lie: sharded optimizer state, gradients that are scattered before
they wait, parameters that are gathered in each phase. Each runs on ranks like one rank."""

import json
import pathlib
import re
import subprocess
from typing import Any, Dict, List

import numpy as np
import pytest

import autopar
from autopar import models

from stages import shares

RANKS, BATCH, SEQ, VOCAB, STEPS = 8, 16, 32, 64, 3
STEP = ["--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-2)"]


def compile_step(model: pathlib.Path, output: pathlib.Path, *options: object, batch: int = BATCH) -> pathlib.Path:
    """An artifact, a plan or IR of the step."""
    subprocess.run([autopar.find_tool("autopar-compile"), model, "--bind", f"batch={batch},seq={SEQ}", "-o", output, "--quiet",
                    *STEP, *options], check=True, timeout=120)
    return output


def losses(artifact: pathlib.Path, batch: int = BATCH) -> List[float]:
    """The loss of each step on random tokens."""
    random = np.random.default_rng(1)
    with autopar.Session(artifact) as session:
        tokens = [random.integers(0, VOCAB, (batch, SEQ + 1)) for _ in range(STEPS)]
        return [float(session.run({"input_ids": np.ascontiguousarray(one[:, :-1]), "labels": np.ascontiguousarray(one[:, 1:])})["loss"])
                for one in tokens]


def device_mib(artifact: pathlib.Path) -> float:
    """Planned memory of rank 0."""
    table = subprocess.run([autopar.find_tool("autopar-run"), "--dry-run", artifact], capture_output=True, text=True, check=True).stdout
    return float(re.search(r"^ +0 +0 +([0-9.]+)", table, re.MULTILINE).group(1))


def keep_partial_gradients(plan: Dict[str, Any]) -> None:
    """What waits for the update waits as every rank's own summand: its last factor is what is summed over."""
    for name, factors in plan["ops"].items():
        if name.endswith("/waiting"):
            plan["ops"][name] = [[]] * (len(factors) - 1) + [["data"]]


def scatter_gradients_at_once(plan: Dict[str, Any]) -> None:
    """What waits for the update waits as the update reads it."""
    for name, factors in plan["ops"].items():
        if name.endswith("/waiting"):
            read = plan["ops"][name[:-len("waiting")] + "read"]
            plan["ops"][name] = read + [[]] * (len(factors) - len(read))


def shard_parameters(plan: Dict[str, Any]) -> None:
    """Parameters lie as their optimizer state does."""
    shard = plan["shard"]
    for name in [name for name in shard if name + "/mean" in shard and not name.startswith("output:")]:
        shard[name] = shard["output:" + name] = shard[name + "/mean"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """gpt2 with two layers, more parameters than a rank has activations."""
    path = tmp_path_factory.mktemp("zero") / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=2, hidden=128, heads=4, vocab=VOCAB, positions=64)
    return path


def test_every_stage_equals_one_rank(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    expected = losses(compile_step(model, tmp_path / "one.bin"))
    found = compile_step(model, tmp_path / "found.json", f"--ranks={RANKS}", f"--mesh=data={RANKS}", "--plan-only")
    plan = json.loads(found.read_text())
    # The search itself keeps weights whole and splits their state and, of a single micro-batch, what waits for it: the second stage.
    weight = "transformer.h.0.mlp.c_fc.weight"
    assert plan["shard"][weight] == [[], []] and ["data"] in plan["shard"][weight + "/mean"]
    assert ["data"] in plan["ops"]["/transformer/h.0/mlp/c_fc/Gemm/vjp.1/waiting"][:-1]
    memory = []
    for stage, change in enumerate((keep_partial_gradients, scatter_gradients_at_once, shard_parameters), 1):
        change(plan)
        file = tmp_path / f"zero{stage}.json"
        file.write_text(json.dumps(plan))
        artifact = compile_step(model, tmp_path / f"zero{stage}.bin", "--plan", file)
        np.testing.assert_allclose(losses(artifact), expected, rtol=1e-5)
        memory.append(device_mib(artifact))
    # Full gradients do not wait for the update; then whole parameters are there only while they are read.
    assert memory[0] > memory[1] > 1.3 * memory[2]
    # The third stage gathers a weight for forward and again for backward.
    local = compile_step(model, tmp_path / "local.mlir", "--plan", file, "--stop-after", "optimize-collectives").read_text()
    assert re.search(rf'all_gather .*"{re.escape(weight)}/forward/reshard"', local)
    assert re.search(rf'all_gather .*"{re.escape(weight)}/backward/reshard"', local)


def test_what_is_found_under_a_falling_limit_equals_one_rank(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    batch = 64
    split = ["--micro-batches=4", f"--ranks={RANKS}", f"--mesh=data={RANKS}"]
    expected = losses(compile_step(model, tmp_path / "one.bin", batch=batch), batch)
    found = []
    for limit in (4096, 3300, 2800):
        plan = compile_step(model, tmp_path / "plan.json", *split, f"--memory-limit={limit}K", "--recompute=none", "--plan-only", batch=batch)
        found.append(shares(plan, 2))
        artifact = compile_step(model, tmp_path / "step.bin", split[0], "--plan", plan, batch=batch)
        np.testing.assert_allclose(losses(artifact, batch), expected, rtol=1e-5)
    assert [one.states for one in found] == [1, 1, 1]
    assert found[0].parameters == 0 and 0 < found[1].parameters < found[2].parameters
