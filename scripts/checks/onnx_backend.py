# SPDX-License-Identifier: Apache-2.0
"""`scripts/onnx-backend`: the ONNX backend suite through compiler and runtime, on one or more ranks.

Every model is compiled, run on its data set and compared as onnx's own runner does (rtol 1e-3, atol 1e-7, integers
exactly; bfloat16 to one unit in the last place). The suite rounds every step of a model in 16-bit floats, which a kernel
does not: an element of such an output is equal, too, if it is as close to what onnx's reference evaluator gives for the
model in f64. A test is
  passed   all outputs are equal,
  random   it expects another library's draws; dtype, shape, rate and consistency were checked instead,
  repaired all outputs are equal after an attribute that the suite's model lacks was added (backend_cases.py),
  refused  the compiler or runtime said what it cannot do,
  wrong    anything else: other numbers, a crash, a hang, an internal error.
Where shapes depend on an input's value, that input is bound at compile time (marked `bound` in the table). With more
than one rank, the plan is a seeded random legal one; `sharded` counts the passed tests in which it splits an op.

The suite is that of Debian's libonnx-testdata or, with --installed, that of the Python package onnx in .venv. A list of
tests that must pass says which suite it is of. With another one, tests that are wrong or lost are `other`: they are
told, and do not make the exit status 1.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import zlib
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import onnx

import autopar

from . import backend_cases, comparison, exact_values, installed_cases, random_draws
from .backend_cases import Case
from .building import BUILD
from .isolated_pool import Crash, run_isolated

CASE_TIMEOUT_S = 120.0
#: The tests of ONNX's training vocabulary.
TRAINING = (r"^(simple/test_gradient_|node/test_(adagrad|adam|momentum|nesterov_momentum|sce_|nllloss_|training_dropout"
            r"|batchnorm_\w+_training_mode))")
OK = ("passed", "random", "repaired")
DEBIAN_SUITE = "libonnx-testdata 1.12"
INSTALLED_SUITE = f"onnx {onnx.__version__}"
LIST_HEADER = """\
# Tests of {suite} that pass on one rank and on two; scripts/test fails when one is lost.
# Written by scripts/onnx-backend --write-list."""
#: Exit codes that mean "this cannot be done", as opposed to a crash, an internal error or a broken installation.
REFUSALS = (2, 65)


class Verdict(NamedTuple):
    """The outcome of one test."""

    kind: str  # passed, random, repaired, refused, wrong
    sharded: bool
    bound: bool
    detail: str


class Task(NamedTuple):
    """One test and how to run it."""

    case: Case
    ranks: int
    seed: int
    target: str


def is_sharded(plan: pathlib.Path) -> bool:
    """Whether a plan file splits any factor of any op."""
    if not plan.exists():
        return False
    return any(axes for factors in json.loads(plan.read_text())["ops"].values() for axes in factors)


def run_case(task: Task) -> Verdict:
    """Compiles, runs and judges one test."""
    model = onnx.load(task.case.folder / "model.onnx")
    repaired = backend_cases.repair(task.case, model)
    strange = backend_cases.non_tensor(model)
    values = backend_cases.Values({}, {})
    if strange is None:
        values = backend_cases.read_values(model, task.case.folder / "test_data_set_0")
    # Shapes are static: an input whose value decides a shape is bound like a symbolic dimension. First none is bound,
    # then the small integer ones, then all small ones, then, where the refusal asks for a value, all.
    small = [name for name, array in values.inputs.items() if array.ndim <= 1]
    integers = [name for name in small if np.issubdtype(values.inputs[name].dtype, np.integer)]
    everything = list(values.inputs)
    attempts: List[Sequence[str]] = [()]
    attempts += [names for names in (integers, small, everything) if names and names not in attempts]
    verdict = Verdict("refused", False, False, "")
    for bound in attempts:
        if bound == everything != small and "must be known at compile time" not in verdict.detail:
            break
        attempt = attempt_case(task, model, values, bound)
        if attempt.kind == "passed" and repaired:
            return attempt._replace(kind="repaired")
        if attempt.kind != "refused":
            return attempt
        verdict = verdict if verdict.detail else attempt
    return verdict


