# SPDX-License-Identifier: Apache-2.0
"""Training with Debian's PyTorch (which scripts/install-packages brings), for tests that compare with it."""

import json
import pathlib
import subprocess
from typing import Dict, List

import numpy as np
import onnx
from onnx import numpy_helper

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "checks" / "train_with_torch.py"


def losses(path: pathlib.Path, folder: pathlib.Path, batches: Dict[str, np.ndarray], **settings: object) -> List[float]:
    """The losses of the steps from the model file's weights; `batches` hold one entry per step."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    weights = {name: value for name, value in weights.items() if value.dtype == np.float32 and value.ndim > 0}
    np.savez(folder / "run.npz", settings=json.dumps(settings), **weights,
             **{f"batch/{name}": values for name, values in batches.items()})
    done = subprocess.run([SCRIPT, folder / "run.npz"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["losses"]
