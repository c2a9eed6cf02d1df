# SPDX-License-Identifier: Apache-2.0
"""Finds the native parts: commands (autopar-compile, ...) and the runtime library.

Looked for in this order: AUTOPAR_BIN / AUTOPAR_LIB, the build folder of the clone that this package stands in, the folder
of an installation that this package stands in, PATH / the loader's path.
"""

import os
import pathlib
import shutil
from typing import List

from .errors import Error

_PACKAGE = pathlib.Path(__file__).resolve().parent
EXIT_MISSING = 69


def _candidates(variable: str, folder: str) -> List[pathlib.Path]:
    """The folders to look in: named by the environment, of the clone, of the installation prefix."""
    named = [pathlib.Path(os.environ[variable])] if os.environ.get(variable) else []
    return named + [_PACKAGE.parents[1] / "build" / folder] + [parent / folder for parent in _PACKAGE.parents[1:5]]


def find_tool(name: str) -> pathlib.Path:
    """The path of the command `name`; Error 69 when it is not there."""
    for folder in _candidates("AUTOPAR_BIN", "bin"):
        if os.access(folder / name, os.X_OK) and (folder / name).is_file():
            return folder / name
    found = shutil.which(name)
    if found:
        return pathlib.Path(found)
    raise Error(EXIT_MISSING, f"{name} was not found; build it (cmake --preset default && cmake --build build) "
                              "or set AUTOPAR_BIN to the folder that holds it")


def find_library(name: str) -> str:
    """The path of the shared library file `name`, or its bare name for the loader's own search."""
    for folder in _candidates("AUTOPAR_LIB", "lib"):
        if (folder / name).is_file():
            return str(folder / name)
    return name