def attempt_case(task: Task, model: onnx.ModelProto, values: backend_cases.Values, bound: Sequence[str]) -> Verdict:
    """One attempt with the named inputs bound to their values."""
    with tempfile.TemporaryDirectory(prefix="onnx-backend-") as folder:
        plan = pathlib.Path(folder, "plan.json")
        options: List[str] = ["--target", task.target]
        if task.ranks > 1:
            seed = zlib.crc32(task.case.name.encode()) ^ task.seed
            options += ["--engine", "random", "--seed", str(seed), "--emit-plan", str(plan)]
        source = backend_cases.with_constants(model, values.inputs, bound) if bound else model
        inputs = backend_cases.as_held({name: array for name, array in values.inputs.items() if name not in bound})
        sharded = False
        try:
            compiled = autopar.compile(source, os.path.join(folder, "compiled.bin"), ranks=task.ranks,
                                       bind=backend_cases.bindings(model, inputs), options=options)
            sharded = is_sharded(plan)
            with autopar.Session(compiled) as session:
                actual = session.run(inputs)
            if random_draws.is_random(task.case.name):
                with autopar.Session(compiled) as session:
                    again = session.run(inputs)
                fault = random_draws.judge(task.case.name, values.inputs, actual, again, values.outputs)
                return Verdict("wrong" if fault else "random", sharded, bool(bound), fault or "")
        except autopar.Error as error:
            message = " ".join(str(error).split())
            refused = error.code in REFUSALS
            return Verdict("refused" if refused else "wrong", sharded, bool(bound), message or f"exit {error.code}")
    fault = find_fault(model, values, actual)
    return Verdict("wrong" if fault else "passed", sharded, bool(bound), fault or "")


def find_fault(model: onnx.ModelProto, values: backend_cases.Values, actual: Dict[str, np.ndarray]) -> Optional[str]:
    """What is wrong with the outputs, None if nothing is."""
    for name, expected in backend_cases.as_held(values.outputs).items():
        if name not in actual:
            return f"no output '{name}'"
        fault = comparison.difference(actual[name], expected)
        if fault and comparison.is_half(expected.dtype):
            exact = exact_values.exact_outputs(model, values.inputs).get(name)
            fault = comparison.difference(actual[name], expected, exact=exact)
        if fault:
            return f"{name}: {fault}"
    return None


