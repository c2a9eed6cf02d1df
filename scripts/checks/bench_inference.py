# SPDX-License-Identifier: Apache-2.0
"""Latency of whole models against onnxruntime, and the time to compile gpt2-124m.

Both sides: float32, batch 1, the same cores and number of threads, separate processes, alternating runs, median.
"""

import os
import pathlib
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List

import autopar
from autopar import models

from . import comparison, measuring, reference

RUNS = 15
RTOL = 1e-3
COMPILE_LIMIT_S = 20.0
#: name -> (model of the zoo, extents)
MODELS = {
    "gpt2-124m 1x128": ("gpt2-124m", {"batch": 1, "seq": 128}),
    "bert-base 1x128": ("bert-base", {"batch": 1, "seq": 128}),
    "resnet50 1x3x224x224": ("resnet50", {"batch": 1}),
}


def prepare_autopar(artifact: str, model: str, bind: Dict[str, int], threads: int) -> Callable[[], Any]:
    """The compiled artifact, loaded, as a function of no arguments."""
    inputs = reference.make_inputs(pathlib.Path(model), bind)
    session = autopar.Session(artifact, threads=threads)
    return lambda: session.run(inputs)


def prepare_onnxruntime(model: str, bind: Dict[str, int], threads: int) -> Callable[[], Any]:
    """The same model in onnxruntime."""
    inputs = reference.make_inputs(pathlib.Path(model), bind)
    session = reference.session(pathlib.Path(model), threads)
    return lambda: session.run(None, inputs)


def check_equal(artifact: str, model: pathlib.Path, bind: Dict[str, int]) -> None:
    """A fast wrong answer is no result."""
    inputs = reference.make_inputs(model, bind)
    with autopar.Session(artifact) as session:
        fault = comparison.differences(session.run(inputs), reference.run(model, inputs), RTOL)
    if fault:
        raise RuntimeError(f"{model.stem}: {fault}")


def cases() -> Iterator[Dict[str, Any]]:
    """One case per model, then the compile time."""
    cores: List[int] = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for name, (size, bind) in MODELS.items():
            model, artifact = pathlib.Path(folder, f"{size}.onnx"), os.path.join(folder, f"{size}.bin")
            models.save(size, model)
            start = time.monotonic()
            autopar.compile(model, artifact, bind=bind, ranks=1, threads=len(cores))
            compile_s = time.monotonic() - start
            check_equal(artifact, model, bind)
            sides = {
                "autopar": measuring.Side(prepare_autopar, (artifact, str(model), bind, len(cores)), cores),
                "onnxruntime": measuring.Side(prepare_onnxruntime, (str(model), bind, len(cores)), cores),
            }
            times = measuring.alternate(sides, RUNS)
            for side in sides.values():
                side.close()
            yield measuring.case(name, measuring.median(times["autopar"]), "ms", measuring.median(times["onnxruntime"]),
                                 threads=len(cores), raw=times)
            if size == "gpt2-124m":
                yield measuring.case("compile gpt2-124m", compile_s, "s", COMPILE_LIMIT_S)
            model.unlink()
