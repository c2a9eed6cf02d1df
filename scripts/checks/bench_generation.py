# SPDX-License-Identifier: Apache-2.0
"""A token of a decoder with key/value caches against onnxruntime on the same model, cores and threads: gpt2-124m, float32,
half of the caches filled. onnxruntime's caches are bound to the same memory as input and as output, so that it writes in
place too."""

import os
import pathlib
import tempfile
from typing import Any, Callable, Dict, Iterator, List

import numpy as np

import autopar
from autopar import models

from . import comparison, measuring, reference

RUNS = 31
RTOL = 1e-3
ROOM = 1024
VOCAB = 50257
CARRY = ["--carry", "present.*=past_key_values.*"]


def _inputs(batch: int) -> Dict[str, np.ndarray]:
    ids = np.random.default_rng(0).integers(0, VOCAB, (batch, 1))
    return {"input_ids": ids, "cache_length": np.full(batch, ROOM // 2)}


def _filled(shape: Any, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(tuple(shape), dtype=np.float32)


def prepare_autopar(artifact: str, batch: int, threads: int) -> Callable[[], Any]:
    """A step of the artifact, its caches filled with drawn numbers."""
    session = autopar.Session(artifact, threads=threads)
    for seed, port in enumerate(session.states):
        session.set_state(port.name, _filled(port.shape, seed))
    inputs = _inputs(batch)
    return lambda: session.run(inputs)


def prepare_onnxruntime(model: str, batch: int, threads: int) -> Callable[[], Any]:
    """The same in onnxruntime."""
    import onnxruntime

    session = reference.session(pathlib.Path(model), threads)
    binding = session.io_binding()
    for name, array in _inputs(batch).items():
        binding.bind_cpu_input(name, array)
    caches = [port for port in session.get_inputs() if port.name.startswith("past_key_values")]
    for seed, port in enumerate(caches):
        value = onnxruntime.OrtValue.ortvalue_from_numpy(_filled([batch, *port.shape[1:]], seed))
        binding.bind_ortvalue_input(port.name, value)
        binding.bind_ortvalue_output(port.name.replace("past_key_values", "present"), value)
    binding.bind_output("logits")

    def run() -> Dict[str, np.ndarray]:
        session.run_with_iobinding(binding)
        names = [port.name for port in session.get_outputs()]
        return {"logits": binding.get_outputs()[names.index("logits")].numpy()}

    return run


def cases() -> Iterator[Dict[str, Any]]:
    """One case per batch."""
    cores: List[int] = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        model = os.path.join(folder, "gpt2.onnx")
        models.save("gpt2-124m", model, cache=ROOM, opset=24)
        for batch in (1, 8):
            artifact = os.path.join(folder, f"{batch}.bin")
            autopar.compile(model, artifact, bind={"batch": batch, "seq": 1}, threads=len(cores), options=CARRY)
            ours, theirs = prepare_autopar(artifact, batch, len(cores))(), prepare_onnxruntime(model, batch, len(cores))()
            fault = comparison.differences(ours, theirs, RTOL)
            if fault:
                raise RuntimeError(f"gpt2-124m, batch {batch}: {fault}")
            sides = {
                "autopar": measuring.Side(prepare_autopar, (artifact, batch, len(cores)), cores),
                "onnxruntime": measuring.Side(prepare_onnxruntime, (model, batch, len(cores)), cores),
            }
            times = measuring.alternate(sides, RUNS)
            for side in sides.values():
                side.close()
            yield measuring.case(f"gpt2-124m, a token of {batch}, {ROOM // 2} of {ROOM} cached", measuring.median(times["autopar"]), "ms",
                                 measuring.median(times["onnxruntime"]), threads=len(cores), raw=times)
