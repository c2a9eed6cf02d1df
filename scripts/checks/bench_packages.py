# SPDX-License-Identifier: Apache-2.0
"""Latency of trained networks that packages on PyPI carry, against onnxruntime: as scripts/bench inference measures."""

import pathlib
import tempfile
from typing import Any, Dict, Iterator

from . import bench_inference, package_models


def cases() -> Iterator[Dict[str, Any]]:
    """One case per network."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for model in package_models.packages(pathlib.Path(folder)):
            yield bench_inference.compare(model, folder)[0]
