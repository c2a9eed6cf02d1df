# SPDX-License-Identifier: Apache-2.0
"""What the machine has of NVIDIA's libraries, and how programs say that it lacks something."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import List, Optional

#: What a machine lacks is no failure of what is checked.
LACKING = re.compile(r"[^\n]*(is too old|needs cuDNN|is missing[^\n]*libnccl\.so\.2|Device not supported)[^\n]*")
#: Where machines keep NVIDIA's programs that do not name the place.
PROGRAM_FOLDERS = "/usr/local/cuda/bin:/usr/local/nvidia/bin"


def first_lines(text: str) -> str:
    return " ".join(text.split())[:300]


def lacking(text: str) -> str:
    """What the machine does not have, in the words of what wanted it; empty where it said no such thing."""
    found = LACKING.search(text)
    return first_lines(found[0]) if found else ""


def library_folders() -> List[str]:
    """Where NVIDIA's libraries lie: in this Python's packages (nvidia/cu13/lib of CUDA 13, nvidia/cublas/lib of CUDA 12), then in a toolkit and beside the driver."""
    packages = [pathlib.Path(entry) / "nvidia" for entry in sys.path if entry]
    found = [str(folder) for package in packages for folder in sorted(package.glob("*/lib"))]
    return found + [folder for folder in ("/usr/local/cuda/lib64", "/usr/local/nvidia/lib64") if os.path.isdir(folder)]


def program(name: str) -> Optional[str]:
    """Where one of NVIDIA's programs is; None where it is not."""
    return shutil.which(name) or shutil.which(name, path=PROGRAM_FOLDERS)


def ask_driver(tool: str, *query: str) -> List[List[str]]:
    """The lines of an answer of nvidia-smi; none where it does not answer."""
    try:
        said = subprocess.run([tool, *query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    return [[word.strip() for word in line.split(",")] for line in said.splitlines()]


class DriverMemory:
    """How much of the first GPU all programs use, asked of the driver where nvidia-smi is not; its context here is there from the beginning."""

    def __init__(self) -> None:
        self.driver = None
        context, device = ctypes.c_void_p(), ctypes.c_int()
        try:
            driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return
        if not (driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
                or driver.cuCtxSetCurrent(context)):
            self.driver = driver

    def used_mib(self) -> Optional[int]:
        """None where there is no driver."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        if not self.driver or self.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
            return None
        return (total.value - free.value) >> 20


def has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
