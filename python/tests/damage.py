# SPDX-License-Identifier: Apache-2.0
"""Damage to values that tools read: JSON and ONNX models, the same for the same seed."""

import copy
import json
import random
from typing import Any, Iterator, List, Tuple

import onnx
from onnx import AttributeProto, TensorProto

NUMBERS = [-1, 0, 1, 2, 3, 7, 100, 2**31 - 1, 2**31, -2**31, 2**40, 2**63 - 1, -2**63]
VALUES: List[Any] = [*NUMBERS, -0.5, 1e308, 2**64, True, None, "", "x", "*", [], {}, [[]], [-1], {"a": 1}]
ATOMS = ["(", ")", "[", "]", "=", ",", "*", "-", ".", ":", '"', "0", "-1", "1e400", "nan", "9" * 20, "", " ", "x", "\t"]


def _places(value: Any, place: Tuple[Any, ...] = ()) -> Iterator[Tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from _places(item, (*place, key))


def _at(value: Any, place: Tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def damaged_json(value: Any, draw: random.Random) -> str:
    """One entry of the value is left out, another number, another value, or what stands elsewhere in it."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    *outer, key = draw.choice(places)
    holder = _at(value, tuple(outer))
    held = holder[key]
    kind = draw.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = draw.choice(VALUES)
    elif kind == 2:
        holder[key] = copy.deepcopy(_at(value, draw.choice(places)))
    elif isinstance(held, (int, float)) and not isinstance(held, bool):
        holder[key] = draw.choice([held + 1, held - 1, -held, held * 1000, draw.choice(NUMBERS)])
    elif isinstance(held, list):
        holder[key] = held[::-1] if kind == 3 else held + held[:1]
    elif isinstance(held, str):
        holder[key] = damaged_text(held, draw)
    return json.dumps(value)


def damaged_text(text: str, draw: random.Random) -> str:
    """A character left out, twice, or another; or the rest is cut off."""
    at = draw.randrange(len(text) + 1)
    return draw.choice([text[:at] + text[at + 1:], text[:at] + text[at:at + 1] + text[at:], text[:at] + draw.choice(ATOMS) + text[at + 1:], text[:at]])


def _damage_tensor(tensor: TensorProto, draw: random.Random) -> None:
    kind = draw.randrange(5)
    if kind == 0:
        tensor.data_type = draw.randrange(28)
    elif kind == 1 and tensor.dims:
        tensor.dims[draw.randrange(len(tensor.dims))] = draw.choice(NUMBERS)
    elif kind == 2:
        tensor.dims.append(draw.choice(NUMBERS))
    elif kind == 3:
        tensor.raw_data = tensor.raw_data[:draw.randrange(len(tensor.raw_data) + 1)]
    else:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in [("location", draw.choice(["", "../x", "/dev/zero", "absent"])), ("offset", draw.choice(["-1", "x", "9" * 30]))]:
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value


def _damage_attribute(attribute: AttributeProto, draw: random.Random) -> None:
    if attribute.type == AttributeProto.INT:
        attribute.i = draw.choice(NUMBERS)
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        attribute.ints[draw.randrange(len(attribute.ints))] = draw.choice(NUMBERS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = draw.choice([b"", b"\xff", b"VALID"])
    else:
        attribute.type = draw.randrange(15)


def _damage_type(info: onnx.ValueInfoProto, draw: random.Random) -> None:
    tensor = info.type.tensor_type
    if tensor.shape.dim and draw.random() < 0.5:
        tensor.shape.dim[draw.randrange(len(tensor.shape.dim))].dim_value = draw.choice(NUMBERS)
    elif draw.random() < 0.5:
        tensor.shape.dim.add().dim_value = draw.choice(NUMBERS)
    else:
        tensor.elem_type = draw.randrange(28)


def damaged_model(model: onnx.ModelProto, draw: random.Random) -> bytes:
    """One thing of the graph is wrong: a name, an operator, an attribute, a type, a tensor, the order of nodes; or some bytes."""
    model = copy.deepcopy(model)
    graph = model.graph
    node = draw.choice(graph.node)
    names = [*(name for one in graph.node for name in [*one.input, *one.output]), "", "unknown"]
    kind = draw.randrange(10)
    if kind == 0 and node.input:
        node.input[draw.randrange(len(node.input))] = draw.choice(names)
    elif kind == 1:
        node.output[draw.randrange(len(node.output))] = draw.choice(names)
    elif kind == 2:
        node.op_type = draw.choice([one.op_type for one in graph.node] + ["Unknown"])
    elif kind == 3:
        graph.node.append(copy.deepcopy(node))
        graph.node.remove(node)
    elif kind in (4, 5) and any(one.attribute for one in graph.node):
        _damage_attribute(draw.choice([attribute for one in graph.node for attribute in one.attribute]), draw)
    elif kind == 6:
        _damage_type(draw.choice([*graph.input, *graph.output]), draw)
    elif kind == 7 and node.input:
        del node.input[-1]
    elif kind == 8:
        _damage_tensor(draw.choice(graph.initializer), draw)
    data = bytearray(model.SerializeToString())
    if kind == 9:
        for _ in range(3):
            data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)
