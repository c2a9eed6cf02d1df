# SPDX-License-Identifier: Apache-2.0
"""`scripts/onnx-backend`: what it takes for equal, and what it makes of a list that is of another suite."""

import pathlib
import subprocess
import sys
from typing import List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from checks import backend_cases, onnx_backend  # noqa: E402

HALF = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)


def fault(steps: List[str], x: np.ndarray, expected: np.ndarray, actual: np.ndarray) -> bool:
    """Whether `actual` is judged wrong as the result of a chain of operators in bfloat16."""
    names = ["x", *(f"t{i}" for i in range(1, len(steps))), "y"]
    nodes = [helper.make_node(step, names[i:i + 1], names[i + 1:i + 2]) for i, step in enumerate(steps)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.BFLOAT16, x.shape)  # noqa: E731
    model = helper.make_model(helper.make_graph(nodes, "g", [value("x")], [value("y")]))
    values = backend_cases.Values({"x": x.astype(HALF)}, {"y": expected.astype(HALF)})
    return onnx_backend.find_fault(model, values, {"y": actual.astype(HALF)}) is not None


def test_half_that_is_as_in_f64_is_equal() -> None:
    """exp(exp(x)) rounded between its steps, which is the suite's, against the same rounded once."""
    x = np.linspace(0.5, 1.6, 64).astype(HALF).astype(np.float64)
    exact = np.exp(np.exp(x))
    stepwise = np.exp(np.exp(x).astype(HALF).astype(np.float64))
    assert (np.abs(exact.astype(HALF).astype(np.float64) - stepwise) > 2.0**-7 * stepwise).any()  # beyond one unit
    assert not fault(["Exp", "Exp"], x, stepwise, exact)
    assert fault(["Exp", "Exp"], x, exact, stepwise)  # the suite's is the right one
    for wrong in (1.03, 0.97, np.nan, np.inf):
        for place in (0, 31, 63):
            actual = exact.copy()
            actual[place] *= wrong
            assert fault(["Exp", "Exp"], x, stepwise, actual)


@pytest.mark.parametrize("suite, status, told", [
    (f"onnx {onnx.__version__}", 1, "LOST node/test_no_abs: no such test in the data"),
    ("onnx 1.1.1", 0, "OTHER node/test_no_abs: no such test in the data")])
def test_list_of_another_version_is_told_only(suite: str, status: int, told: str, tmp_path: pathlib.Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text(f"# Tests of {suite} that pass on one rank.\nnode/test_abs\nnode/test_no_abs\n")
    done = subprocess.run([ROOT / "scripts" / "onnx-backend", "--installed", "--filter", "^node/test_(no_)?abs$", "--listed", listed],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stdout + done.stderr
    assert told in done.stdout.splitlines()
    assert ("list.txt is of onnx 1.1.1" in done.stdout) == (status == 0)
    assert "passed 1, random 0, refused 0, wrong 0" in done.stdout
