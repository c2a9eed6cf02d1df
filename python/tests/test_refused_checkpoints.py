# SPDX-License-Identifier: Apache-2.0
"""What a run refuses to go on from, and what it says: a checkpoint of another model, or of samples in another order."""

import pathlib
import subprocess
from typing import List

import pytest
import small_gpt2

import autopar


def train(artifact: pathlib.Path, folder: pathlib.Path, steps: int, *more: str) -> "subprocess.CompletedProcess[str]":
    words: List[object] = [autopar.find_tool("autopar-run"), artifact, "--data", f"synthetic(vocab={small_gpt2.VOCAB})", "--steps", steps,
                           "--checkpoint-dir", folder, "--quiet", *more]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("narrow")
    return small_gpt2.compile_step(small_gpt2.save(folder, layers=1), folder / "narrow.bin", 1, 1)


@pytest.fixture(scope="module")
def kept(program: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Its checkpoint after a step."""
    folder = tmp_path_factory.mktemp("kept")
    done = train(program, folder, 1, "--seed", "3")
    assert done.returncode == 0, done.stderr
    return folder


def test_a_checkpoint_of_a_wider_model_is_named_with_both_shapes(kept: pathlib.Path, tmp_path: pathlib.Path) -> None:
    wide = small_gpt2.compile_step(small_gpt2.save(tmp_path, layers=1, hidden=64), tmp_path / "wide.bin", 1, 1)
    done = train(wide, kept, 2, "--seed", "3")
    assert done.returncode == 65, done
    assert f"{kept}/step-00000001 is a checkpoint of another model or optimizer: tensor " in done.stderr, done.stderr
    assert "32]" in done.stderr and ", the program's is " in done.stderr and "64]" in done.stderr


def test_samples_do_not_come_in_another_order_than_before(program: pathlib.Path, kept: pathlib.Path) -> None:
    done = train(program, kept, 2, "--seed", "4")
    assert done.returncode == 65, done
    assert "step-00000001 was written with --seed 3; the samples would come in another order with --seed 4" in done.stderr
