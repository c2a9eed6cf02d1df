# SPDX-License-Identifier: Apache-2.0
"""The test programs of what talks to CUDA, as they run on this machine."""

import functools
import re
import subprocess
from typing import Callable

from .check import CASE_S, Check, OutOfTime, Row
from .machine import first_lines, lacking

#: What a program of tests may take at most.
SUITE_S = 150
#: Programs, what they show, their filter; run() adds those of NCCL.
SUITES = [
    ("CudaDeviceTest", "the device", ""),
    ("CudaAttentionTest", "attention by cuDNN", ""),
    ("CudaConvolutionTest", "convolutions and their gradients by cuDNN", ""),
    ("CudaConformanceTest", "staged communication, 1 to 4 ranks", "--gtest_filter=*staged*"),
]


def why(done: "subprocess.CompletedProcess[str]") -> str:
    """The first failure of a test, or where a program ended that told of none."""
    found = re.search(r"^[^\n]*: Failure$.*", done.stdout, flags=re.MULTILINE | re.DOTALL)
    lines = done.stdout.strip().splitlines()
    return found[0] if found else "\n".join([*done.stderr.splitlines()[:1], *lines[-2:]])


def start(check: Check, program: str, filtered: str) -> "subprocess.CompletedProcess[str]":
    return check.start([check.program(program), *([filtered] if filtered else [])], check.folder, SUITE_S)


def suite(check: Check, name: str, ran: "Callable[[], subprocess.CompletedProcess[str]]") -> None:
    done = ran()
    lines = done.stdout.strip().splitlines()
    ran = re.search(r"\[==========\] (\d+) tests? ", done.stdout)
    if not done.returncode and ran and int(ran[1]):
        return check.add(Row("conformance", name, "ok", first_lines(lines[-1])))
    # Each test that failed says why in front of its name; one for another reason makes all of it a failure.
    failures = re.split(r"^\[  FAILED  \] .* \(\d+ ms\)$", done.stdout, flags=re.MULTILINE)[:-1]
    said = failures[0] if failures and all(map(lacking, failures)) else ""
    check.fail("conformance", name, said, first_lines(why(done)))


def count_gpus(check: Check) -> int:
    """That NCCL may have a rank on, as its tests have them; 0 where no time is left to ask."""
    try:
        listed = check.start([check.program("CudaConformanceTest"), "--gtest_list_tests"], check.folder, CASE_S).stdout
    except OutOfTime:
        return 0
    return max(map(int, re.findall(r"/nccl(\d+)\b", listed)), default=0)


def run(check: Check) -> int:
    """Returns how many GPUs NCCL may have a rank on; it refuses two on one."""
    gpus = count_gpus(check)
    nccl = f"NCCL, world sizes up to {gpus}" if gpus > 1 else "NCCL, world size 1 only: there is one GPU"
    suites = [*SUITES, ("CudaConformanceTest", nccl, "--gtest_filter=*nccl*")]
    ran = check.start_together([functools.partial(start, check, program, filtered) for program, _, filtered in suites])
    for (_, name, _), its in zip(suites, ran):
        check.run("conformance", name, suite, name, its)
    return gpus
