# SPDX-License-Identifier: Apache-2.0
"""The planned peak of memory beside what the driver counts, of which some hundred MiB are its own and its libraries'."""

import json
import subprocess
import time
from typing import Dict, NamedTuple, Optional, Sequence

from .check import CASE_S, Broken, Check, Row
from .machine import DriverMemory, ask_driver, program

#: A small case with the libraries of the training step.
SMALL = "gpt2-training-bf16"


class Meter:
    """In MiB, by nvidia-smi or, of the first GPU alone, by the driver."""

    def __init__(self) -> None:
        self.tool: Optional[str] = program("nvidia-smi")
        self.driver = None if self.tool else DriverMemory()

    def of_process(self, pid: int) -> int:
        """0 where nothing tells of it, as in a container with numbers of its own for processes."""
        found = ask_driver(self.tool, "--query-compute-apps=pid,used_memory") if self.tool else []
        return max((int(words[1]) for words in found if words[0] == str(pid) and words[1].isdigit()), default=0)

    def of_gpus(self) -> Dict[str, int]:
        """What all programs use of each GPU."""
        if self.driver:
            used = self.driver.used_mib()
            return {} if used is None else {"0": used}
        found = ask_driver(self.tool, "--query-gpu=index,memory.used") if self.tool else []
        return {words[0]: int(words[1]) for words in found if len(words) == 2 and words[1].isdigit()}


def grown(before: Dict[str, int], now: Dict[str, int]) -> int:
    """By how much the use of one GPU grew, in MiB; 0 where none was told of both times."""
    return max((used - before[gpu] for gpu, used in now.items() if gpu in before), default=0)


class Used(NamedTuple):
    """In MiB, and by whose count; 0 where none tells."""

    planned: float
    most: int
    how: str


def measure(check: Check, meter: Meter, words: Sequence[str], folder: str) -> Used:
    """What a program takes at most until it ends. What the driver says of the process goes before what it says of the GPU."""
    check.require_time()
    end = min(check.end, time.monotonic() + CASE_S)
    before, process_most, gpu_most = meter.of_gpus(), 0, 0
    command = [check.program("autopar-run"), *words, "--quiet", "--benchmark"]
    with subprocess.Popen(command, cwd=check.folder / folder, env=check.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and time.monotonic() < end:
            process_most = max(process_most, meter.of_process(process.pid))
            gpu_most = max(gpu_most, grown(before, meter.of_gpus()))
            time.sleep(0.2)
        process.kill()
        out, err = process.communicate()
    check.keep(f"$ {' '.join(command)}\n{out}{err}")
    if process.returncode:
        raise Broken(err or "not done in time")
    planned = json.loads(out.strip().splitlines()[-1])["planned_bytes"] / 2**20
    return Used(planned, process_most, "the driver counts") if process_most else Used(planned, gpu_most, "the GPU has more in use than before:")


def memory(check: Check, timing: dict) -> None:
    meter = Meter()
    if not meter.of_gpus():
        return check.add(Row("memory", timing["name"], "not there", "not measured: neither nvidia-smi nor the driver tells of a GPU"))
    used = measure(check, meter, [timing["artifact"], *timing["arguments"], "--steps", "40"], "")
    if not used.most:
        return check.add(Row("memory", timing["name"], "not there", "not measured: nothing tells what this process takes"))
    check.measured.beyond_plan[timing["name"]] = used.most / used.planned - 1
    check.add(Row("memory", timing["name"], "ok", f"planned {used.planned:,.0f} MiB, {used.how} {used.most:,} MiB, {used.most / used.planned - 1:+.1%} of the plan{beyond_plan(check, meter, used)}"))


def beyond_plan(check: Check, meter: Meter, used: Used) -> str:
    """What is left when the driver's own and its libraries' memory is taken off, as far as a small model of the same kind has it."""
    case = next((case for case in check.cases["cases"] if case["name"] == SMALL), None)
    if not case:
        return ""
    arguments = case["arguments"]
    model = arguments[:arguments.index("--steps")]
    small = measure(check, meter, [case["artifact"], *model, "--steps", "2000"], case["folder"])
    if small.how != used.how or not small.most:
        return ""
    own = small.most - small.planned
    return f", {own:,.0f} MiB of it what a small model takes beyond its plan; without it {(used.most - own) / used.planned - 1:+.1%} of the plan"


def run(check: Check) -> None:
    for timing in check.cases["speed"][:1]:
        check.run("memory", timing["name"], memory, check.as_it_ran(timing))
