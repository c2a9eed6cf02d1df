# SPDX-License-Identifier: Apache-2.0
"""What is computed again for the backward pass changes memory and time, and not a bit of what is learnt."""

import json
import pathlib
import random
import re
import subprocess
from typing import List

import pytest
import small_gpt2

import autopar
from autopar.tools import find_tool

STEPS, MICRO_BATCHES = 20, 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return small_gpt2.save(tmp_path_factory.mktemp("model"), layers=4)


def build(model: pathlib.Path, artifact: pathlib.Path, ranks: int, *options: str) -> pathlib.Path:
    return small_gpt2.compile_step(model, artifact, ranks, MICRO_BATCHES, *options)


def memory(artifact: pathlib.Path) -> List[int]:
    """Bytes that each rank's program was planned to need."""
    report = subprocess.run([find_tool("autopar-run"), "--dry-run", "--json", artifact], check=True, capture_output=True, text=True)
    return [rank["device_bytes"] for rank in json.loads(report.stdout)["ranks"]]


def forward_operations(phases: pathlib.Path) -> List[str]:
    """Ids of groups and other operations of the forward pass of a micro-batch."""
    (text,) = [path.read_text() for path in phases.glob("*-form-groups.mlir")]
    ids = re.findall(r'^    %\S+ = .*?autopar\.id = "([^"]*)"', text, re.M)
    return [name for name in ids if name.startswith("/transformer/h.") and "/vjp" not in name and "constant" not in name]


@pytest.mark.parametrize("options", [["--mesh", "x=4"], ["--stages", "2", "--mesh", "x=2", "--pipeline-schedule", "zero-bubble"]])
def test_a_plan_with_recomputation_trains_alike_in_less_memory(model, tmp_path, options):
    kept = build(model, tmp_path / "kept.bin", 4, *options, "--emit-plan", str(tmp_path / "plan.json"), "--emit-mlir", str(tmp_path / "phases"))
    plan = json.loads((tmp_path / "plan.json").read_text())
    losses = small_gpt2.losses(kept, STEPS)
    names = forward_operations(tmp_path / "phases")
    names = [name for name in names if "/mlp/" in name]
    assert len(names) >= 12
    for share in (1, 0.3):
        plan["recompute"] = random.Random(3).sample(names, int(share * len(names)))
        (tmp_path / "edited.json").write_text(json.dumps(plan))
        again = build(model, tmp_path / "again.bin", 4, "--plan", str(tmp_path / "edited.json"))
        assert small_gpt2.losses(again, STEPS) == losses
        assert max(memory(again)) < max(memory(kept))


def test_a_plan_that_recomputes_what_does_not_exist_is_refused(model, tmp_path):
    build(model, tmp_path / "a.bin", 2, "--emit-plan", str(tmp_path / "plan.json"))
    plan = json.loads((tmp_path / "plan.json").read_text())
    plan["recompute"] = ["/transformer/h.9/Add"]
    (tmp_path / "edited.json").write_text(json.dumps(plan))
    with pytest.raises(autopar.Error, match='recompute: names operation "/transformer/h.9/Add", which @main does not have'):
        build(model, tmp_path / "b.bin", 2, "--plan", str(tmp_path / "edited.json"))
