# SPDX-License-Identifier: Apache-2.0
"""PyTorch's compiler on the same models, by torch_speed.py in a process of its own: this one needs no PyTorch."""

import json
import os
import pathlib
import sys
from typing import Tuple

from .check import Check, Row
from .machine import first_lines

TORCH_SPEED = pathlib.Path(__file__).resolve().parents[1] / "torch_speed.py"


def beside_torch(check: Check, timing: dict, cache: pathlib.Path) -> None:
    name, ours = timing["name"] + ", PyTorch beside it", check.measured.step_ms.get(check.as_it_ran(timing)["name"])
    # In the machine's own surroundings: its compiler calls the machine's programs. It takes what time is left.
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(cache))
    words = [sys.executable, str(TORCH_SPEED), *timing["torch"]]
    last = ""
    for why in ([], ["captured it fails: "]) if "train" in timing["torch"] else ([],):
        done = check.start([*words, *(text + last for text in why)], check.folder, float("inf"), environment)
        last = first_lines("\n".join(done.stderr.strip().splitlines()[-1:]))
        if done.returncode in (0, 124):
            break
    if done.returncode:
        return check.add(Row("speed", name, "not there", f"not measured: {last}"))
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    check.measured.torch_ms[timing["name"]] = answer["median_ms"]
    beside = f"; AutoPar's speed is {answer['median_ms'] / ours:.2f} of it" if ours else ""
    check.add(Row("speed", name, "ok", f"{answer['median_ms']:.2f} ms a step (torch.compile, max-autotune, {answer['how']}, {answer['version']}){beside}"))


def run(check: Check, cache: pathlib.Path) -> None:
    """What takes as long as it likes comes last, and of that first what matters most: the training step, then what is goals, f32 behind bf16."""
    def order(timing: dict) -> Tuple[bool, bool, bool]:
        return timing["torch"][1] != "train", not timing.get("is_goal"), timing["torch"][2] == "f32"

    for timing in sorted((timing for timing in check.cases["speed"] if timing["torch"]), key=order):
        check.run("speed", timing["name"] + ", PyTorch beside it", beside_torch, timing, cache)
