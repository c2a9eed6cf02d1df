# SPDX-License-Identifier: Apache-2.0
"""The numbers that were set for one H200, each beside what this machine shows: the last rows of the table, and a file that programs can read."""

import dataclasses
import datetime
import json
import pathlib
from typing import Iterator, List, NamedTuple, Optional

from .check import Check, Measured, Row

#: Speed, of PyTorch's on the same machine.
LEAST_OF_TORCH = 1.0
#: Tokens per second of a training step that are hoped for.
AIMED_TOKENS = 550_000
#: Bytes per second of a kernel, of a copy's.
LEAST_OF_COPY = 0.85
#: What launches cost of a captured step.
MOST_LAUNCHES = 0.03
#: What the driver counts beyond the planned peak, or less, of the peak.
MOST_BEYOND_PLAN = 0.03


class Goal(NamedTuple):
    name: str
    #: None: not measured.
    value: Optional[float]
    wanted: str
    is_met: bool
    more: str = ""

    def verdict(self) -> str:
        return "not there" if self.value is None else "met" if self.is_met else "MISSED"

    def text(self, value: float) -> str:
        return f"{value:.2f}" if "of PyTorch" in self.wanted else f"{value:.1%}"


def at_least(name: str, value: Optional[float], least: float, wanted: str, more: str = "") -> Goal:
    return Goal(name, value, wanted, value is not None and value >= least, more)


def within(name: str, value: Optional[float], least: float, most: float, wanted: str) -> Goal:
    return Goal(name, value, wanted, value is not None and least <= value <= most)


def beside_torch(check: Check, timing: dict) -> Goal:
    name, way = timing["name"], check.as_it_ran(timing)["name"]
    ours, torch = check.measured.step_ms.get(way), check.measured.torch_ms.get(name)
    more = f"{'as ' + way + ': ' if way != name else ''}{timing['tokens'] / ours * 1e3:,.0f} tokens/s{', aimed at are ' + format(AIMED_TOKENS, ',') if timing['torch'][1] == 'train' else ''}" if ours else ""
    return at_least(name, torch / ours if ours and torch else None, LEAST_OF_TORCH, f"at least {LEAST_OF_TORCH:.2f} of PyTorch's speed", more)


def goals(check: Check) -> Iterator[Goal]:
    """As many as the pack has timings for."""
    measured = check.measured
    for timing in check.cases["speed"]:
        if timing.get("is_goal"):
            yield beside_torch(check, timing)
    for timing in check.cases.get("kernels", [])[1:]:
        yield at_least(timing["name"], measured.of_copy.get(timing["name"]), LEAST_OF_COPY, f"at least {LEAST_OF_COPY:.0%} of a copy's bytes per second")
    for timing in check.cases["speed"][:1]:
        name = check.as_it_ran(timing)["name"]
        yield within(f"launches of a {name}", measured.launches.get(name), float("-inf"), MOST_LAUNCHES, f"at most {MOST_LAUNCHES:.0%} of the step")
        yield within(f"memory of a {name}", measured.beyond_plan.get(name), -MOST_BEYOND_PLAN, MOST_BEYOND_PLAN,
                     f"the planned peak within {MOST_BEYOND_PLAN:.0%} of what the driver counts")


def judge(check: Check) -> List[Goal]:
    """One row each."""
    judged = list(goals(check))
    for goal in judged:
        said = "not measured" if goal.value is None else goal.text(goal.value)
        check.add(Row("goal", goal.name, goal.verdict(), f"{said}, wanted is {goal.wanted}{'; ' + goal.more if goal.more else ''}"))
    return judged


def write(check: Check, judged: List[Goal], machine: List[List[str]], path: pathlib.Path) -> None:
    """All that the table says; read_before() reads what was measured."""
    path.write_text(json.dumps({
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "machine": machine, "pack": check.digest(),
        "goals": [dict(goal._asdict(), verdict=goal.verdict()) for goal in judged],
        "rows": [row._asdict() for row in check.rows], "measured": dataclasses.asdict(check.measured)}, indent=1) + "\n")


def read_before(check: Check, machine: List[List[str]], path: pathlib.Path) -> None:
    """What an earlier call measured of the same pack on the same kind of machine; ValueError says what differs."""
    earlier = json.loads(path.read_text())
    for what, here in (("machine", machine), ("pack", check.digest())):
        if earlier[what] != here:
            raise ValueError(f"it was measured with another {what} ({earlier[what]}) than is here ({here})")
    check.measured = Measured(**earlier["measured"])
