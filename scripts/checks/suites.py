# SPDX-License-Identifier: Apache-2.0
"""`scripts/test`: builds without a warning, runs gtest, lit, pytest and a part of the ONNX backend suite, and adds the results up.

The last line is "N passed, F failed". A suite that ran nothing counts as one failure, so that a lost suite is noticed.
Exit status: 0 when nothing failed, 1 otherwise.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from typing import Callable, Dict, List, NamedTuple, Sequence

from . import building
from .building import BUILD, LOGS, ROOT

RESULTS = BUILD / "results"
BACKEND_PASSING = ROOT / "scripts" / "checks" / "onnx-backend-passing.txt"
INSTALLED_PASSING = BACKEND_PASSING.with_name("onnx-backend-installed-passing.txt")
SHOWN_FAILURES = 40


class Outcome(NamedTuple):
    """What one suite did: how many cases passed and the names of those that failed."""

    passed: int
    failures: List[str]
    skipped: int = 0


def read_junit(path: pathlib.Path) -> Outcome:
    """Counts the test cases of a JUnit file; a missing or broken file is a failure of its own."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        return Outcome(0, [f"{path.name}: {error}"])
    passed, skipped, failures = 0, 0, []
    for case in root.iter("testcase"):
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failures.append(name)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return Outcome(passed, failures, skipped)


def with_status(outcome: Outcome, name: str, status: int) -> Outcome:
    """Adds a failure when the runner itself ended badly although no case did (crash, timeout, bad configuration)."""
    if status != 0 and not outcome.failures:
        building.show_log(name)
        return outcome._replace(failures=[f"{name} ended with exit status {status}"])
    return outcome


def run_gtest() -> Outcome:
    """Every program known to ctest; gtest programs count by their cases, others by their exit status."""
    folder = RESULTS / "gtest"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    junit = RESULTS / "ctest.xml"
    junit.unlink(missing_ok=True)
    env = dict(os.environ, GTEST_OUTPUT=f"xml:{folder}/")
    command = ["ctest", "--test-dir", BUILD, "-E", "^lit$", "-j", os.cpu_count() or 1, "--timeout", 900, "--output-on-failure",
               "--output-junit", junit]
    status = building.run_logged("gtest", command, env)
    programs = read_junit(junit)
    passed, failures, skipped = 0, [], programs.skipped
    detailed: Dict[str, Outcome] = {file.stem: read_junit(file) for file in folder.glob("*.xml")}
    for outcome in detailed.values():
        passed, skipped = passed + outcome.passed, skipped + outcome.skipped
        failures += outcome.failures
    # A program that crashed wrote no cases; one that is no gtest program never does.
    failures += [name for name in programs.failures
                 if not any(detailed[stem].failures for stem in detailed if name.endswith(stem))]
    passed += max(0, programs.passed - len([o for o in detailed.values() if not o.failures]))
    return with_status(Outcome(passed, failures, skipped), "gtest", status)


def run_lit() -> Outcome:
    """The lit suite of test/, run by LLVM's own lit."""
    prefix = subprocess.run(["llvm-config-22", "--bindir"], capture_output=True, text=True).stdout.strip()
    junit = RESULTS / "lit.xml"
    junit.unlink(missing_ok=True)
    status = building.run_logged("lit", [pathlib.Path(prefix) / "lit", "-v", "--xunit-xml-output", junit, BUILD / "test"])
    return with_status(read_junit(junit), "lit", status)


def run_pytest() -> Outcome:
    """The Python tests, a file at a time on each core: those of one file share what they compiled."""
    junit = RESULTS / "pytest.xml"
    junit.unlink(missing_ok=True)
    status = building.run_logged("pytest", [sys.executable, "-m", "pytest", "-q", "-n", os.cpu_count() or 1, "--dist", "loadfile",
                                            "--durations=10", f"--junitxml={junit}", ROOT / "python" / "tests"])
    return with_status(read_junit(junit), "pytest", status)


