# SPDX-License-Identifier: Apache-2.0
"""`scripts/check-models`: whole models on 1, 2 and 4 ranks against onnxruntime, rtol 1e-3; with --train, training against one rank.
With --vary programs take any extents up to three more than those that are checked, which are filled up; of images, up to 64 more.
With --update the weights of a training step go into a new model file: it computes what the old one does with them.
Those of libraries of PyTorch networks, which another Python exports, against PyTorch in both (`--source timm --python FILE`).

One line per model; the last line is "equal E, refused R, wrong W" over models times rank counts. A source that cannot
be used here (no python3-torch, no network) is named and counts as nothing. Exit status 1 unless all are equal.
"""

import argparse
import collections
import functools
import pathlib
import sys
import tempfile
import time
from typing import Any, Callable, Counter, Dict, Iterator, List, Mapping, NamedTuple, Tuple

import numpy as np

import autopar

from . import comparison, model_sources, model_training, reference
from .isolated_pool import Crash, run_isolated
from .model import Model, Unavailable

Source = Callable[[pathlib.Path], Iterator[Model]]
RTOL = 1e-3
REFUSALS = (2, 65)
TIMEOUT_S = 600.0
BEYOND = 3
IMAGE_STEP = 32


class Task(NamedTuple):
    """A model on a number of ranks, with inputs and what they must give."""

    model: Model
    ranks: int
    inputs: Dict[str, np.ndarray]
    expected: Dict[str, np.ndarray]
    varies: bool = False

    def bind(self) -> Dict[str, Any]:
        """For autopar.compile."""
        return {name: range_of(extent) if self.varies else extent for name, extent in self.model.bind.items()}


def range_of(extent: int) -> Tuple[int, ...]:
    """One with more than an extent. What is as wide as an image goes in the steps that networks of images halve."""
    return (extent, extent + 2 * IMAGE_STEP, IMAGE_STEP) if extent % IMAGE_STEP == 0 else (1, extent + BEYOND)


class Verdict(NamedTuple):
    """equal, refused or wrong, and why."""

    kind: str
    detail: str
    seconds: float


def verdict_of(error: autopar.Error, seconds: float) -> Verdict:
    """Of a model that a command gave up."""
    return Verdict("refused" if error.code in REFUSALS else "wrong", " ".join(str(error).split()), seconds)


def run_task(task: Task) -> Verdict:
    """Compiles and runs one model on its ranks and compares."""
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="check-models-") as folder:
            compiled = autopar.compile(task.model.path, pathlib.Path(folder, "compiled.bin"), bind=task.bind(),
                                       ranks=task.ranks, fix_inputs=task.model.fixed)
            with autopar.Session(compiled) as session:
                actual = session.run(task.model.asked_for(task.inputs))
    except autopar.Error as error:
        return verdict_of(error, time.monotonic() - start)
    fault = comparison.differences(actual, task.expected, RTOL)
    return Verdict("wrong" if fault else "equal", fault or "", time.monotonic() - start)


def verdicts_of_runs(model: Model, ranks: List[int], varies: bool) -> Iterator[Verdict]:
    """The model's outputs on each number of ranks against its source or onnxruntime, each in a process of its own."""
    if model.record:
        inputs, expected = model.record.inputs, model.record.outputs
    else:
        inputs = reference.make_inputs(model.path, model.bind, fixed=model.fixed)
        expected = reference.run(model.path, inputs)
    for _, answer in run_isolated(run_task, [Task(model, count, inputs, expected, varies) for count in ranks], 1, TIMEOUT_S):
        yield Verdict("wrong", answer.reason, 0.0) if isinstance(answer, Crash) else answer


