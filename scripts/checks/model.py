# SPDX-License-Identifier: Apache-2.0
"""A model to be checked."""

import pathlib
from typing import Dict, List, Mapping, NamedTuple, Optional

import numpy as np


class Unavailable(Exception):
    """A source of models cannot be used on this machine; the text says what is missing."""


class Record(NamedTuple):
    """What the source of a model computed from inputs, and its losses in steps of SGD; see exports/."""

    inputs: Dict[str, np.ndarray]
    outputs: Dict[str, np.ndarray]
    target: np.ndarray
    losses: List[float]
    lr: float

    @classmethod
    def load(cls, path: pathlib.Path) -> "Record":
        """From NAME.npz."""
        arrays = dict(np.load(path))
        inputs, outputs = ({name[len(kind):]: array for name, array in arrays.items() if name.startswith(kind)} for kind in ("input/", "output/"))
        return cls(inputs, outputs, arrays["target"], arrays["losses"].tolist(), float(arrays["lr"]))


class Model(NamedTuple):
    """A model file, the extents of its symbolic dimensions, inputs that always have one value, what its source computed."""

    name: str
    path: pathlib.Path
    bind: Dict[str, int]
    fixed: Mapping[str, float] = {}
    record: Optional[Record] = None

    def asked_for(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """The inputs of the program: all but those that are fixed."""
        return {name: value for name, value in inputs.items() if name not in self.fixed}
