# SPDX-License-Identifier: Apache-2.0
"""Small models on one GPU, held against what the CPU computed with the same weights and inputs."""

import numpy as np

from .check import CASE_S, Check, Row
from .machine import first_lines, lacking


def compare(check: Check, part: str, case: dict, name: str) -> None:
    """The outputs in check.out with those that the folder expects."""
    worst, where = 0.0, "no output"
    for path in sorted((check.folder / case["folder"] / "expected").glob("*.npy")):
        expected, actual = (np.load(p).astype(np.float64) for p in (path, check.out / path.name))
        difference = np.abs(expected - actual).max() / max(np.abs(expected).max(), 1e-30)
        difference = float("inf") if np.isnan(difference) else difference
        if where == "no output" or difference > worst:
            worst, where = difference, path.stem
    is_good = where != "no output" and worst <= case["tolerance"]
    check.add(Row(part, name, "ok" if is_good else "FAILED",
                  f"{where} differs from the CPU by {worst:.1e} of its largest value, allowed is {case['tolerance']:.0e}"))


def numerics(check: Check, case: dict) -> None:
    done = check.run_case(case, [], CASE_S)
    if done.returncode:
        again = None if lacking(done.stderr) else check.run_case(case, [], CASE_S, ["--no-capture"])
        also = "" if again is None else " (so it does without capture)" if again.returncode else " (without capture it runs)"
        return check.fail("numerics", case["name"], done.stderr, first_lines(done.stderr) + also)
    compare(check, "numerics", case, case["name"])


def run(check: Check) -> None:
    for case in check.cases["cases"]:
        check.run("numerics", case["name"], numerics, case)