def write_table(path: pathlib.Path, verdicts: Dict[str, Verdict]) -> None:
    """One line per test: name, verdict, sharded, bound, detail."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["test\tverdict\tsharded\tbound\tdetail"]
    for name, verdict in sorted(verdicts.items()):
        lines.append(f"{name}\t{verdict.kind}\t{int(verdict.sharded)}\t{int(verdict.bound)}\t{verdict.detail}")
    path.write_text("\n".join(lines) + "\n")


def print_reasons(verdicts: Dict[str, Verdict]) -> None:
    """The commonest reasons of refusals, with quoted names left out so that alike ones add up."""
    reasons = collections.Counter(re.sub(r"\d+", "N", re.sub(r"\S*/model\.onnx[:\d]*|'[^']*'", "_", verdict.detail))[:110]
                                  for verdict in verdicts.values() if verdict.kind == "refused")
    for reason, count in reasons.most_common(15):
        print(f"refused {count:4}: {reason}")


def parse_arguments() -> argparse.Namespace:
    """The command line of scripts/onnx-backend."""
    parser = argparse.ArgumentParser(prog="scripts/onnx-backend", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1, help="ranks, all in this process (default 1)")
    parser.add_argument("--filter", default="", metavar="RE", help="only tests whose suite/name matches")
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu",
                        help="cuda: on the libraries in AUTOPAR_CUDA_LIBRARIES (default: the emulated ones of the build)")
    parser.add_argument("--training", action="store_true", help="only the tests of ONNX's training vocabulary")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests at a time (default: the cores)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random plans")
    parser.add_argument("--installed", action="store_true", help="the suite of the Python package onnx")
    parser.add_argument("--data", type=pathlib.Path, default=backend_cases.DEBIAN_DATA,
                        help="folder of the suite (default: Debian's)")
    parser.add_argument("--without", type=pathlib.Path, metavar="FILE", help="leave out the tests named in FILE")
    parser.add_argument("--listed", type=pathlib.Path, metavar="FILE", help="fail unless every test named in FILE passes")
    parser.add_argument("--write-list", type=pathlib.Path, metavar="FILE", help="write the names of passed tests")
    arguments = parser.parse_args()
    if arguments.training:
        arguments.filter = TRAINING
    return arguments


def read_list(path: pathlib.Path, pattern: str) -> Tuple[str, List[str]]:
    """The suite that a list says it is of, and the tests in it that match."""
    lines = path.read_text().splitlines()
    of = re.match(r"# Tests of (\S+ \S+) ", lines[0] if lines else "")
    return of[1] if of else "", [line for line in lines if line and not line.startswith("#") and re.search(pattern, line)]


def run_all(tasks: Sequence[Task], jobs: int, word: str) -> Dict[str, Verdict]:
    """The verdicts by name; those that are wrong are told at once, after `word`."""
    verdicts = {}
    for task, answer in run_isolated(run_case, tasks, jobs, CASE_TIMEOUT_S):
        verdict = Verdict("wrong", False, False, answer.reason) if isinstance(answer, Crash) else answer
        verdicts[task.case.name] = verdict
        if verdict.kind == "wrong":
            print(f"{word or 'WRONG'} {task.case.name}: {verdict.detail}", flush=True)
    return verdicts


def main() -> int:
    """Runs the suite; exit status 1 when a test is wrong or a listed one no longer passes, 66 when there is no data."""
    arguments = parse_arguments()
    suite, suffix = DEBIAN_SUITE, ""
    if arguments.installed:
        suite, suffix, arguments.data = INSTALLED_SUITE, "-installed", installed_cases.write_cases()
    left_out = set(read_list(arguments.without, "")[1]) if arguments.without else set()
    cases = [case for case in backend_cases.find_cases(arguments.data, arguments.filter) if case.name not in left_out]
    listed: List[str] = []
    other = ""  # put before what is told, but not counted
    if arguments.listed:
        listed_suite, listed = read_list(arguments.listed, arguments.filter)
        listed = [name for name in listed if name not in left_out]
        if listed_suite != suite:
            other = "OTHER"
            print(f"{arguments.listed.name} is of {listed_suite or 'no suite'}, this is {suite}: what is wrong or lost is not counted")
    if not cases:
        print(f"error: no test matches in {arguments.data}; is libonnx-testdata installed?", file=sys.stderr)
        return 66
    try:
        autopar.find_tool("autopar-compile")
    except autopar.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    if arguments.target == "cuda":
        os.environ.setdefault("AUTOPAR_CUDA_LIBRARIES", str(BUILD / "unittests" / "EmulatedCuda"))
    start = time.monotonic()
    verdicts = run_all([Task(case, arguments.ranks, arguments.seed, arguments.target) for case in cases], arguments.jobs, other)
    suffix += "" if arguments.target == "cpu" else f"-{arguments.target}"
    table = BUILD / f"onnx-backend-{arguments.ranks}{suffix}.tsv"
    write_table(table, verdicts)
    passed = sorted(name for name, verdict in verdicts.items() if verdict.kind in OK)
    if arguments.write_list:
        arguments.write_list.write_text("\n".join([LIST_HEADER.format(suite=suite), *passed]) + "\n")
    lost = [name for name in listed if name not in verdicts or verdicts[name].kind == "refused"]
    for name in lost:
        print(f"{other or 'LOST'} {name}: {verdicts[name].detail if name in verdicts else 'no such test in the data'}")
    print_reasons(verdicts)
    count = collections.Counter(verdict.kind for verdict in verdicts.values())
    sharded = sum(verdict.sharded for verdict in verdicts.values() if verdict.kind == "passed")
    bound = sum(verdict.bound for verdict in verdicts.values() if verdict.kind == "passed")
    print(f"{len(cases)} tests in {time.monotonic() - start:.0f} s; {bound} passed with inputs bound at compile time; "
          f"repaired {count['repaired']}, counted nowhere else; table: {table.relative_to(BUILD.parent)}")
    print(f"passed {count['passed']}, random {count['random']}, refused {count['refused']}, wrong {count['wrong']}, "
          f"sharded {sharded} of {count['passed']}")
    return 1 if not other and (count["wrong"] or lost) else 0


if __name__ == "__main__":
    sys.exit(main())
