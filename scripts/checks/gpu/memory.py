# SPDX-License-Identifier: Apache-2.0
"""The planned peak of memory beside what the driver counts for the process, of which some hundred MiB are its own."""

import json
import shutil
import subprocess
import time
from typing import Tuple

from .check import CASE_S, Check, Row
from .machine import first_lines


def used_mib(tool: str, pid: int) -> int:
    """What nvidia-smi counts for a process now; 0 where it does not tell of it."""
    said = subprocess.run([tool, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20)
    found = [[word.strip() for word in line.split(",")] for line in said.stdout.splitlines()]
    return max((int(words[1]) for words in found if words[0] == str(pid) and words[1].isdigit()), default=0)


def watch(process: "subprocess.Popen[str]", tool: str, end: float) -> Tuple[int, str, str]:
    """The most that was used until the process ended, in MiB, and what it wrote."""
    most = 0
    while process.poll() is None and time.monotonic() < end:
        most = max(most, used_mib(tool, process.pid))
        time.sleep(0.2)
    process.kill()
    return (most, *process.communicate())


def memory(check: Check, timing: dict) -> None:
    tool = shutil.which("nvidia-smi")
    if not tool:
        return check.add(Row("memory", timing["name"], "not there", "not measured: nvidia-smi was not found"))
    command = [check.program("autopar-run"), timing["artifact"], *timing["arguments"], "--quiet", "--benchmark", "--steps", "200"]
    check.require_time()
    with subprocess.Popen(command, cwd=check.folder, env=check.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        most, out, err = watch(process, tool, min(check.end, time.monotonic() + CASE_S))
    if process.returncode:
        return check.fail("memory", timing["name"], err, first_lines(err) or "not done in time")
    if not most:
        return check.add(Row("memory", timing["name"], "not there", "not measured: nvidia-smi does not tell of this process"))
    planned = json.loads(out.strip().splitlines()[-1])["planned_bytes"] / 2**20
    check.add(Row("memory", timing["name"], "ok", f"planned {planned:,.0f} MiB, the driver counts {most:,} MiB"))


def run(check: Check) -> None:
    for timing in check.cases["speed"][:1]:
        check.run("memory", timing["name"], memory, timing)
