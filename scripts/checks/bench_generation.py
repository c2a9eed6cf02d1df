# SPDX-License-Identifier: Apache-2.0
"""A token of a decoder with key/value caches against onnxruntime on the same model, cores and threads: gpt2-124m, float32,
half of the caches filled; and of a llama3-1b with four layers whose weights have 4 bits. onnxruntime's caches are bound to the same memory as input and as output, so that it writes in
place too."""

import os
import pathlib
import tempfile
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

import numpy as np
import onnx

import autopar
from autopar import models

from . import block_weights, comparison, measuring, reference

RUNS = 31
RTOL = 1e-3
ROOM = 1024
VOCAB = 8000
CARRY = ["--carry", "present.*=past_key_values.*"]


class Decoder(NamedTuple):
    """A model of the zoo with caches of ROOM places."""

    title: str
    name: str
    options: Dict[str, Any] = {}
    accuracy_level: int = 0  #: of weights of 4 bits in blocks of 32; 0: weights are f32
    batches: tuple = (1, 8)
    rtol: float = RTOL

    def save(self, path: str) -> None:
        models.save(self.name, path, cache=ROOM, opset=24, **self.options)
        if self.accuracy_level:
            quantized = block_weights.quantize(onnx.load(path), bits=4, symmetric=False, accuracy_level=self.accuracy_level)
            onnx.save(quantized, path)


LLAMA = {"layers": 4, "vocab": 8192}
DECODERS = [Decoder("gpt2-124m", "gpt2-124m"), Decoder("llama3-1b of 4 layers, 4-bit weights", "llama3-1b", LLAMA, 1, (1, 4)),
            # both round what they multiply to 8 bits: last digits decide steps, more in each layer
            Decoder("the same at accuracy level 4", "llama3-1b", LLAMA, 4, (1, 4), 0.1)]


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
    """One case per decoder and batch."""
    cores: List[int] = sorted(os.sched_getaffinity(0))
    for decoder in DECODERS:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            model = os.path.join(folder, "model.onnx")
            decoder.save(model)
            for batch in decoder.batches:
                yield _case(decoder, model, os.path.join(folder, f"{batch}.bin"), batch, cores)


def _case(decoder: Decoder, model: str, artifact: str, batch: int, cores: List[int]) -> Dict[str, Any]:
    autopar.compile(model, artifact, bind={"batch": batch, "seq": 1}, threads=len(cores), options=CARRY)
    ours, theirs = prepare_autopar(artifact, batch, len(cores))(), prepare_onnxruntime(model, batch, len(cores))()
    fault = comparison.differences(ours, theirs, decoder.rtol)
    if fault:
        raise RuntimeError(f"{decoder.title}, batch {batch}: {fault}")
    sides = {
        "autopar": measuring.Side(prepare_autopar, (artifact, batch, len(cores)), cores),
        "onnxruntime": measuring.Side(prepare_onnxruntime, (model, batch, len(cores)), cores),
    }
    times = measuring.alternate(sides, RUNS)
    for side in sides.values():
        side.close()
    return measuring.case(f"{decoder.title}, a token of {batch}, {ROOM // 2} of {ROOM} cached", measuring.median(times["autopar"]), "ms",
                          measuring.median(times["onnxruntime"]), threads=len(cores), raw=times)
