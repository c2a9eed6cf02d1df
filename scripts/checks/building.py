# SPDX-License-Identifier: Apache-2.0
"""Configures and builds the tree, quietly: output goes to build/logs and is shown only when something fails."""

import pathlib
import subprocess
import sys
import time
from typing import Dict, List, Optional, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
TAIL_LINES = 60


class StepFailed(Exception):
    """A command ended with an error; its last lines were printed."""


def run_logged(
    name: str, command: Sequence[object], env: Optional[Dict[str, str]] = None, timeout_s: Optional[float] = None
) -> int:
    """Runs a command in the root with both streams in build/logs/NAME.log and returns its exit status."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / f"{name}.log", "w") as log:
        log.write("$ " + " ".join(map(str, command)) + "\n")
        log.flush()
        try:
            return subprocess.run(
                [str(word) for word in command], cwd=ROOT, env=env, stdout=log, stderr=log, timeout=timeout_s
            ).returncode
        except subprocess.TimeoutExpired:
            log.write(f"\nstopped: ran longer than {timeout_s:.0f} s\n")
            return 124


def show_log(name: str, lines: int = TAIL_LINES) -> None:
    """Prints the end of a log on stderr."""
    path = LOGS / f"{name}.log"
    text = path.read_text(errors="replace").splitlines()
    print(f"--- last lines of {path.relative_to(ROOT)}", file=sys.stderr)
    print("\n".join(text[-lines:]), file=sys.stderr)


def step(name: str, command: Sequence[object], env: Optional[Dict[str, str]] = None) -> float:
    """Runs a command that must succeed; returns its seconds, or prints the log's end and raises StepFailed."""
    start = time.monotonic()
    status = run_logged(name, command, env)
    if status != 0:
        show_log(name)
        raise StepFailed(f"{name} failed with exit status {status}; whole log: build/logs/{name}.log")
    return time.monotonic() - start


def configure() -> float:
    """CMake with the default preset; our Python is the one whose `onnx` package may give the proto text."""
    return step("configure", ["cmake", "--preset", "default", f"-DAUTOPAR_ONNX_PYTHON={sys.executable}"])


def build(targets: Sequence[str] = ()) -> float:
    """Builds the targets, or everything when none is named."""
    command: List[object] = ["cmake", "--build", BUILD]
    if targets:
        command += ["--target", *targets]
    return step("build", command)
