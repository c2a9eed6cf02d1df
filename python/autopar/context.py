# SPDX-License-Identifier: Apache-2.0
"""What each text that a Generator writes has of its own, beside its tokens."""

import fnmatch
from typing import Dict, Mapping, Sequence

import numpy as np

from .errors import EXIT_USAGE, Error
from .session import Path, Port, Session


class Context:
    """What each text has of its own, in the rows of a batch."""

    def __init__(self, patterns: Sequence[str]) -> None:
        if isinstance(patterns, str):
            raise Error(EXIT_USAGE, f"context is a list of names, such as ['cross.*', 'encoder_attention_mask'], not {patterns!r}")
        self._patterns = list(patterns)
        self._ports: Dict[str, Port] = {}
        self._changes = 0
        self._seen: Dict[Session, int] = {}  # changes that a session's states have
        self.rows: Dict[str, np.ndarray] = {}

    def has(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns)

    def take(self, session: Session, path: Path) -> None:
        """Of a program, which has the same as those before it."""
        ports = {port.name: port for port in session.inputs + session.states if self.has(port.name)}
        for pattern in self._patterns:
            if not fnmatch.filter(ports, pattern):
                raise Error(EXIT_USAGE, f"context {pattern!r}: {path} has no such input and carries no such state; its inputs are "
                                        f"{', '.join(port.name for port in session.inputs)}, its states {', '.join(port.name for port in session.states)}")
        if self._ports and {name: port.shape for name, port in ports.items()} != {name: port.shape for name, port in self._ports.items()}:
            raise Error(EXIT_USAGE, f"{path} takes another context than the program beside it; compile both for the same source")
        self._ports = ports
        self._seen[session] = 0

    def arrays(self, given: Mapping[str, np.ndarray], texts: int) -> Dict[str, np.ndarray]:
        """The context of so many texts, filled up with zeros to what the program takes."""
        if set(given) != set(self._ports):
            raise Error(EXIT_USAGE, f"context: expected arrays of {', '.join(sorted(self._ports)) or 'nothing'}, got {', '.join(sorted(given)) or 'nothing'}")
        filled = {}
        for name, port in self._ports.items():
            array = np.asarray(given[name])
            if array.shape[:1] != (texts,) or len(array.shape) != len(port.shape) or any(a > b for a, b in zip(array.shape[1:], port.shape[1:])):
                raise Error(EXIT_USAGE, f"context {name!r}: expected [{', '.join(map(str, (texts, *port.shape[1:])))}], or less but for the {texts} "
                                        f"texts, got {list(array.shape)}")
            if not np.can_cast(array.dtype, port.dtype, "same_kind"):
                raise Error(EXIT_USAGE, f"context {name!r}: expected {port.dtype}, got {array.dtype}")
            filled[name] = np.zeros((texts, *port.shape[1:]), port.dtype)
            filled[name][tuple(map(slice, array.shape))] = array
        return filled

    def begin(self, row: int, given: Dict[str, np.ndarray], text: int) -> None:
        """Another text in a row."""
        for name, array in given.items():
            if name not in self.rows:  # rows without a text have that of one: what is hidden whole is no number
                self.rows[name] = np.repeat(array[text : text + 1], self._ports[name].shape[0], axis=0)
            self.rows[name][row] = array[text]
        self._changes += 1

    def put(self, session: Session) -> None:
        """Into the states of a session that has not seen it."""
        if self._seen[session] != self._changes:
            for port in session.states:
                if port.name in self.rows:
                    session.set_state(port.name, self.rows[port.name])
            self._seen[session] = self._changes
