# SPDX-License-Identifier: Apache-2.0
"""`autopar.Session`: runs a compiled artifact, all ranks in this process, NumPy arrays in and out."""

import contextlib
import ctypes
import os
import threading
import warnings
from types import TracebackType
from typing import Dict, Iterator, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple, Type, Union

import numpy as np

from . import element_types, runtime_library
from .errors import EXIT_USAGE, Error
from .world import World

MOST_THREADS = 4096  # as autopar-run --threads
MOST_STEPS = 1 << 40  # as autopar-run --steps


def _extent(least: int, most: int, step: int) -> str:
    return str(most) if least == most else f"{least}..{most}" if step == 1 else f"{least}..{most}:{step}"


class Port(NamedTuple):
    """A tensor that the program takes or gives, as a whole (not the part of one rank)."""

    name: str
    dtype: np.dtype
    shape: Tuple[int, ...]
    #: Of an input, the least that a step may be given of each dimension, of which `shape` is the most; () for all others.
    least: Tuple[int, ...] = ()
    #: By how much each dimension varies between the two: 1 where it does not, or by any number.
    step: Tuple[int, ...] = ()

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether a step may be given an array of this shape."""
        return len(shape) == len(self.shape) and all(
            size in range(least, most + 1, step) for least, size, most, step in zip(self.least, shape, self.shape, self.step))

    def __str__(self) -> str:
        """Its name and extents, as in "x [1..8, 3, 64..640:32]"."""
        return f"{self.name} [{', '.join(map(_extent, self.least or self.shape, self.shape, self.step or [1] * len(self.shape)))}]"


Path = Union[str, "os.PathLike[str]"]


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and least <= value <= most


class Session:
    """A loaded artifact; a context manager, or to be closed. Threads that share one wait for each other.

    beside: a session of another program of the same model, such as another batch or sequence length. Parameters, state (caches of
    a decoder) and what is made of parameters at load are held once for both where both hold the same: `shared_bytes`. Both are run
    by one thread at a time; either may be closed first.
    world: this process is one rank of many (autopar.World). Inputs are whole arrays all the same, and every process gives the same ones.
    threads: per rank; 0 divides the cores of this process by the ranks.
    initializer: where parameters start, if not from the model: "*.bias=zeros, *=normal(0.02), seed=7", or a .safetensors file, of which a
    warning says what the program has no parameter for, and which parameters it does not give.
    on_nan: a training step whose loss is NaN or infinite changes nothing; "stop" raises Error, which names the first bad
    tensor, "skip" goes on.
    Raises Error: 65 damaged artifact, 66 no such file, 78 wrong machine, ...
    """

    def __init__(self, path: Path, *, threads: int = 0, initializer: str = "", on_nan: str = "stop",
                 beside: "Optional[Session]" = None, world: Optional[World] = None) -> None:
        self._session: Optional[ctypes.c_void_p] = None
        self._process = os.getpid()
        self._lock = threading.RLock()
        if beside is not None and not isinstance(beside, Session):
            raise Error(EXIT_USAGE, f"beside is a Session, not {type(beside).__name__}")
        if world is not None and not isinstance(world, World):
            raise Error(EXIT_USAGE, f"world is an autopar.World, not {type(world).__name__}")
        self._lock = beside._lock if beside is not None else threading.RLock()  # a collected session closes within
        if on_nan not in ("stop", "skip"):
            raise Error(EXIT_USAGE, f"on_nan is 'stop' or 'skip', not {on_nan!r}")
        if not _is_number(threads, 0, MOST_THREADS):
            raise Error(EXIT_USAGE, f"threads is a whole number from 0 to {MOST_THREADS}, not {threads!r}")
        if not isinstance(initializer, (str, bytes, os.PathLike)):
            raise Error(EXIT_USAGE, f"initializer is a text such as '*=normal(0.02)' or a .safetensors file, '' for the model's own, not {initializer!r}")
        self._library = runtime_library.load()
        with beside._opened() if beside is not None else contextlib.nullcontext() as other:
            self._session = runtime_library.open_session(path, threads, initializer, other, world.joined() if world is not None else None)
        #: Which process of the world this is; outputs arrive at the first.
        self._process_rank, self._processes = (world.rank, world.processes) if world is not None else (0, 1)
        self._warn(self._session)
        self._library.autoparSkipNonFinite(self._session, on_nan == "skip")
        self.ranks: int = self._library.autoparWorldSize(self._session)
        #: Bytes of all ranks together: allocated here, and used of what the session beside this one holds.
        self.own_bytes: int = self._library.autoparOwnBytes(self._session)
        self.shared_bytes: int = self._library.autoparSharedBytes(self._session)
        self.inputs = [port._replace(least=self._extents(self._library.autoparInputLeast, index, port),
                                     step=self._extents(self._library.autoparInputStep, index, port))
                       for index, port in enumerate(self._ports(self._library.autoparInputCount, self._library.autoparInput))]
        self.outputs = self._ports(self._library.autoparOutputCount, self._library.autoparOutput)
        self.states = self._ports(self._library.autoparStateCount, self._library.autoparState)

    def run(self, inputs: Mapping[str, np.ndarray], *, steps: int = 1, everywhere: bool = True) -> Dict[str, np.ndarray]:
        """Runs `steps` steps on the inputs, which must have the program's types and shapes; outputs of the last step.

        Dimensions that were bound to a range have any extent within it, the same in all inputs, and so do they in the outputs.
        everywhere: of a world of several processes each gets the outputs; otherwise the first does, and the others get none.
        """
        if not _is_number(steps, 1, MOST_STEPS):
            raise Error(EXIT_USAGE, f"steps is a whole number from 1 to {MOST_STEPS}, not {steps!r}")
        arrays = self._arrays(inputs)
        with self._opened() as session:
            self._set_inputs(session, arrays)
            runtime_library.check(self._library.autoparRun(session, steps))
            if not everywhere and self._process_rank != 0:
                return {}
            outputs = {port.name: self._output(session, index, port) for index, port in enumerate(self.outputs)}
            for array in outputs.values() if everywhere else ():
                self._broadcast(session, array)
            return outputs

    def broadcast(self, array: np.ndarray) -> None:
        """Gives every process of the world what the first has in the array, of one type and shape everywhere."""
        with self._opened() as session:
            self._broadcast(session, array)

    def _broadcast(self, session: ctypes.c_void_p, array: np.ndarray) -> None:
        if not isinstance(array, np.ndarray) or array.dtype.hasobject or not array.flags.c_contiguous or not array.flags.writeable:
            raise Error(EXIT_USAGE, "broadcast takes an array of numbers that is contiguous and may be written")
        if self._processes > 1:
            runtime_library.check(self._library.autoparBroadcast(session, array.ctypes.data, array.nbytes))

    def evaluate(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, float]:
        """"loss" of a training step on the inputs, and the metrics that it was compiled with; neither parameters nor state change."""
        arrays = self._arrays(inputs)
        with self._opened() as session:
            self._set_inputs(session, arrays)
            values = (ctypes.c_double * max(1, self._library.autoparEvaluatedCount(session)))()
            runtime_library.check(self._library.autoparEvaluate(session, values))
            return {self._library.autoparEvaluated(session, index).decode(): value for index, value in enumerate(values)}

    def load_weights(self, initializer: Path) -> None:
        """Parameters as if the session had been opened with this initializer, such as a .safetensors file of a training; caches and other
        state stay. Of sessions beside each other the first is loaded first: the others have its parameters where they share them, and
        their own once they are loaded too. Error 65 where the program trains its parameters."""
        with self._opened() as session:
            runtime_library.check(self._library.autoparLoadWeights(session, runtime_library.path_bytes(initializer)))
            self._warn(session)

    def _warn(self, session: ctypes.c_void_p) -> None:
        for remark in self._library.autoparRemarks(session).decode(errors="replace").splitlines():
            warnings.warn(f"initializer: {remark}", stacklevel=3)

    def set_learning_rate(self, rate: float) -> None:
        """The rate of the steps to come, in place of the optimizer's; a schedule scales it."""
        if isinstance(rate, bool) or not isinstance(rate, (int, float, np.integer, np.floating)):
            raise Error(EXIT_USAGE, f"the learning rate is a number, not {rate!r}")
        try:
            number = float(rate)
        except OverflowError:
            raise Error(EXIT_USAGE, "the learning rate is larger than any float") from None
        with self._opened() as session:
            runtime_library.check(self._library.autoparSetLearningRate(session, number))

    def save_checkpoint(self, folder: Path) -> None:
        """Writes folder/step-<N>, N being the steps that were run: parameters and state, as autopar-run's --checkpoint-dir does."""
        with self._opened() as session:
            runtime_library.check(self._library.autoparSaveCheckpoint(session, runtime_library.path_bytes(folder)))

    def load_checkpoint(self, folder: Path) -> Optional[int]:
        """Goes on from the newest whole checkpoint, written on any plan and number of ranks. How many steps it has; None: there is none."""
        step = ctypes.c_int64()
        with self._opened() as session:
            runtime_library.check(self._library.autoparLoadCheckpoint(session, runtime_library.path_bytes(folder), ctypes.byref(step)))
        return step.value if step.value >= 0 else None

    def export(self, path: Path, *, averages: bool = False) -> None:
        """Writes the trained parameters, whole and under the model's names (of torch's linears the source's), to a .safetensors file.

        averages: their moving averages instead, which an optimizer with ema=0.999 keeps.
        """
        write = self._library.autoparExportAverages if averages else self._library.autoparExport
        with self._opened() as session:
            runtime_library.check(write(session, runtime_library.path_bytes(path)))

    def state(self, name: str) -> np.ndarray:
        """A copy of what lasts from step to step, whole: a trained parameter, a moment of the optimizer, a carried cache."""
        array = np.empty(*self._state_port(name))
        with self._opened() as session:
            runtime_library.check(self._library.autoparGetState(session, name.encode(), array.ctypes.data, array.nbytes))
        return array

    def set_state(self, name: str, value: np.ndarray) -> None:
        """Puts an array of the state's type and shape in its place, on all ranks."""
        self._state_port(name)
        array = self._arrays({name: value})[name]
        with self._opened() as session:
            self._set(self._library.autoparSetState, session, name, array)

    def shares_state(self, name: str) -> bool:
        """Whether a state is that of the session beside this one, so that each sees what the other makes of it."""
        with self._opened() as session:
            return bool(self._library.autoparSharesState(session, name.encode()))

    def close(self) -> None:
        """Frees the session's memory, once what other threads run in it is done; closing twice is allowed."""
        if self._process != os.getpid():
            return  # the parent's, whose threads a fork leaves behind
        with self._lock:
            if self._session is not None:
                self._library.autoparClose(self._session)
                self._session = None

    def __enter__(self) -> "Session":
        with self._opened():
            return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise Error(EXIT_USAGE, "a session is neither copied nor pickled; open the artifact again")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[ctypes.c_void_p]:
        """The session, for this thread alone."""
        if self._process != os.getpid():
            raise Error(EXIT_USAGE, f"the session was opened by process {self._process} before it forked; open the artifact in this one")
        with self._lock:
            if self._session is None:
                raise Error(EXIT_USAGE, "the session is closed; open the artifact again")
            yield self._session

    def _arrays(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """In rows and in this machine's order of bytes."""
        if not isinstance(inputs, Mapping):
            raise Error(EXIT_USAGE, f"inputs are arrays by name, such as {{'{self.inputs[0].name if self.inputs else 'x'}': array}}, not {type(inputs).__name__}")
        for name in inputs:
            if not isinstance(name, str) or "\0" in name:
                raise Error(EXIT_USAGE, f"inputs are arrays by name; {name!r} is no name")
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        return {name: np.asarray(array, array.dtype.newbyteorder("="), "C") for name, array in arrays.items()}

    def _set_inputs(self, session: ctypes.c_void_p, arrays: Dict[str, np.ndarray]) -> None:
        for name, array in arrays.items():
            self._set(self._library.autoparSetInput, session, name, array)
        missing = [port.name for port in self.inputs if port.name not in arrays]
        if missing:
            raise Error(element_types.EXIT_BAD_INPUT, f"no value for input{'s' if len(missing) > 1 else ''} {', '.join(missing)}")

    @staticmethod
    def _set(function: "ctypes._FuncPointer", session: ctypes.c_void_p, name: str, array: np.ndarray) -> None:
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        runtime_library.check(function(
            session, name.encode(errors="replace"), element_types.from_numpy(array.dtype, name), array.ndim, shape, array.ctypes.data))

    def _state_port(self, name: str) -> Tuple[Tuple[int, ...], np.dtype]:
        for port in self.states:
            if port.name == name:
                return port.shape, port.dtype
        names = ", ".join(port.name for port in self.states)
        raise Error(element_types.EXIT_BAD_INPUT, f"there is no state {name!r}; " + (f"the states are {names}" if names else
                    "this program keeps nothing from step to step: compile it with --train or --carry"))

    def _extents(self, function: "ctypes._FuncPointer", index: int, port: Port) -> Tuple[int, ...]:
        extents = (ctypes.c_int64 * max(1, len(port.shape)))()
        runtime_library.check(function(self._session, index, extents))
        return tuple(extents[: len(port.shape)])

    def _output(self, session: ctypes.c_void_p, index: int, port: Port) -> np.ndarray:
        """At the first process of a world; elsewhere an array to be filled."""
        array = np.empty(self._extents(self._library.autoparOutputShape, index, port), port.dtype)
        if self._process_rank == 0:
            runtime_library.check(
                self._library.autoparGetOutput(session, port.name.encode(), array.ctypes.data, array.nbytes))
        return array

    def _ports(self, count: "ctypes._FuncPointer", describe: "ctypes._FuncPointer") -> List[Port]:
        ports = []
        for index in range(count(self._session)):
            tensor = runtime_library.Tensor()
            runtime_library.check(describe(self._session, index, ctypes.byref(tensor)))
            shape = tuple(tensor.shape[axis] for axis in range(tensor.rank))
            ports.append(Port(tensor.name.decode(), element_types.to_numpy(tensor.dtype), shape))
        return ports


def load(path: Path, *, threads: int = 0, initializer: str = "", on_nan: str = "stop", beside: Optional[Session] = None,
         world: Optional[World] = None) -> Session:
    """Opens an artifact; the same as Session(path, ...)."""
    return Session(path, threads=threads, initializer=initializer, on_nan=on_nan, beside=beside, world=world)
