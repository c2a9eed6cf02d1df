# SPDX-License-Identifier: Apache-2.0
"""Turns a described model into a ModelProto or a file, with inline, external or absent weights.

Files are written as a stream: parameters are drawn a chunk at a time, so memory stays small for any size, and appear
under their name only when complete (temporary file, then rename).
"""

import os
from typing import BinaryIO, List

import onnx
from onnx import TensorProto

from .family import ModelError
from .graph import GraphBuilder
from .weights import STORED, Parameter

#: A protobuf message ends at 2 GiB; larger models keep their weights in a file beside them. Leaves room for the graph.
INLINE_LIMIT = (2 << 30) - (64 << 20)

#: External data starts at multiples of this, so that it can be mapped.
ALIGNMENT = 4096

_GRAPH_FIELD = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER_FIELD = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_RAW_DATA_FIELD = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number


def _header(parameter: Parameter) -> onnx.TensorProto:
    return TensorProto(name=parameter.name, dims=parameter.shape, data_type=STORED[parameter.dtype][0])


def _external(parameter: Parameter, location: str, offset: int = None) -> onnx.TensorProto:
    tensor = _header(parameter)
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": location}
    if offset is not None:
        entries.update(offset=str(offset), length=str(parameter.nbytes))
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def to_proto(graph: GraphBuilder, weights: bool, seed: int) -> onnx.ModelProto:
    """The whole model in memory. Without weights each parameter points to a file that does not exist, see the package
    documentation."""
    if weights and not fits_inline(graph):
        size = f"{graph.parameter_bytes() / 1e9:.1f} GB"
        raise ModelError(f"weights of '{graph.name}' take {size}, more than one message holds, write them with save()")
    require_seed(seed)
    model = graph.skeleton()
    for parameter in graph.parameters.values():
        if weights:
            tensor = model.graph.initializer.add()
            tensor.CopyFrom(_header(parameter))
            tensor.raw_data = b"".join(parameter.chunks(seed))
        else:
            model.graph.initializer.append(_external(parameter, f"{graph.name}.weights-absent"))
    return model


def require_seed(seed: int) -> None:
    """Refuses a negative seed."""
    if seed < 0:
        raise ModelError(f"seed must be >= 0, got {seed}")


def fits_inline(graph: GraphBuilder) -> bool:
    """Whether one protobuf message holds the model with its weights."""
    return graph.parameter_bytes() + graph.buffer_bytes() <= INLINE_LIMIT


def save(graph: GraphBuilder, path: str, weights: bool, seed: int, external_data: bool = False) -> List[str]:
    """Writes the model to `path`; returns the files written.

    Parameters go to `<path>.data` when one message cannot hold them, or when `external_data` asks for it. Each file
    appears complete or not at all.
    """
    require_seed(seed)
    temporary = f"{path}.writing-{os.getpid()}"
    temporary_data = f"{path}.data.writing-{os.getpid()}"
    try:
        written = [path]
        if not weights:
            with open(temporary, "wb") as out:
                out.write(to_proto(graph, False, seed).SerializeToString())
        elif fits_inline(graph) and not external_data:
            with open(temporary, "wb") as out:
                _write_inline(graph, seed, out)
        else:
            with open(temporary_data, "wb") as data, open(temporary, "wb") as out:
                out.write(_write_external(graph, seed, data, os.path.basename(path) + ".data").SerializeToString())
            os.replace(temporary_data, path + ".data")
            written.append(path + ".data")
        os.replace(temporary, path)
        return written
    finally:
        for leftover in (temporary, temporary_data):
            if os.path.exists(leftover):
                os.unlink(leftover)


def _write_external(graph: GraphBuilder, seed: int, data: BinaryIO, location: str) -> onnx.ModelProto:
    model = graph.skeleton()
    for parameter in graph.parameters.values():
        offset = -(-data.tell() // ALIGNMENT) * ALIGNMENT
        data.seek(offset)
        for chunk in parameter.chunks(seed):
            data.write(chunk)
        model.graph.initializer.append(_external(parameter, location, offset))
    return model


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, length: int) -> bytes:
    """Tag and length of a length-delimited protobuf field."""
    return _varint(number << 3 | 2) + _varint(length)


def _write_inline(graph: GraphBuilder, seed: int, out: BinaryIO) -> None:
    """Writes the protobuf message field by field, because building it in memory would hold every weight twice."""
    model = graph.skeleton()
    body = model.graph.SerializeToString()
    model.ClearField("graph")

    prefixes = []
    for parameter in graph.parameters.values():
        tensor = _header(parameter).SerializeToString() + _field(_RAW_DATA_FIELD, parameter.nbytes)
        prefixes.append(_field(_INITIALIZER_FIELD, len(tensor) + parameter.nbytes) + tensor)

    out.write(model.SerializeToString())
    out.write(_field(_GRAPH_FIELD, len(body) + sum(map(len, prefixes)) + graph.parameter_bytes()))
    out.write(body)
    for prefix, parameter in zip(prefixes, graph.parameters.values()):
        out.write(prefix)
        for chunk in parameter.chunks(seed):
            out.write(chunk)