def verdicts_of_training(model: Model, ranks: List[int]) -> Iterator[Verdict]:
    """The model's losses on each number of ranks against those of its source or of one rank."""
    expected = list(model.record.losses) if model.record else []
    for count in ranks:
        start = time.monotonic()
        try:
            expected = expected or model_training.losses(model, 1)
            fault = model_training.difference(model_training.losses(model, count), expected)
            yield Verdict("wrong" if fault else "equal", fault, time.monotonic() - start)
        except autopar.Error as error:
            yield verdict_of(error, time.monotonic() - start)


def verdicts_of_updates(model: Model, ranks: List[int], adapters: str) -> Iterator[Verdict]:
    """The trained model's file against the old one with the trained weights."""
    for count in ranks:
        start = time.monotonic()
        try:
            fault = model_training.difference_when_written(model, count, adapters)
            yield Verdict("wrong" if fault else "equal", fault, time.monotonic() - start)
        except autopar.Error as error:
            yield verdict_of(error, time.monotonic() - start)


def find_models(sources: Mapping[str, Source], pattern: str, folder: pathlib.Path) -> Iterator[Model]:
    """The models of the sources whose name contains `pattern`; says which sources cannot be used."""
    for name, source in sources.items():
        try:
            for model in source(folder):
                if pattern in model.name:
                    yield model
        except Unavailable as reason:
            print(f"{name}: left out: {reason}", flush=True)


def main() -> int:
    """Runs the models one after the other, each in a process of its own."""
    parser = argparse.ArgumentParser(prog="scripts/check-models", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", action="append", choices=[*model_sources.SOURCES, *model_sources.LIBRARIES], help="only this source")
    parser.add_argument("--python", metavar="FILE", help="a Python with torch, onnxscript and the libraries, for "
                        f"{', '.join(model_sources.LIBRARIES)}")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only models whose name contains TEXT")
    parser.add_argument("--vary", action="store_true", help="programs of ranges of extents, given less than the most")
    parser.add_argument("--train", action="store_true", help="three training steps instead, whose losses must be those of one rank")
    parser.add_argument("--update", action="store_true", help="a training step instead, whose weights are written into the model")
    parser.add_argument("--adapters", default="", metavar="TEXT", help='with --update: adapters are trained and added, "lora(rank=2, alpha=4)"')
    parser.add_argument("--ranks", default="1,2,4", help="rank counts (default 1,2,4)")
    arguments = parser.parse_args()
    if arguments.train and arguments.update or arguments.adapters and not arguments.update:
        parser.error("--train and --update exclude each other, and --adapters goes with --update")
    updates = functools.partial(verdicts_of_updates, adapters=arguments.adapters)
    runs = functools.partial(verdicts_of_runs, varies=arguments.vary)
    check = verdicts_of_training if arguments.train else updates if arguments.update else runs
    sources: Dict[str, Source] = dict(model_sources.SOURCES)
    if arguments.python:
        sources.update((library, functools.partial(model_sources.exports, library=library, python=arguments.python, whole=arguments.train,
                                                   text=arguments.filter)) for library in model_sources.LIBRARIES)
    for library in set(model_sources.LIBRARIES) & set(arguments.source or []) - set(sources):
        parser.error(f"--source {library} takes --python FILE, a Python with torch, onnxscript and {library}")
    counts: Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="check-models-") as folder:
        for model in find_models({name: sources[name] for name in arguments.source or sources}, arguments.filter, pathlib.Path(folder)):
            ranks = [int(count) for count in arguments.ranks.split(",")]
            line, faults = [], []
            for count, verdict in zip(ranks, check(model, ranks)):
                counts[verdict.kind] += 1
                line.append(f"{count}: {verdict.kind} ({verdict.seconds:.1f} s)")
                if verdict.detail:
                    faults.append(f"    {count} ranks: {verdict.detail[:300]}")
            print(f"{model.name:28} {'   '.join(line)}", *faults, sep="\n", flush=True)
    print(f"equal {counts['equal']}, refused {counts['refused']}, wrong {counts['wrong']}")
    return 0 if counts["equal"] and not counts["refused"] and not counts["wrong"] else 1


if __name__ == "__main__":
    sys.exit(main())
