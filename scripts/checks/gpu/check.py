# SPDX-License-Identifier: Apache-2.0
"""The table that parts add their rows to, and how they start the folder's programs within the time that is left."""

import concurrent.futures
import dataclasses
import hashlib
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, TypeVar

from .machine import first_lines, has_library, lacking

#: What a program may take at most.
CASE_S = 60
#: Programs that run at once where none is timed: while one compiles for the GPU, others use it.
AT_ONCE = max(4, (os.cpu_count() or 0) // 2)
T = TypeVar("T")


class Row(NamedTuple):
    part: str
    name: str
    verdict: str  # ok, FAILED, not there; of goals met, MISSED, not there
    detail: str


@dataclasses.dataclass
class Measured:
    """What goals are judged by, by the names of timings; what is missing was not measured."""

    step_ms: Dict[str, float] = dataclasses.field(default_factory=dict)
    torch_ms: Dict[str, float] = dataclasses.field(default_factory=dict)
    #: Bytes per second, of a copy's.
    of_copy: Dict[str, float] = dataclasses.field(default_factory=dict)
    #: What a captured step takes beside its instructions, of the step.
    launches: Dict[str, float] = dataclasses.field(default_factory=dict)
    #: What a process takes beyond its planned peak, of the peak.
    beyond_plan: Dict[str, float] = dataclasses.field(default_factory=dict)


class OutOfTime(Exception):
    """Nothing more can be started."""


class Broken(Exception):
    """What a program said that failed."""


class Check:
    """The rows of the table, one after the other."""

    def __init__(self, folder: pathlib.Path, libraries: str, scratch: pathlib.Path, limit_s: float, log: pathlib.Path) -> None:
        self.log = log
        log.write_text("")
        self.folder, self.outputs = folder, scratch / "out"
        self.rows: List[Row] = []
        self.measured = Measured()
        self.end = float("inf")
        self.cases = json.loads((folder / "cases.json").read_text())
        self.environment = dict(os.environ, AUTOPAR_CUDA_LIBRARIES=libraries)
        self.unpack_libraries(scratch)
        self.unpack_gloo(scratch / "lib-gloo")
        self.end = time.monotonic() + limit_s

    def unpack_libraries(self, scratch: pathlib.Path) -> None:
        """GNU's libraries of the pack may be older than what NVIDIA's tools here want: only where the machine's are too old or missing."""
        for own in (["lib"], ["lib", "lib-gnu"]):
            (scratch / own[-1]).mkdir()
            for packed in (self.folder / own[-1]).glob("*.xz"):
                (scratch / own[-1] / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
            words = [str(scratch / name) for name in own] + [word for word in [os.environ.get("LD_LIBRARY_PATH")] if word]
            self.environment["LD_LIBRARY_PATH"] = ":".join(words)
            if not self.start([self.program("autopar-run"), "--version"], self.folder, 20).returncode:
                break

    def unpack_gloo(self, own: pathlib.Path) -> None:
        """By which ranks that are processes meet; of what it takes, only what the machine does not have."""
        own.mkdir()
        for packed in (self.folder / "lib-gloo").glob("*.xz"):
            if "gloo" in packed.stem or not has_library(packed.stem):
                (own / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
        self.of_processes = dict(self.environment, AUTOPAR_PLUGIN_PATH=str(own), LD_LIBRARY_PATH=f"{self.environment['LD_LIBRARY_PATH']}:{own}")

    def digest(self) -> str:
        """Of the artifacts: another pack's numbers are not this one's."""
        digest = hashlib.sha256()
        for artifact in sorted(self.folder.rglob("*.bin")):
            digest.update(str(artifact.relative_to(self.folder)).encode())
            digest.update(artifact.read_bytes())
        return digest.hexdigest()

    def as_it_ran(self, timing: dict) -> dict:
        """The same, or what stands for it where a library has not all that it takes: compiled in another way."""
        ways = [timing, *(way for way in self.cases["speed"] if way.get("instead_of") == timing["name"])]
        return next((way for way in ways if way["name"] in self.measured.step_ms), timing)

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        line = f"{row.verdict:9} {row.part:12} {row.name}: {row.detail}"
        print(line, flush=True)
        self.keep(line)

    def fail(self, part: str, name: str, said: str, told: str) -> None:
        """Or not there, where what was said is that the machine lacks something."""
        lacks = lacking(said)
        self.add(Row(part, name, "not there" if lacks else "FAILED", lacks or told))

    def run(self, part: str, name: str, measure: Callable[..., None], *arguments: object) -> None:
        """Whatever happens in a part, those behind it run."""
        try:
            measure(self, *arguments)
        except OutOfTime:
            self.add(Row(part, name, "not there", "not measured: no time was left"))
        except Broken as error:
            self.fail(part, name, str(error), first_lines(str(error)))
        except Exception as error:  # pylint: disable=broad-except
            self.add(Row(part, name, "FAILED", f"{type(error).__name__}: {first_lines(str(error))}"))

    def start_together(self, starts: Sequence[Callable[[], T]]) -> List[Callable[[], T]]:
        """What waits for each and returns, or raises, what it did."""
        pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
        started = [pool.submit(start).result for start in starts]
        pool.shutdown(wait=False)
        return started

    def require_time(self) -> float:
        """The seconds that are left."""
        left = self.end - time.monotonic()
        if left < 1:
            raise OutOfTime
        return left

    def start(self, words: Sequence[str], folder: pathlib.Path, limit_s: float,
              environment: Optional[Dict[str, str]] = None) -> "subprocess.CompletedProcess[str]":
        limit_s = min(limit_s, self.require_time())
        try:
            done = subprocess.run(words, cwd=folder, env=environment or self.environment, capture_output=True, text=True, errors="replace",
                                  timeout=limit_s)
        except subprocess.TimeoutExpired as late:
            wrote = [text.decode(errors="replace") if isinstance(text, bytes) else text or "" for text in (late.stdout, late.stderr)]
            done = subprocess.CompletedProcess(words, 124, wrote[0], f"not done after {limit_s:.0f} s\n{wrote[1]}")
        self.keep(f"$ {' '.join(map(str, words))}\n{done.stdout}{done.stderr}\nended with {done.returncode}")
        return done

    def keep(self, text: str) -> None:
        """Rows have the first words of what went wrong; the log has all, for machines that are had once."""
        with self.log.open("a", encoding="utf-8", errors="replace") as log:
            log.write(f"{text}\n")

    def out(self, case: dict) -> pathlib.Path:
        """Where a case's outputs lie."""
        return self.outputs / case["name"]

    def empty_out(self, case: dict) -> None:
        shutil.rmtree(self.out(case), ignore_errors=True)
        self.out(case).mkdir(parents=True)

    def run_case(self, case: dict, before: Sequence[str], limit_s: float, after: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
        """A model on one GPU."""
        self.empty_out(case)
        words = [*before, self.program("autopar-run"), case["artifact"], *case["arguments"], "--output-dir", str(self.out(case)), *after]
        return self.start(words, self.folder / case["folder"], limit_s)
