# SPDX-License-Identifier: Apache-2.0
"""Weights in safetensors files, written and read by the format's definition: length, JSON header, bytes."""

import json
import pathlib
import struct
from typing import Dict

import numpy as np


def write_safetensors(path: pathlib.Path, tensors: Dict[str, np.ndarray], bf16: bool = False) -> None:
    """Arrays of f32; `bf16`: their upper halves."""
    header, data = {}, b""
    for name, value in tensors.items():
        raw = (value.view(np.uint32) >> 16).astype(np.uint16).tobytes() if bf16 else value.tobytes()
        header[name] = {"dtype": "BF16" if bf16 else "F32", "shape": value.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path: pathlib.Path) -> Dict[str, np.ndarray]:
    """All f32 tensors of a file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    places = json.loads(data[8:8 + length])
    return {name: np.frombuffer(data, "<f4", count=int(np.prod(entry["shape"])), offset=8 + length + entry["data_offsets"][0])
            .reshape(entry["shape"]) for name, entry in places.items() if name != "__metadata__"}
