# SPDX-License-Identifier: Apache-2.0
"""Finds the native parts: commands (autopar-compile, ...) and the runtime library.

Looked for in this order: AUTOPAR_BIN / AUTOPAR_LIB, within this package (`pip install`), the build folder of the clone that
this package stands in, the folder of an installation that it stands in, PATH / the loader's path.
"""

import os
import pathlib
import shutil
import sys
from typing import List, Sequence, Union

from .errors import Error

_PACKAGE = pathlib.Path(__file__).resolve().parent
EXIT_MISSING = 69


def _candidates(variable: str, folder: str) -> List[pathlib.Path]:
    """The folders to look in: named by the environment, of this package, of the clone, of the installation prefix."""
    named = [pathlib.Path(os.environ[variable])] if os.environ.get(variable) else []
    return named + [_PACKAGE / folder, _PACKAGE.parents[1] / "build" / folder] + [parent / folder for parent in _PACKAGE.parents[1:5]]


def find_tool(name: str) -> pathlib.Path:
    """The path of the command `name`; Error 69 when it is not there."""
    for folder in _candidates("AUTOPAR_BIN", "bin"):
        file = folder / name
        if os.access(file, os.X_OK) and file.is_file() and not _is_this_script(file):
            return file
    found = shutil.which(name)
    if found and not _is_this_script(found):
        return pathlib.Path(found)
    raise Error(EXIT_MISSING, f"{name} was not found; build it (cmake --preset default && cmake --build build) "
                              "or set AUTOPAR_BIN to the folder that holds it")


def _is_this_script(path: Union[str, pathlib.Path]) -> bool:
    """Whether it is what runs now, which must not become itself for ever where the native command is not there."""
    return os.path.realpath(path) == os.path.realpath(sys.argv[0])


def become(name: str, arguments: Sequence[str]) -> int:
    """Goes on as the command `name`; returns only where it is not there, the code of the error that was printed."""
    try:
        tool = str(find_tool(name))
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    os.execv(tool, [tool, *arguments])


def run_command() -> int:
    """What the scripts of an installed package do: each becomes the command of its own name."""
    return become(pathlib.Path(sys.argv[0]).name, sys.argv[1:])


def find_library(name: str) -> str:
    """The path of the shared library file `name`, or its bare name for the loader's own search."""
    for folder in _candidates("AUTOPAR_LIB", "lib"):
        if (folder / name).is_file():
            return str(folder / name)
    return name
