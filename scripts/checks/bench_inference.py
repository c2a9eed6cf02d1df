# SPDX-License-Identifier: Apache-2.0
"""Latency of whole models against onnxruntime, and the time to compile gpt2-124m.

Both sides: float32, batch 1, the same cores and number of threads, separate processes, alternating runs, median.
"""

import os
import pathlib
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

import autopar
from autopar import models

from . import comparison, measuring, reference
from .model import Model

RUNS = 15
RTOL = 1e-3
COMPILE_LIMIT_S = 20.0
#: name -> (model of the zoo, extents)
MODELS = {
    "gpt2-124m 1x128": ("gpt2-124m", {"batch": 1, "seq": 128}),
    "bert-base 1x128": ("bert-base", {"batch": 1, "seq": 128}),
    "resnet50 1x3x224x224": ("resnet50", {"batch": 1}),
}


def inputs_of(model: Model) -> Dict[str, np.ndarray]:
    """Random inputs, with those that are fixed."""
    return reference.make_inputs(model.path, model.bind, fixed=model.fixed)


def prepare_autopar(artifact: str, model: Model, threads: int) -> Callable[[], Any]:
    """The compiled artifact, loaded, as a function of no arguments."""
    inputs = model.asked_for(inputs_of(model))
    session = autopar.Session(artifact, threads=threads)
    return lambda: session.run(inputs)


def prepare_onnxruntime(model: Model, threads: int) -> Callable[[], Any]:
    """The same model in onnxruntime."""
    inputs = inputs_of(model)
    session = reference.session(model.path, threads)
    return lambda: session.run(None, inputs)


def check_equal(artifact: str, model: Model) -> None:
    """A fast wrong answer is no result."""
    inputs = inputs_of(model)
    with autopar.Session(artifact) as session:
        fault = comparison.differences(session.run(model.asked_for(inputs)), reference.run(model.path, inputs), RTOL)
    if fault:
        raise RuntimeError(f"{model.path.stem}: {fault}")


def compare(model: Model, folder: str) -> Tuple[Dict[str, Any], float]:
    """The case of a model, and the seconds that it took to compile it."""
    cores: List[int] = sorted(os.sched_getaffinity(0))
    artifact = os.path.join(folder, f"{model.path.stem}.bin")
    start = time.monotonic()
    autopar.compile(model.path, artifact, bind=model.bind, fix_inputs=model.fixed, ranks=1, threads=len(cores))
    compile_s = time.monotonic() - start
    check_equal(artifact, model)
    sides = {"autopar": measuring.Side(prepare_autopar, (artifact, model, len(cores)), cores),
             "onnxruntime": measuring.Side(prepare_onnxruntime, (model, len(cores)), cores)}
    times = measuring.alternate(sides, RUNS)
    for side in sides.values():
        side.close()
    return measuring.case(model.name, measuring.median(times["autopar"]), "ms", measuring.median(times["onnxruntime"]),
                          threads=len(cores), raw=times), compile_s


def cases() -> Iterator[Dict[str, Any]]:
    """One case per model, then the compile time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for name, (size, bind) in MODELS.items():
            path = pathlib.Path(folder, f"{size}.onnx")
            models.save(size, path)
            case, compile_s = compare(Model(name, path, bind), folder)
            yield case
            if size == "gpt2-124m":
                yield measuring.case("compile gpt2-124m", compile_s, "s", COMPILE_LIMIT_S)
            path.unlink()
