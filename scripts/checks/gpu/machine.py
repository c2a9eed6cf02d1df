# SPDX-License-Identifier: Apache-2.0
"""What the machine has of NVIDIA's libraries, and how programs say that it lacks something."""

import ctypes
import os
import pathlib
import re
import sys
from typing import List

#: What a machine lacks is no failure of what is checked.
LACKING = re.compile(r"[^\n]*(is too old|needs cuDNN|is missing[^\n]*libnccl\.so\.2)[^\n]*")


def first_lines(text: str) -> str:
    return " ".join(text.split())[:300]


def lacking(text: str) -> str:
    """What the machine does not have, in the words of what wanted it; empty where it said no such thing."""
    found = LACKING.search(text)
    return first_lines(found[0]) if found else ""


def library_folders() -> List[str]:
    """Where NVIDIA's libraries lie: in this Python's packages (nvidia/cu13/lib of CUDA 13, nvidia/cublas/lib of CUDA 12), or else in a toolkit."""
    packages = [pathlib.Path(entry) / "nvidia" for entry in sys.path if entry]
    found = [str(folder) for package in packages for folder in sorted(package.glob("*/lib"))]
    return found or [folder for folder in ("/usr/local/cuda/lib64", "/usr/local/nvidia/lib64") if os.path.isdir(folder)]


def has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
