# SPDX-License-Identifier: Apache-2.0
"""How many bytes per second kernels move by the GPU's clock, alone and as parts of a step, as a share of what a copy moves."""

import json
import re
from typing import Dict, List, Tuple

from .check import CASE_S, Broken, Check, Row

#: Kinds of kernels of a step that are told.
MOST_KINDS = 12


def profile(check: Check, timing: dict, steps: int) -> Tuple[List[dict], float]:
    """Each instruction with how long the GPU says it takes, and what all of a step take together, in milliseconds."""
    words = [check.program("autopar-run"), timing["artifact"], *timing["arguments"], "--quiet", "--profile", "--json", "--warmup", "2", "--steps", str(steps)]
    done = check.start(words, check.folder, CASE_S)
    if done.returncode:
        raise Broken(done.stderr)
    told = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"ops"')))
    return told["ops"], told["total_ms"] / steps


def share(rate: float, copy_rate: float, of: str) -> str:
    """Of a copy's rate; empty where the copy was not measured."""
    return f", {rate / copy_rate:.0%} of {of}" if copy_rate else ""


def kernel(check: Check, timing: dict, copy: str, rates: Dict[str, float]) -> None:
    """One kernel, its rate in GB/s."""
    ops, _ = profile(check, timing, 10)
    rate = rates[timing["name"]] = sum(op["bytes"] for op in ops) / sum(op["ms_per_call"] for op in ops) / 1e6
    check.add(Row("kernels", timing["name"], "ok", f"{rate:,.0f} GB/s{share(rate, rates.get(copy, 0.0), 'a copy in float32')}"))


def by_kind(ops: List[dict]) -> List[Tuple[str, float, float]]:
    """Milliseconds and bytes of kernels that differ by a number only, longest first."""
    kinds: Dict[str, Tuple[float, float]] = {}
    for op in ops:
        if op["key"].startswith("kernel/"):
            name = re.sub(r"\d+", "*", op["op"])
            ms, moved = kinds.get(name, (0.0, 0.0))
            kinds[name] = (ms + op["ms_per_call"], moved + op["bytes"])
    return sorted(((name, ms, moved) for name, (ms, moved) in kinds.items()), key=lambda kind: -kind[1])


def step_in_parts(check: Check, timing: dict, medians: Dict[str, float], copy_rate: float) -> None:
    """What launches cost in a captured step, and the kernels that take longest in it."""
    ops, sum_ms = profile(check, timing, 3)
    if timing["name"] in medians:
        median = medians[timing["name"]]
        check.add(Row("kernels", timing["name"], "ok", f"its instructions take {sum_ms:.2f} ms one by one, a captured step {median:.2f}: {(median - sum_ms) / median:+.1%}"))
    for name, ms, moved in by_kind(ops)[:MOST_KINDS]:
        rate = moved / ms / 1e6
        check.add(Row("kernels", name, "ok", f"{ms:.3f} ms a step, {rate:,.0f} GB/s{share(rate, copy_rate, 'a copy')}"))


def run(check: Check, medians: Dict[str, float]) -> None:
    """What the others are held against comes first."""
    rates: Dict[str, float] = {}
    timings = check.cases.get("kernels", [])
    copy = timings[0]["name"] if timings else ""
    for timing in timings:
        check.run("kernels", timing["name"], kernel, timing, copy, rates)
    for timing in check.cases["speed"][:1]:
        check.run("kernels", timing["name"], step_in_parts, timing, medians, rates.get(copy, 0.0))
