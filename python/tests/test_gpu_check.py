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


def check(folder: pathlib.Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    libraries = os.path.relpath(LIBRARIES)  # from here, although programs run in the folder
    return subprocess.run([sys.executable, SCRIPTS / "gpu-check", folder, "--cuda-libraries", libraries, *options], capture_output=True, text=True,
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


def test_what_cannot_be_run_or_has_no_time_hides_nothing_behind_it(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """An output of another shape ends its part alone; the folder is not written to; once time is up every row is still there."""
    folder = tmp_path / "gpu"
    shutil.copytree(packed, folder)
    cases = json.loads((packed / "cases.json").read_text())["cases"]
    np.save(folder / "gpt2" / "expected" / "logits.npy", np.zeros(7, np.float32))
    (folder / "cases.json").write_text(json.dumps({"cases": cases[:3], "speed": []}))
    before = sorted(folder.rglob("*"))
    done = check(folder)
    assert done.returncode == 1
    assert sorted(folder.rglob("*")) == before
    assert [line.split()[0] for line in rows(done.stdout) if " numerics " in line] == ["FAILED", "FAILED", "ok"], done.stdout
    assert "ValueError: operands could not be broadcast" in done.stdout
    late = check(folder, "--limit", "1")
    assert late.returncode == 0, late.stdout + late.stderr
    assert len([line for line in rows(late.stdout) if line.endswith("not measured: no time was left")]) >= 7, late.stdout


def test_libraries_lie_in_packages(tmp_path: pathlib.Path) -> None:
    """Of CUDA 13 all in one folder but cuDNN and NCCL, of CUDA 12 each in one of its own."""
    for name in ("cu13", "cudnn", "nccl", "cublas", "cuda_nvrtc"):
        (tmp_path / "nvidia" / name / "lib").mkdir(parents=True)
    words = [sys.executable, "-c", "import runpy, sys; print(runpy.run_path(sys.argv[1])['library_folders']())", SCRIPTS / "gpu-check"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ, PYTHONPATH=str(tmp_path))).stdout
    for name in ("cu13", "cudnn", "nccl", "cublas", "cuda_nvrtc"):
        assert str(tmp_path / "nvidia" / name / "lib") in said
