# SPDX-License-Identifier: Apache-2.0
"""A model to be checked."""

import pathlib
from typing import Dict, Mapping, NamedTuple

import numpy as np


class Unavailable(Exception):
    """A source of models cannot be used on this machine; the text says what is missing."""


class Model(NamedTuple):
    """A model file, the extents of its symbolic dimensions, and inputs that always have one value."""

    name: str
    path: pathlib.Path
    bind: Dict[str, int]
    fixed: Mapping[str, float] = {}

    def asked_for(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """The inputs of the program: all but those that are fixed."""
        return {name: value for name, value in inputs.items() if name not in self.fixed}
