# SPDX-License-Identifier: Apache-2.0
"""The small models once more under compute-sanitizer, which finds what reads or writes where it must not."""

import time

from .check import Check, OutOfTime, Row
from .machine import first_lines, program

#: What all models may take together, so that PyTorch has its time.
SANITIZER_S = 75


def memcheck(check: Check, tool: str, case: dict, end: float) -> None:
    limit_s = end - time.monotonic()
    if limit_s < 1:
        raise OutOfTime
    done = check.run_case(case, [tool, "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "99"], limit_s)
    if done.returncode == 124:
        raise OutOfTime
    said = done.stdout.strip().splitlines()[-1:] or [first_lines(done.stderr)]
    if done.returncode:
        return check.fail("sanitizer", case["name"], done.stdout + done.stderr, first_lines(said[0]))
    check.add(Row("sanitizer", case["name"], "ok", first_lines(said[0])))


def run(check: Check) -> None:
    tool = program("compute-sanitizer")
    if not tool:
        return check.add(Row("sanitizer", "memcheck", "not there", "compute-sanitizer was not found"))
    end = time.monotonic() + SANITIZER_S
    for case in check.cases["cases"]:
        check.run("sanitizer", case["name"], memcheck, tool, case, end)
