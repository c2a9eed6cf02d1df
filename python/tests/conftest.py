# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the package on the path and a small gpt2 with the values onnxruntime gives."""

import os
import pathlib
import sys
from typing import Dict, NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import time_limit  # noqa: E402
from autopar import models  # noqa: E402

BATCH, SEQ, VOCAB = 4, 16, 500

# Tests share the cores: a thread that waits awake for the next call of a small model takes the time of another test.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(time_limit)


class Example(NamedTuple):
    """A model file, its open dimensions, an input and the reference output."""

    path: pathlib.Path
    bind: Dict[str, int]
    inputs: Dict[str, np.ndarray]
    expected: Dict[str, np.ndarray]


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Example:
    """gpt2 with two layers, as onnxruntime runs it."""
    import onnxruntime

    path = tmp_path_factory.mktemp("gpt2") / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=2, hidden=64, heads=4, vocab=VOCAB)
    inputs = {"input_ids": np.random.default_rng(0).integers(0, VOCAB, (BATCH, SEQ)).astype(np.int64)}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))
    return Example(path, {"batch": BATCH, "seq": SEQ}, inputs, expected)
