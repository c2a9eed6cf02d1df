# SPDX-License-Identifier: Apache-2.0
"""AutoPar's model zoo: well-known architectures as ONNX models, in the shape real exporters produce, at any size.

    from autopar import models
    models.names()                                              # ['gpt2-124m', ...]
    models.build("gpt2-124m", layers=2, hidden=64, heads=4, vocab=1000)   # onnx.ModelProto
    models.save("gpt3-175b", "gpt3.onnx", weights=False)        # seconds, a few MB
    models.parameter_count("llama3-405b")                       # 405853388800, nothing is allocated

The same from a shell: `python3 -m autopar.models gpt2-124m -o gpt2.onnx`.

Weights are random, drawn from `seed`; they stand for a trained model in cost, memory and numerical checks.

Absent weights. With `weights=False` every parameter is an initializer with its name, dims and data type, with
`data_location = EXTERNAL` and one `external_data` entry, `location` = "<model name>.weights-absent". No file of that
name is written: an initializer whose external file does not exist has no values, and the model can be planned but not
run. Buffers (causal mask, rotary tables) are no parameters and keep their values.

Only numpy and onnx are needed.
"""

from typing import List

import onnx

from . import writing
from .catalogue import find, names
from .family import ModelError
from .graph import DEFAULT_OPSET, GraphBuilder

__all__ = ["ModelError", "build", "describe", "names", "parameter_count", "save"]


def describe(
    name: str, *, opset: int = DEFAULT_OPSET, dtype: str = "float32", batch: int = 0, seq: int = 0, weight_bits: int = 0, **overrides
) -> GraphBuilder:
    """The model `name` as nodes and parameter shapes, no values drawn.

    batch, seq: fix these input dimensions; 0 leaves them symbolic ("batch", "seq").
    weight_bits: 2, 4 or 8 quantizes the weights of linear layers on tensors of three dimensions, in blocks of 32; 0: none.
    overrides: options of the family, e.g. layers=2. Raises ModelError on an unknown name, option or misfit value.
    """
    family = find(name)
    config = family.configure(name, overrides)
    if batch < 0 or seq < 0:
        raise ModelError(f"batch and seq must be >= 0 (0 is symbolic), got batch={batch}, seq={seq}")
    if seq and not family.sequence:
        raise ModelError(f"model '{name}' has no sequence dimension, leave seq out")
    graph = GraphBuilder(name, opset, dtype, batch, seq, weight_bits)
    family.emit(graph, config)
    if weight_bits and not any(parameter.dtype == "uint8" for parameter in graph.parameters.values()):
        raise ModelError(f"'{name}' has no layers whose weights the zoo quantizes; llama3, mixtral, bert, vit and t5 have some")
    return graph


def build(name: str, *, weights: bool = True, seed: int = 0, **options) -> onnx.ModelProto:
    """The model `name` in memory. `options` are those of `describe`. Weights above 2 GB need `save`."""
    return writing.to_proto(describe(name, **options), weights, seed)


def save(
    name: str, path: str, *, weights: bool = True, seed: int = 0, external_data: bool = False, **options
) -> List[str]:
    """Writes the model `name` to `path` and returns the files written.

    Weights above 2 GB, or any with `external_data`, go to `<path>.data`. Files appear complete or not at all.
    """
    return writing.save(describe(name, **options), path, weights, seed, external_data)


def parameter_count(name: str, **options) -> int:
    """Number of trained scalars of the model; buffers do not count."""
    return describe(name, **options).parameter_count()
