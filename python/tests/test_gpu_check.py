# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-pack and scripts/gpu-check, against the emulated GPU, so that they are whole when a real one is at hand."""

import json
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


def check(folder: pathlib.Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, SCRIPTS / "gpu-check", folder, "--cuda-libraries", LIBRARIES], capture_output=True, text=True)


def rows(text: str) -> List[str]:
    return [line for line in text.splitlines() if line.startswith(("ok ", "FAILED ", "not there "))]


def test_all_rows_hold(packed: pathlib.Path) -> None:
    done = check(packed)
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line for line in rows(done.stdout) if line.startswith("ok ")]
    assert len([line for line in names if "conformance" in line]) == 3
    assert any("NCCL, world size 1 only" in line and "7 tests" in line for line in names)
    cases = json.loads((packed / "cases.json").read_text())["cases"]
    assert len([line for line in names if " numerics " in line]) == len(cases) >= 8
    assert any("4 ranks on one GPU" in line for line in names)


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
