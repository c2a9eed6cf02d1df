# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-pack and scripts/gpu-check, against the emulated GPU, so that they are whole when a real one is at hand."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import List

import numpy as np
import pytest

from emulated_cuda import LIBRARIES

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("pack") / "gpu"
    done = subprocess.run([SCRIPTS / "gpu-pack", folder, "--no-speed"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def check(folder: pathlib.Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    libraries = os.path.relpath(LIBRARIES)  # from here, although programs run in the folder
    return subprocess.run([sys.executable, SCRIPTS / "gpu-check", folder, "--cuda-libraries", libraries], capture_output=True, text=True,
                          env=dict(os.environ, **environment))


def rows(text: str) -> List[str]:
    return [line for line in text.splitlines() if line.startswith(("ok ", "FAILED ", "not there "))]


def test_all_rows_hold_and_what_cannot_be_measured_says_why(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """For speed a small model in place of the large ones; neither PyTorch nor NVIDIA's tools are to be found."""
    folder = tmp_path / "gpu"
    shutil.copytree(packed, folder)
    cases = json.loads((packed / "cases.json").read_text())["cases"]
    arguments = next(case for case in cases if case["name"] == "gpt2")["arguments"]
    timing = {"name": "small", "artifact": "gpt2/1.bin", "tokens": 128, "arguments": [*arguments[:2], "--input", "input_ids=random"], "torch": ["none"] * 5}
    (folder / "cases.json").write_text(json.dumps({"cases": cases, "speed": [timing]}))
    done = check(folder, PATH=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line for line in rows(done.stdout) if line.startswith("ok ")]
    assert len([line for line in names if "conformance" in line]) == 5
    assert any("NCCL, world size 1 only" in line and "7 tests" in line for line in names)
    assert len([line for line in names if " numerics " in line]) == len(cases) >= 15
    assert any("4 ranks on one GPU" in line for line in names)
    assert any("small: " in line and " ms a step, " in line and "a captured step" in line for line in names), done.stdout
    missing = [line for line in rows(done.stdout) if line.startswith("not there ")]
    assert any("small, PyTorch beside it: not measured: " in line for line in missing), done.stdout
    assert any("small: not measured: nvidia-smi was not found" in line for line in missing), done.stdout


def test_another_result_is_a_failure(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "gpu"
    shutil.copytree(packed, folder)
    logits = folder / "gpt2" / "expected" / "logits.npy"
    values = np.load(logits)
    values.flat[3] += 0.01 * np.abs(values).max()
    np.save(logits, values)
    (folder / "resnet" / "1.bin").write_bytes(b"no artifact")
    done = check(folder)
    assert done.returncode == 1
    failed = [line for line in rows(done.stdout) if line.startswith("FAILED")]
    assert [line.split()[2].rstrip(":,") for line in failed] == ["gpt2", "gpt2", "resnet"], done.stdout
