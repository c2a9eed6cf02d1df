# SPDX-License-Identifier: Apache-2.0
"""One model for the CPU and for CUDA, run by the same program; the GPU is the emulated one of the build."""

import os
import pathlib
import subprocess
from typing import Dict, List

import numpy as np

import autopar
from autopar.tools import find_tool

LIBRARIES = pathlib.Path(__file__).parents[2] / "build" / "unittests" / "EmulatedCuda"


def run(artifact: pathlib.Path, inputs: Dict[str, np.ndarray], folder: pathlib.Path, *options: str) -> Dict[str, np.ndarray]:
    """What autopar-run writes for all outputs."""
    folder.mkdir(parents=True)
    arguments: List[str] = []
    for name, values in inputs.items():
        np.save(folder / f"in-{name}.npy", values)
        arguments += ["--input", f"{name}={folder}/in-{name}.npy"]
    done = subprocess.run(
        [str(find_tool("autopar-run")), str(artifact), *arguments, "--output-dir", str(folder), "--quiet", *options],
        env=dict(os.environ, AUTOPAR_CUDA_LIBRARIES=str(LIBRARIES)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {path.stem: np.load(path) for path in folder.glob("*.npy") if not path.stem.startswith("in-")}


def on_both(model: pathlib.Path, folder: pathlib.Path, inputs: Dict[str, np.ndarray], steps: int = 1, **compiling) -> Dict[str, Dict[str, np.ndarray]]:
    """Outputs by target."""
    results = {}
    options = compiling.pop("options", [])
    for target in ("cpu", "cuda"):
        artifact = folder / f"{target}.bin"
        autopar.compile(model, artifact, options=["--quiet", "--target", target, *options], **compiling)
        results[target] = run(artifact, inputs, folder / target, "--steps", str(steps))
    return results


def assert_alike(results: Dict[str, Dict[str, np.ndarray]], relative: float) -> None:
    assert results["cuda"].keys() == results["cpu"].keys()
    for name, expected in results["cpu"].items():
        scale = np.abs(expected).max()
        np.testing.assert_allclose(results["cuda"][name].astype(np.float64), expected.astype(np.float64), rtol=relative, atol=relative * scale, err_msg=name)
