# SPDX-License-Identifier: Apache-2.0
"""The cases of an ONNX backend suite on disk: folders with model.onnx and test_data_set_*/{input,output}_*.pb."""

import pathlib
import re
from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator")
BFLOAT16 = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
DEBIAN_DATA = pathlib.Path("/usr/share/libonnx-testdata/data")
#: Integers that programs hold in a byte each.
HELD_IN_BYTES = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}
#: Faults of the suite of Debian: this model lacks the attribute with which its data were computed (the default is 1e-6).
MISSING_ATTRIBUTES: Dict[str, Dict[str, float]] = {"node/test_adam_multiple": {"epsilon": 1e-2}}


class Case(NamedTuple):
    """One test of the suite."""

    name: str  # suite/test
    folder: pathlib.Path


class Values(NamedTuple):
    """Inputs and expected outputs by name."""

    inputs: Dict[str, np.ndarray]
    outputs: Dict[str, np.ndarray]


def find_cases(data: pathlib.Path, pattern: str) -> List[Case]:
    """All cases whose name matches the regular expression, in a fixed order."""
    wanted = re.compile(pattern)
    cases = [Case(f"{suite}/{model.parent.name}", model.parent)
             for suite in SUITES for model in sorted((data / suite).glob("*/model.onnx"))]
    return [case for case in cases if wanted.search(case.name)]


def repair(case: Case, model: onnx.ModelProto) -> bool:
    """Adds the attributes that the suite forgot; whether there are any."""
    given = {attribute.name for node in model.graph.node for attribute in node.attribute}
    missing = {name: value for name, value in MISSING_ATTRIBUTES.get(case.name, {}).items() if name not in given}
    for name, value in missing.items():
        model.graph.node[0].attribute.append(onnx.helper.make_attribute(name, value))
    return bool(missing)


def open_inputs(model: onnx.ModelProto) -> List[onnx.ValueInfoProto]:
    """The graph inputs a caller provides: those that no initializer of the same name fills."""
    filled = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in filled]


def non_tensor(model: onnx.ModelProto) -> Optional[str]:
    """The first graph input or output that is no numeric tensor, in words; None when all are."""
    for value in [*model.graph.input, *model.graph.output]:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return f"'{value.name}' is a {(kind or 'missing').replace('_type', '')}"
        if value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
            return f"'{value.name}' is a tensor of strings"
    return None


def read_tensor(path: pathlib.Path) -> np.ndarray:
    """One .pb file as an array; bfloat16 stays bfloat16."""
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def read_values(model: onnx.ModelProto, data_set: pathlib.Path) -> Values:
    """A data set by name; files are numbered in the order of the graph's open inputs and outputs."""
    names = [value.name for value in open_inputs(model)]
    if len(list(data_set.glob("input_*.pb"))) > len(names):
        names = [value.name for value in model.graph.input]
    halves = {value.name for value in [*model.graph.input, *model.graph.output]
              if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16}

    def read(name: str, file: pathlib.Path) -> np.ndarray:
        array = read_tensor(file)  # this suite stores bfloat16 as the uint16 of the same bits
        return array.view(BFLOAT16) if name in halves and array.dtype == np.uint16 else array

    inputs = {name: read(name, file) for number, name in enumerate(names)
              for file in [data_set / f"input_{number}.pb"] if file.exists()}
    outputs = {value.name: read(value.name, data_set / f"output_{number}.pb")
               for number, value in enumerate(model.graph.output)}
    return Values(inputs, outputs)


def as_held(arrays: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """The arrays as programs take and give them."""
    return {name: array.astype(HELD_IN_BYTES.get(array.dtype.name, array.dtype), copy=False) for name, array in arrays.items()}


def with_constants(model: onnx.ModelProto, values: Dict[str, np.ndarray], names: Sequence[str]) -> onnx.ModelProto:
    """A copy of the model in which the named inputs are initializers with the given values."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name in names:
        copy.graph.initializer.append(numpy_helper.from_array(values[name], name))
        index = next(i for i, value in enumerate(copy.graph.input) if value.name == name)
        del copy.graph.input[index]
    return copy


def bindings(model: onnx.ModelProto, inputs: Dict[str, np.ndarray]) -> Dict[str, int]:
    """Extents for the inputs' symbolic dimensions and those written as 0 (unknown to many exporters), read off the data."""
    found: Dict[str, int] = {}
    for value in open_inputs(model):
        if value.name in inputs and value.type.WhichOneof("value") == "tensor_type":
            for position, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_value <= 0 and position < inputs[value.name].ndim:
                    found[dim.dim_param or f"{value.name}.{position}"] = inputs[value.name].shape[position]
    return found
