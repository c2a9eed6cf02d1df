# SPDX-License-Identifier: Apache-2.0
"""Small models on one GPU, held against what the CPU computed with the same weights and inputs."""

import functools
import subprocess
from typing import Callable, List

import numpy as np

from .check import CASE_S, Check, Row
from .machine import first_lines, lacking


def compare(check: Check, part: str, case: dict, name: str) -> None:
    """A case's outputs with those that the folder expects."""
    worst, where = 0.0, "no output"
    for path in sorted((check.folder / case["folder"] / "expected").glob("*.npy")):
        expected, actual = (np.load(p).astype(np.float64) for p in (path, check.out(case) / path.name))
        difference = np.abs(expected - actual).max() / max(np.abs(expected).max(), 1e-30)
        difference = float("inf") if np.isnan(difference) else difference
        if where == "no output" or difference > worst:
            worst, where = difference, path.stem
    is_good = where != "no output" and worst <= case["tolerance"]
    check.add(Row(part, name, "ok" if is_good else "FAILED",
                  f"{where} differs from the CPU by {worst:.1e} of its largest value, allowed is {case['tolerance']:.0e}"))


def start(check: Check, case: dict) -> "List[subprocess.CompletedProcess[str]]":
    """Once more without capture where it fails with it, unless the machine lacks something."""
    done = check.run_case(case, [], CASE_S)
    fails = done.returncode and not lacking(done.stderr)
    return [done, check.run_case(case, [], CASE_S, ["--no-capture"])] if fails else [done]


def numerics(check: Check, case: dict, ran: "Callable[[], List[subprocess.CompletedProcess[str]]]") -> None:
    done, *again = ran()
    if done.returncode:
        also = "" if not again else " (so it does without capture)" if again[0].returncode else " (without capture it runs)"
        return check.fail("numerics", case["name"], done.stderr, first_lines(done.stderr) + also)
    compare(check, "numerics", case, case["name"])


def run(check: Check) -> None:
    cases = check.cases["cases"]
    for case, ran in zip(cases, check.start_together([functools.partial(start, check, case) for case in cases])):
        check.run("numerics", case["name"], numerics, case, ran)
