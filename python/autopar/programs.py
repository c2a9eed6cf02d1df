# SPDX-License-Identifier: Apache-2.0
"""`autopar.Programs`: one model compiled for several batches or lengths; its parameters are held once."""

import math
from types import TracebackType
from typing import Dict, List, Mapping, Optional, Tuple, Type

import numpy as np

from .errors import Error
from .session import EXIT_USAGE, Path, Session
from .world import World

EXIT_DATA = 65


class Programs:
    """Artifacts of one model for different extents, as one: the shapes of inputs say which of them runs, the smallest that takes
    them. A context manager, or to be closed.

    paths: the first as ever, the others compiled beside it (`compile(..., beside=first)`), so that all hold parameters and state once.
    threads, initializer, world: as for Session. Raises Error as Session does, 2 where two artifacts take the same shapes.
    """

    def __init__(self, *paths: Path, threads: int = 0, initializer: str = "", world: Optional[World] = None) -> None:
        if not paths:
            raise Error(EXIT_USAGE, "expected at least one artifact")
        #: In the order of the paths.
        self.sessions: List[Session] = []
        try:
            for path in paths:
                beside = self.sessions[0] if self.sessions else None
                session = Session(path, threads=threads, initializer=initializer, beside=beside, world=world)
                self.sessions.append(session)
                if any(_taken(session) == _taken(other) for other in self.sessions[:-1]):
                    raise Error(EXIT_USAGE, f"{path} takes the same shapes as an artifact before it: {_text(session)}")
        except BaseException:
            self.close()
            raise
        self._by_size = sorted(self.sessions, key=lambda session: sum(math.prod(port.shape) for port in session.inputs))

    def run(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """The outputs of the smallest program that takes inputs of these shapes; Error 65 lists what the programs take where none does."""
        shapes = {name: np.shape(array) for name, array in inputs.items()}
        for session in self._by_size:
            if {port.name for port in session.inputs} == set(shapes) and all(port.takes(shapes[port.name]) for port in session.inputs):
                return session.run(inputs)
        given = ", ".join(f"{name} {list(shape)}" for name, shape in sorted(shapes.items()))
        taken = "; ".join(_text(session) for session in self.sessions)
        raise Error(EXIT_DATA, f"no program takes {given}; the programs take {taken}: compile one more, or fill the inputs up")

    def load_weights(self, initializer: Path) -> None:
        """Other parameters for all programs, as by Session.load_weights()."""
        for session in self.sessions:
            session.load_weights(initializer)

    def close(self) -> None:
        """Frees the memory; closing twice is allowed."""
        for session in self.sessions:
            session.close()

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()


def _taken(session: Session) -> List[Tuple[str, Tuple[int, ...], Tuple[int, ...], Tuple[int, ...]]]:
    return sorted((port.name, port.least, port.shape, port.step) for port in session.inputs)


def _text(session: Session) -> str:
    return ", ".join(map(str, sorted(session.inputs)))
