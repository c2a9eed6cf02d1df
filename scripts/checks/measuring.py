# SPDX-License-Identifier: Apache-2.0
"""How the benchmarks measure: alternating runs in separate pinned processes, medians, memory and time of commands."""

import json
import multiprocessing
import os
import statistics
import subprocess
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

#: Between two runs, so that threads of the other side that still spin for work have gone to sleep.
PAUSE_S = 0.15
_CONTEXT = multiprocessing.get_context("spawn")


def case(name: str, value: float, unit: str, reference: Optional[float], **more: Any) -> Dict[str, Any]:
    """One entry of a benchmark's JSON line; ratio is value / reference."""
    ratio = round(value / reference, 4) if reference else None
    return {"name": name, "value": round(value, 4), "unit": unit,
            "reference": None if reference is None else round(reference, 4), "ratio": ratio, **more}


class Side:
    """A function prepared once in a process of its own and then timed call by call.

    `prepare(*arguments)` runs in that process and returns the function to time; both sides of a comparison are pinned to
    the same cores.
    """

    def __init__(self, prepare: Callable[..., Callable[[], Any]], arguments: Sequence[Any], cores: Sequence[int]) -> None:
        self._pipe, child = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(child, prepare, arguments, list(cores)), daemon=True)
        self._process.start()
        child.close()
        self._receive()

    def _receive(self) -> float:
        try:
            answer = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(f"a measured process died with status {self._process.exitcode}") from None
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def time_ms(self) -> float:
        """Milliseconds of one call."""
        self._pipe.send(True)
        return self._receive()

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join(5)
        self._process.kill()


def _serve(pipe: Any, prepare: Callable[..., Callable[[], Any]], arguments: Sequence[Any], cores: List[int]) -> None:
    """The child: pins itself, prepares, warms up, then answers each request with a time."""
    os.sched_setaffinity(0, cores)
    try:
        function = prepare(*arguments)
        for _ in range(3):
            function()
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send(0.0)
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        start = time.perf_counter()
        function()
        pipe.send((time.perf_counter() - start) * 1e3)


def alternate(sides: Dict[str, Side], runs: int) -> Dict[str, List[float]]:
    """Times every side `runs` times, in turn; milliseconds per side."""
    times: Dict[str, List[float]] = {name: [] for name in sides}
    for _ in range(runs):
        for name, side in sides.items():
            time.sleep(PAUSE_S)
            times[name].append(round(side.time_ms(), 3))
    return times


def median(times: Sequence[float]) -> float:
    """The median."""
    return statistics.median(times)


class Cost(NamedTuple):
    """What a command took."""

    seconds: float
    peak_bytes: int
    output: str


def run_measured(command: Sequence[Any]) -> Cost:
    """Runs a command; wall time and peak resident memory of the process. RuntimeError with its last words on failure."""
    start = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with exit status {process.returncode}: {output.strip()[-500:]}")
    return Cost(time.monotonic() - start, usage.ru_maxrss * 1024, output)


def last_json(output: str) -> Dict[str, Any]:
    """The last line of a command's output that is a JSON object."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise RuntimeError(f"no JSON line in: {output.strip()[-300:]}")