def run_backend(name: str = "onnx-backend", options: Sequence[str] = (), passing: pathlib.Path = BACKEND_PASSING) -> Outcome:
    """ONNX backend models, of Debian and on one rank if not told otherwise: each that is listed as passing must pass, and none at all may be wrong."""
    status = building.run_logged(name, [ROOT / "scripts" / "onnx-backend", "--listed", passing, *options])
    text = (LOGS / f"{name}.log").read_text(errors="replace")
    totals = re.findall(r"^passed (\d+), random (\d+), refused \d+, wrong \d+", text, re.M)
    if not totals:
        building.show_log(name)
        return Outcome(0, [f"{name} ended with exit status {status} and no totals"])
    passed = sum(map(int, totals[-1]))
    failures = re.findall(r"^(?:WRONG|LOST) (\S+.*)$", text, re.M)
    others = re.findall(r"^OTHER ", text, re.M)  # of another version than the list: nobody's fault
    return with_status(Outcome(passed, failures, len(others)), name, status)


def run_backend_installed() -> Outcome:
    """Those that the Python package onnx has beyond Debian's, on two ranks under random plans."""
    return run_backend("onnx-backend-installed", ["--installed", "--ranks", "2", "--without", str(BACKEND_PASSING)], INSTALLED_PASSING)


def run_backend_cuda() -> Outcome:
    """A sample of them on an emulated GPU."""
    return run_backend("onnx-backend-cuda", ["--target", "cuda", "--filter", "s$"])


def run_warnings() -> Outcome:
    """The compilers had nothing to remark about our sources."""
    log = LOGS / "build.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    warnings = sorted(set(re.findall(rf"^{re.escape(str(ROOT))}/(?!build/).*: warning: .*$", text, re.M)))
    return Outcome(1 if text and not warnings else 0, warnings)


SUITES: Dict[str, Callable[[], Outcome]] = {
    "warnings": run_warnings,
    "gtest": run_gtest,
    "lit": run_lit,
    "pytest": run_pytest,
    "onnx-backend": run_backend,
    "onnx-backend-installed": run_backend_installed,
    "onnx-backend-cuda": run_backend_cuda,
}
QUICK = ("warnings", "gtest", "lit", "pytest")


def parse_arguments() -> argparse.Namespace:
    """The command line of scripts/test."""
    parser = argparse.ArgumentParser(prog="scripts/test", description="Builds and runs every test suite.",
                                     epilog="logs: build/logs; results as JUnit XML: build/results")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--suite", action="append", choices=list(SUITES), help="only this suite (may be repeated)")
    parser.add_argument("--no-build", action="store_true", help="test what stands in build/")
    return parser.parse_args()


def main() -> int:
    """Builds, runs, adds up."""
    arguments = parse_arguments()
    start = time.monotonic()
    if not arguments.no_build:
        try:
            print("configuring and building (log: build/logs/build.log) ...", flush=True)
            seconds = building.configure() + building.build()
            print(f"built in {seconds:.0f} s", flush=True)
        except building.StepFailed as failure:
            print(f"error: {failure}", file=sys.stderr)
            print("0 passed, 1 failed")
            return 1
    RESULTS.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as python/tests/conftest.py
    passed, failed = 0, 0
    for name in arguments.suite or (QUICK if arguments.quick else SUITES):
        if name == "warnings" and arguments.no_build:
            continue
        begun = time.monotonic()
        outcome = SUITES[name]()
        if not outcome.passed and not outcome.failures:
            outcome = outcome._replace(failures=[f"{name} ran no test at all"])
        skipped = f", {outcome.skipped} skipped" if outcome.skipped else ""
        print(f"{name:13} {outcome.passed} passed, {len(outcome.failures)} failed{skipped} "
              f"in {time.monotonic() - begun:.0f} s", flush=True)
        for failure in outcome.failures[:SHOWN_FAILURES]:
            print(f"  failed: {failure}")
        if len(outcome.failures) > SHOWN_FAILURES:
            print(f"  and {len(outcome.failures) - SHOWN_FAILURES} more, see build/logs/{name}.log")
        passed, failed = passed + outcome.passed, failed + len(outcome.failures)
    print(f"all in {time.monotonic() - start:.0f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
