# SPDX-License-Identifier: Apache-2.0
"""Planning takes time in proportion to a model's layers: no pass goes through the whole graph for each of its operations."""

import pathlib
import resource
import subprocess

from autopar import models
from autopar.tools import find_tool


def planning_time(folder: pathlib.Path, layers: int) -> float:
    """Processor time in seconds, to which waiting for a core does not add."""
    model = folder / f"{layers}.onnx"
    models.save("gpt2-124m", model, weights=False, layers=layers, hidden=64, heads=2, vocab=128, positions=32)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([find_tool("autopar-compile"), model, "--bind", "batch=8,seq=32", "--cluster", "presets:h100x8", "--mesh", "data=8",
                    "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-3)",
                    "--stop-after", "plan-memory", "-o", "/dev/null", "--quiet"], check=True, timeout=300)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def test_four_times_the_layers_take_about_four_times_as_long(tmp_path: pathlib.Path) -> None:
    """It is 3.3 to 4 times; a walk over the function for each operation in a single pass, JoinProducts, makes it more than 8."""
    few, many = planning_time(tmp_path, 64), planning_time(tmp_path, 256)
    assert many < 6 * few, f"64 layers take {few:.2f} s, 256 layers {many:.2f} s"
