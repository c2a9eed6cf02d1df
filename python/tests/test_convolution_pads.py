# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose pads are as wide as their windows, with what is fused behind them, against onnxruntime."""

import pathlib
from typing import List, Tuple

import numpy as np
import onnxruntime
import pytest

import autopar

from varying import graph, node


@pytest.mark.parametrize("channels", [(4, 8), (4, 9), (16, 24)])
@pytest.mark.parametrize("kernel,pads", [((2, 3), [0, 0, 2, 0]), ((2, 3), [2, 0, 0, 0]), ((2, 2), [0, 2, 0, 0]), ((3, 3), [3, 1, 3, 1])])
def test_windows_of_pads_alone_have_bias_and_residual(tmp_path: pathlib.Path, channels: Tuple[int, int], kernel: Tuple[int, int], pads: List[int]) -> None:
    random = np.random.default_rng(0)
    taken, given = channels
    shape = [2, given, 11 + pads[0] + pads[2] - kernel[0] + 1, 8 + pads[1] + pads[3] - kernel[1] + 1]
    model = graph(tmp_path, [node("Conv", ["x", "w", "b"], "c", pads=pads), node("Add", ["c", "q"], "y")], {"x": [2, taken, 11, 8], "q": shape}, ["y"],
                  {"w": random.standard_normal((given, taken, *kernel)).astype(np.float32), "b": random.standard_normal(given).astype(np.float32)})
    inputs = {"x": random.standard_normal((2, taken, 11, 8)).astype(np.float32), "q": random.standard_normal(shape).astype(np.float32)}
    expected, = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, inputs)
    autopar.compile(model, tmp_path / "g.bin", options=["--quiet"])
    with autopar.Session(tmp_path / "g.bin") as session:
        np.testing.assert_allclose(session.run(inputs)["y"], expected, rtol=1e-4, atol=1e-4)
