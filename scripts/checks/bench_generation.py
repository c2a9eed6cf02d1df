# SPDX-License-Identifier: Apache-2.0
"""A token of a decoder with key/value caches against onnxruntime on the same model, cores and threads: gpt2-124m, float32,
half of the caches filled; and of a llama3-1b with four layers whose weights have 4 bits, with a prompt of it. onnxruntime's
caches are bound to the same memory as input and as output, so that it writes in place too."""

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
PROMPT, PROMPT_RUNS = 128, 11
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
    has_prompt: bool = False

    def save(self, path: str) -> None:
        models.save(self.name, path, cache=ROOM, opset=24, **self.options)
        if self.accuracy_level:
            quantized = block_weights.quantize(onnx.load(path), bits=4, symmetric=False, accuracy_level=self.accuracy_level)
            onnx.save(quantized, path)


LLAMA = {"layers": 4, "vocab": 8192}
DECODERS = [Decoder("gpt2-124m", "gpt2-124m"), Decoder("llama3-1b of 4 layers, 4-bit weights", "llama3-1b", LLAMA, 1, (1, 4), has_prompt=True),
            # both round what they multiply to 8 bits: last digits decide steps, more in each layer
            Decoder("the same at accuracy level 4", "llama3-1b", LLAMA, 4, (1, 4, 8), 0.1, has_prompt=True)]


class Step(NamedTuple):
    """What a step is given: a token of each sample, behind half of the caches, or one whole prompt."""

    batch: int
    tokens: int = 1

    def inputs(self) -> Dict[str, np.ndarray]:
        ids = np.random.default_rng(0).integers(0, VOCAB, (self.batch, self.tokens))
        return {"input_ids": ids, "cache_length": np.full(self.batch, ROOM // 2 if self.tokens == 1 else 0)}

    def title(self) -> str:
        return f"a token of {self.batch}, {ROOM // 2} of {ROOM} cached" if self.tokens == 1 else f"a prompt of {self.tokens}"


def _filled(shape: Any, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(tuple(shape), dtype=np.float32)


def prepare_autopar(artifact: str, step: Step, threads: int) -> Callable[[], Any]:
    """A step of the artifact, its caches filled with drawn numbers."""
    session = autopar.Session(artifact, threads=threads)
    for seed, port in enumerate(session.states):
        session.set_state(port.name, _filled(port.shape, seed))
    inputs = step.inputs()
    return lambda: session.run(inputs)


def prepare_onnxruntime(model: str, step: Step, threads: int) -> Callable[[], Any]:
    """The same in onnxruntime."""
    import onnxruntime

    session = reference.session(pathlib.Path(model), threads)
    binding = session.io_binding()
    for name, array in step.inputs().items():
        binding.bind_cpu_input(name, array)
    caches = [port for port in session.get_inputs() if port.name.startswith("past_key_values")]
    for seed, port in enumerate(caches):
        value = onnxruntime.OrtValue.ortvalue_from_numpy(_filled([step.batch, *port.shape[1:]], seed))
        binding.bind_ortvalue_input(port.name, value)
        binding.bind_ortvalue_output(port.name.replace("past_key_values", "present"), value)
    binding.bind_output("logits")

    def run() -> Dict[str, np.ndarray]:
        session.run_with_iobinding(binding)
        names = [port.name for port in session.get_outputs()]
        return {"logits": binding.get_outputs()[names.index("logits")].numpy()}

    return run


def cases() -> Iterator[Dict[str, Any]]:
    """One case per decoder and step."""
    cores: List[int] = sorted(os.sched_getaffinity(0))
    for decoder in DECODERS:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            model = os.path.join(folder, "model.onnx")
            decoder.save(model)
            for step in [*map(Step, decoder.batches), *([Step(1, PROMPT)] if decoder.has_prompt else [])]:
                yield _case(decoder, model, os.path.join(folder, f"{step.batch}x{step.tokens}.bin"), step, cores)


def _case(decoder: Decoder, model: str, artifact: str, step: Step, cores: List[int]) -> Dict[str, Any]:
    autopar.compile(model, artifact, bind={"batch": step.batch, "seq": step.tokens}, threads=len(cores), options=CARRY)
    ours, theirs = prepare_autopar(artifact, step, len(cores))(), prepare_onnxruntime(model, step, len(cores))()
    fault = comparison.differences(ours, theirs, decoder.rtol)
    if fault:
        raise RuntimeError(f"{decoder.title}, {step.title()}: {fault}")
    sides = {
        "autopar": measuring.Side(prepare_autopar, (artifact, step, len(cores)), cores),
        "onnxruntime": measuring.Side(prepare_onnxruntime, (model, step, len(cores)), cores),
    }
    times = measuring.alternate(sides, RUNS if step.tokens == 1 else PROMPT_RUNS)
    for side in sides.values():
        side.close()
    return measuring.case(f"{decoder.title}, {step.title()}", measuring.median(times["autopar"]), "ms",
                          measuring.median(times["onnxruntime"]), threads=len(cores), raw=times)
