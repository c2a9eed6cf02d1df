# SPDX-License-Identifier: Apache-2.0
"""`autopar.World`: one process per rank, started by mpirun, torchrun or srun."""

import ctypes
import os
from types import TracebackType
from typing import Optional, Type

from . import runtime_library
from .errors import EXIT_USAGE, Error


class World:
    """The processes of a job, each of which is one rank, as the launcher's variables say (docs/Running.md); without a launcher this
    process is alone and has all ranks, so that one script runs both ways. A context manager, or to be closed.

    All processes open sessions in it, use and close them in the same order, with the same inputs. One at a time. A process that
    leaves with an exception ends the others, which raise Error 75 and name it. Raises Error: 75 where not all processes arrive,
    2 where a launcher's variables are incomplete.
    """

    def __init__(self) -> None:
        self._world: Optional[ctypes.c_void_p] = None
        self._process = os.getpid()
        self._library = runtime_library.load()
        self._world = runtime_library.join()
        #: Which of the processes this is, and how many there are.
        self.rank: int = self._library.autoparRank(self._world)
        self.processes: int = self._library.autoparProcesses(self._world)

    def joined(self) -> ctypes.c_void_p:
        """The world, for sessions that are opened in it."""
        if self._world is None:
            raise Error(EXIT_USAGE, "the world is closed; open sessions before")
        if self._process != os.getpid():
            raise Error(EXIT_USAGE, f"the world was joined by process {self._process} before it forked; open sessions there")
        return self._world

    def close(self, why: str = "") -> None:
        """Leaves; closing twice is allowed. why: for what reason this process fails, if it does."""
        if self._world is not None and self._process == os.getpid():  # threads and connections stay with the parent of a fork
            self._library.autoparLeave(self._world, why.encode(errors="backslashreplace"))
        self._world = None

    def __enter__(self) -> "World":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        is_failure = kind is not None and not (isinstance(error, SystemExit) and not error.code)
        self.close(f"{kind.__name__}: {error}" if kind is not None and is_failure else "")

    def __del__(self) -> None:
        self.close()
