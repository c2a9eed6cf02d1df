# SPDX-License-Identifier: Apache-2.0
"""How a parameter's values are drawn: recipe, seed, and conversion to the stored data type.

A parameter is a name, a shape and a recipe until the moment it is written, so a model of any size can be described
in milliseconds and written with the memory of one chunk. Every tensor has its own random stream, derived from the
seed and its name: leaving out a layer does not change the others.
"""

import dataclasses
import math
import zlib
from typing import Iterator, Tuple

import numpy as np
from onnx import TensorProto

#: data type name -> (ONNX data type, bytes per element)
DTYPES = {
    "float32": (TensorProto.FLOAT, 4),
    "float16": (TensorProto.FLOAT16, 2),
    "bfloat16": (TensorProto.BFLOAT16, 2),
}

#: Of parameters: bytes of quantized weights, too.
STORED = {**DTYPES, "uint8": (TensorProto.UINT8, 1)}

#: Elements drawn at a time: 64 MiB of float32.
CHUNK_ELEMENTS = 16 << 20


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Distribution of a parameter: normal(mean, std), or uniform(low, high) when `uniform` is set (then mean is the
    middle and std the half width). std 0 is a constant."""

    mean: float = 0.0
    std: float = 0.0
    uniform: bool = False


def normal(std: float, mean: float = 0.0) -> Recipe:
    """Normally distributed values."""
    return Recipe(mean, std)


def uniform(low: float, high: float) -> Recipe:
    """Uniformly distributed values in [low, high)."""
    return Recipe((low + high) / 2, (high - low) / 2, uniform=True)


def fan_in(inputs: int, gain: float = 1.0) -> Recipe:
    """The recipe of a dense weight with `inputs` inputs per output: normal(0.02) at 768 inputs, as gpt2-124m has, and
    scaled by sqrt(768 / inputs) elsewhere, so that activations keep their size in narrow and in wide models."""
    return Recipe(0.0, gain * 0.02 * math.sqrt(768.0 / inputs))


BIAS = normal(0.02)
"""Small random biases: with zeros a lost bias would go unnoticed in a comparison."""

NORM_SCALE = normal(0.02, mean=1.0)
"""Scales of normalization layers: near one, and not one for the same reason."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A weight of the model, without its values. dtype is a key of STORED; trained is false for running statistics and
    scales of quantized weights, of which an element holds several numbers."""

    name: str
    shape: Tuple[int, ...]
    dtype: str
    recipe: Recipe
    trained: bool = True
    numbers: int = 1

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * STORED[self.dtype][1]

    def chunks(self, seed: int) -> Iterator[bytes]:
        """The values as little-endian bytes, in row-major order, a bounded piece at a time."""
        stream = np.random.Generator(np.random.SFC64([seed, zlib.crc32(self.name.encode())]))
        left = self.elements
        while left > 0:
            count = min(left, CHUNK_ELEMENTS)
            yield encode(draw(stream, self.recipe, count), self.dtype)
            left -= count


def draw(stream: np.random.Generator, recipe: Recipe, count: int) -> np.ndarray:
    """`count` float32 values from the recipe."""
    if recipe.std == 0.0:
        return np.full(count, recipe.mean, dtype=np.float32)
    if recipe.uniform:
        values = stream.random(count, dtype=np.float32)
        values *= np.float32(2 * recipe.std)
        values += np.float32(recipe.mean - recipe.std)
        return values
    values = stream.standard_normal(count, dtype=np.float32)
    values *= np.float32(recipe.std)
    if recipe.mean != 0.0:
        values += np.float32(recipe.mean)
    return values


def encode(values: np.ndarray, dtype: str) -> bytes:
    """float32 values as bytes of `dtype`; bfloat16 is rounded to nearest even."""
    if dtype == "float32":
        return np.ascontiguousarray(values, dtype="<f4").tobytes()
    if dtype == "float16":
        return values.astype("<f2").tobytes()
    if dtype == "uint8":
        return np.minimum(values, 255).astype("u1").tobytes()
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return rounded.astype("<u2").tobytes()
