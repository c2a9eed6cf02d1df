# SPDX-License-Identifier: Apache-2.0
"""Assembles PTX with NVIDIA's ptxas, which needs no GPU. Each text is assembled once per chip and kept by its digest."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import tempfile
from typing import Dict, NamedTuple


class Resources(NamedTuple):
    registers: int
    stack: int
    spilled: int


def find() -> str:
    """From a CUDA toolkit, or the package that scripts/install-packages installs."""
    folders = [pathlib.Path(root) / "bin" for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda") if root]
    folders.append(pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin")
    found = shutil.which("ptxas", path=os.pathsep.join(map(str, folders)) + os.pathsep + os.environ.get("PATH", ""))
    assert found, f"no ptxas in {', '.join(map(str, folders))} or PATH: run scripts/install-packages, or set CUDA_HOME"
    return found


def assemble(ptx: str, chip: str) -> Dict[str, Resources]:
    """What each kernel takes on `chip` (sm_90); fails with the assembler's words."""
    ptxas = find()
    stamp = f"{chip}\n{os.stat(ptxas).st_size}\n{ptx}"
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "autopar-ptxas"
    kept = cache / hashlib.sha256(stamp.encode()).hexdigest()
    if not kept.exists():
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "kernels.ptx"
            source.write_text(ptx)
            done = subprocess.run([ptxas, f"-arch={chip}", "-v", source, "-o", source.with_suffix(".cubin")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cache.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(done.stderr)
        part.replace(kept)
    resources = {}
    for name, report in re.findall(r"Compiling entry function '(\w+)'.*?\n(.*?Used \d+ registers)", kept.read_text(), re.S):
        number = lambda what: sum(map(int, re.findall(rf"(\d+) {what}", report)))  # noqa: E731
        resources[name] = Resources(int(re.search(r"Used (\d+) registers", report)[1]), number("bytes stack frame"),
                                    number("bytes spill stores") + number("bytes spill loads"))
    return resources
