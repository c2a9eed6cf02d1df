# SPDX-License-Identifier: Apache-2.0
"""The C interface of the runtime (include/autopar/Runtime/CApi.h) through ctypes."""

import ctypes
import functools
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_void_p
from typing import Optional, Union

from .errors import EXIT_USAGE, Error
from .tools import find_library

FILE = "libautopar_runtime.so"
API_VERSION = 8
EXIT_MISSING = 69
EXIT_MISMATCH = 78


class Tensor(ctypes.Structure):
    """AutoParTensor."""

    _fields_ = [("name", c_char_p), ("dtype", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64)), ("bytes", c_int64)]


class Options(ctypes.Structure):
    """AutoParOptions."""

    _fields_ = [("threads", c_int32), ("initializer", c_char_p), ("beside", c_void_p), ("world", c_void_p)]


_SESSION = c_void_p
_WORLD = c_void_p
_SIGNATURES = {
    "autoparApiVersion": (c_int32, []),
    "autoparJoin": (c_int32, [POINTER(_WORLD)]),
    "autoparRank": (c_int32, [_WORLD]),
    "autoparProcesses": (c_int32, [_WORLD]),
    "autoparLeave": (None, [_WORLD, c_char_p]),
    "autoparOpenWith": (c_int32, [c_char_p, POINTER(Options), POINTER(_SESSION)]),
    "autoparBroadcast": (c_int32, [_SESSION, c_void_p, c_int64]),
    "autoparOwnBytes": (c_int64, [_SESSION]),
    "autoparSharedBytes": (c_int64, [_SESSION]),
    "autoparSharesState": (c_int32, [_SESSION, c_char_p]),
    "autoparRemarks": (c_char_p, [_SESSION]),
    "autoparLoadWeights": (c_int32, [_SESSION, c_char_p]),
    "autoparClose": (None, [_SESSION]),
    "autoparLastError": (c_char_p, []),
    "autoparWorldSize": (c_int32, [_SESSION]),
    "autoparInputCount": (c_int32, [_SESSION]),
    "autoparOutputCount": (c_int32, [_SESSION]),
    "autoparInput": (c_int32, [_SESSION, c_int32, POINTER(Tensor)]),
    "autoparOutput": (c_int32, [_SESSION, c_int32, POINTER(Tensor)]),
    "autoparInputLeast": (c_int32, [_SESSION, c_int32, POINTER(c_int64)]),
    "autoparInputStep": (c_int32, [_SESSION, c_int32, POINTER(c_int64)]),
    "autoparOutputShape": (c_int32, [_SESSION, c_int32, POINTER(c_int64)]),
    "autoparSetInput": (c_int32, [_SESSION, c_char_p, c_int32, c_int32, POINTER(c_int64), c_void_p]),
    "autoparRun": (c_int32, [_SESSION, c_int64]),
    "autoparSkipNonFinite": (None, [_SESSION, c_int32]),
    "autoparEvaluatedCount": (c_int32, [_SESSION]),
    "autoparEvaluated": (c_char_p, [_SESSION, c_int32]),
    "autoparEvaluate": (c_int32, [_SESSION, POINTER(c_double)]),
    "autoparSetLearningRate": (c_int32, [_SESSION, c_double]),
    "autoparSaveCheckpoint": (c_int32, [_SESSION, c_char_p]),
    "autoparLoadCheckpoint": (c_int32, [_SESSION, c_char_p, POINTER(c_int64)]),
    "autoparExport": (c_int32, [_SESSION, c_char_p]),
    "autoparExportAverages": (c_int32, [_SESSION, c_char_p]),
    "autoparGetOutput": (c_int32, [_SESSION, c_char_p, c_void_p, c_int64]),
    "autoparStateCount": (c_int32, [_SESSION]),
    "autoparState": (c_int32, [_SESSION, c_int32, POINTER(Tensor)]),
    "autoparGetState": (c_int32, [_SESSION, c_char_p, c_void_p, c_int64]),
    "autoparSetState": (c_int32, [_SESSION, c_char_p, c_int32, c_int32, POINTER(c_int64), c_void_p]),
}


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """The library with typed functions, opened once; Error 69 when it is not there, 78 when it is too old."""
    path = find_library(FILE)
    if "OMP_WAIT_POLICY" not in os.environ:  # for the pool that is loaded now: autopar/CpuMath/ThreadWait.h
        os.environ.setdefault("GOMP_SPINCOUNT", "30000")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Error(EXIT_MISSING, f"{FILE} cannot be opened ({error}); build it (cmake --build build) or set AUTOPAR_LIB "
                                  "to the folder that holds it") from None
    if library.autoparApiVersion() < API_VERSION:
        raise Error(EXIT_MISMATCH, f"{path} offers version {library.autoparApiVersion()} of the interface, this package "
                                   f"needs {API_VERSION}; build both from one tree")
    # Only now: an older library does not have them all.
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def check(code: int) -> None:
    """Raises the Error of a call that did not return 0."""
    if code != 0:
        raise Error(code, load().autoparLastError().decode(errors="replace"))


def join() -> c_void_p:
    """The world that a launcher made; left with autoparLeave."""
    world = _WORLD()
    check(load().autoparJoin(byref(world)))
    return world


def path_bytes(path: Union[str, bytes, "os.PathLike[str]"]) -> bytes:
    """For the library, which reads them up to a NUL."""
    try:
        encoded = os.fsencode(path)
    except TypeError:
        raise Error(EXIT_USAGE, f"a path is a text or a pathlib.Path, not {path!r:.80}") from None
    if b"\0" in encoded:
        raise Error(EXIT_USAGE, f"a path holds no NUL byte: {path!r:.80}")
    return encoded


def open_session(path: Union[str, bytes], threads: int, initializer: str, beside: Optional[c_void_p], world: Optional[c_void_p]) -> c_void_p:
    """An open session, beside another one or None, in a world or None; close it with autoparClose."""
    session = _SESSION()
    options = Options(threads, path_bytes(initializer) or None, beside, world)
    check(load().autoparOpenWith(path_bytes(path), byref(options), byref(session)))
    return session
