# SPDX-License-Identifier: Apache-2.0
"""How many bytes per second kernels move by the GPU's clock, alone and as parts of a step, as a share of what a copy moves."""

import json
import re
from typing import Dict, List, NamedTuple

from .check import CASE_S, Broken, Check, Row

#: Kinds of instructions of a step that are told.
MOST_KINDS = 16
#: Of a training program that is measured in parts.
STEPS = 5


def profile(check: Check, timing: dict, warmup: int, steps: int) -> List[dict]:
    """Each instruction with how long the GPU says it takes, in milliseconds: the median, since all steps of a training program count, also the one in which
    libraries load what they need."""
    words = [check.program("autopar-run"), timing["artifact"], *timing["arguments"], "--quiet", "--profile", "--json", "--warmup", str(warmup), "--steps", str(steps)]
    done = check.start(words, check.folder, CASE_S)
    if done.returncode:
        raise Broken(done.stderr)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"ops"')))["ops"]


def share(rate: float, copy_rate: float, of: str) -> str:
    """Of a copy's rate; empty where the copy was not measured."""
    return f", {rate / copy_rate:.0%} of {of}" if copy_rate else ""


def kernel(check: Check, timing: dict, rates: Dict[str, float]) -> None:
    """Instructions of one kind, their rate in GB/s; the first that is measured is the copy."""
    told = profile(check, timing, *timing.get("steps", (2, 10)))
    ops = [op for op in told if re.search(timing["instructions"], op["op"])]
    if not ops:
        raise Broken(f"none of its instructions is called {timing['instructions']}: {', '.join(op['op'] for op in told)}")
    name = timing["name"]
    rate = rates[name] = sum(op["bytes"] for op in ops) / sum(op["median_ms"] for op in ops) / 1e6
    copy_rate = rates.get(check.cases["kernels"][0]["name"], 0.0)
    if copy_rate:
        check.measured.of_copy[name] = rate / copy_rate
    check.add(Row("kernels", name, "ok", f"{rate:,.0f} GB/s{share(rate, copy_rate, 'a copy in float32')}"))


class Kind(NamedTuple):
    """Kernels of a step that differ by a number only, or calls of one form: milliseconds and bytes of all."""

    name: str
    is_kernel: bool
    ms: float
    moved: float


def by_kind(ops: List[dict]) -> List[Kind]:
    """Longest first."""
    kinds: Dict[str, Kind] = {}
    for op in ops:
        is_kernel = op["key"].startswith("kernel/")
        name = re.sub(r"\d+", "*", op["op"]) if is_kernel else op["key"]
        before = kinds.get(name, Kind(name, is_kernel, 0.0, 0.0))
        kinds[name] = before._replace(ms=before.ms + op["median_ms"], moved=before.moved + op["bytes"])
    return sorted(kinds.values(), key=lambda kind: -kind.ms)


def step_in_parts(check: Check, timing: dict, copy_rate: float) -> None:
    """What launches cost in a captured step, and the kernels and calls that take longest in it."""
    # Others run at load.
    ops = [op for op in profile(check, timing, 0, STEPS) if op["calls"] >= STEPS]
    count, sum_ms = sum(op["calls"] for op in ops) // STEPS, sum(op["median_ms"] * op["calls"] for op in ops) / STEPS
    median = check.measured.step_ms.get(timing["name"])
    if median:
        # The GPU's clock starts and stops around each instruction: at most what the shortest takes is the clock's own.
        clock_ms = min(op["median_ms"] for op in ops) * count
        most = check.measured.launches[timing["name"]] = (median - sum_ms + clock_ms) / median
        check.add(Row("kernels", timing["name"], "ok", f"its {count} instructions take {sum_ms:.2f} ms one by one, of which the clock may be {clock_ms:.2f}, "
                      f"a captured step {median:.2f}: {(median - sum_ms) / median:+.1%} to {most:+.1%}"))
    for kind in [kind for kind in by_kind(ops) if kind.ms][:MOST_KINDS]:
        rate = kind.moved / kind.ms / 1e6
        check.add(Row("kernels", kind.name, "ok", f"{kind.ms:.3f} ms of {timing['name']}, {rate:,.0f} GB/s{share(rate, copy_rate, 'a copy') if kind.is_kernel else ''}"))


def run(check: Check) -> None:
    """What the others are held against comes first."""
    rates: Dict[str, float] = {}
    timings = check.cases.get("kernels", [])
    for timing in timings:
        check.run("kernels", timing["name"], kernel, timing, rates)
    for timing in check.cases["speed"]:
        if timing.get("in_parts"):
            check.run("kernels", timing["name"], step_in_parts, check.as_it_ran(timing), rates.get(timings[0]["name"], 0.0) if timings else 0.0)
