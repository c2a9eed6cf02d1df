# SPDX-License-Identifier: Apache-2.0
"""A plan that fits into less memory fits into more: with more, a step is planned that takes no longer."""

import json
import pathlib
import subprocess
from typing import Dict, List

import pytest

from autopar import models
from autopar.tools import find_tool

#: Of a step: what searches under different limits may differ by.
SLACK = 1.005

#: gpt3-1.3b on four devices: options, the count of a step that decides, limits in GiB.
CASES = {
    "turns": (["--micro-batches=16", "--stages=2", "--virtual-stages=2", "--pipeline-schedule=interleaved-zero-bubble"], "kernels_us", [8, 9, 10, 11]),
    "stages": (["--micro-batches=16", "--stages=4", "--pipeline-schedule=zero-bubble"], "kernels_us", [9, 10, 11]),
    "one stage": (["--micro-batches=1"], "step_us", [10, 12, 16, 20]),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "gpt3.onnx"
    models.save("gpt3-1.3b", path, weights=False)
    return path


def planned(model: pathlib.Path, folder: pathlib.Path, limit: int, *options: str) -> Dict[str, float]:
    """What a plan within so many bytes per device believes."""
    command: List[str] = [find_tool("autopar-compile"), model, "--precision=bf16", "--quiet", "--train=loss=softmax_cross_entropy(logits, labels)",
                          "--optimizer=adamw(lr=1e-4)", f"--memory-limit={limit}", "--plan-only", f"-o={folder / 'plan.json'}", *options]
    subprocess.run([*map(str, command)], check=True, timeout=300)
    return json.loads((folder / "plan.json").read_text())["believed"]


def check(limits: List[float], steps: List[float]) -> None:
    slower = [(limits[i], limits[i + 1], steps[i], steps[i + 1]) for i in range(len(steps) - 1) if steps[i + 1] > SLACK * steps[i]]
    assert not slower, f"more memory, a longer step: {slower}"


@pytest.mark.parametrize("case", CASES)
def test_more_memory_gives_no_slower_step(model, tmp_path, case):
    options, count, limits = CASES[case]
    options = ["--bind=batch=32,seq=1024", "--cluster=presets:a100x4", *options]
    check(limits, [planned(model, tmp_path, limit << 30, *options)[count] for limit in limits])


def test_more_memory_gives_no_slower_schedule(tmp_path):
    """Which of them is left to cost: from zero bubbles with much computed again to turns that keep everything."""
    models.save("gpt2-124m", tmp_path / "m.onnx", weights=False, layers=8, hidden=1024, heads=16, vocab=8000)
    options = ["--bind=batch=64,seq=1024", "--cluster=presets:a100x4x2", "--stages=4", "--micro-batches=8", "--pipeline-schedule=auto"]
    limits = [1.2, 1.6, 1.8, 2]
    found = [planned(tmp_path / "m.onnx", tmp_path, int(limit * 2**30), *options) for limit in limits]
    check(limits, [one["kernels_us"] for one in found])
