# SPDX-License-Identifier: Apache-2.0
"""The backend suite of the installed Python package onnx, which holds it as code, written out as cases on disk."""

import os
import pathlib
import shutil
import warnings
from typing import Any, Callable, Dict

import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase

from .building import BUILD

KINDS = ("node", "simple")
_WRITERS: Dict[str, Callable[[Any, str], Any]] = {
    "tensor_type": numpy_helper.from_array, "sequence_type": numpy_helper.from_list, "map_type": numpy_helper.from_dict,
    "optional_type": numpy_helper.from_optional}


def _write_case(case: TestCase, folder: pathlib.Path) -> None:
    """One test with its first data set."""
    values = folder / "test_data_set_0"
    values.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for half, infos, arrays in zip(("input", "output"), (case.model.graph.input, case.model.graph.output), case.data_sets[0]):
        for number, (info, array) in enumerate(zip(infos, arrays)):
            written = array if hasattr(array, "SerializeToString") else _WRITERS[info.type.WhichOneof("value")](array, info.name)
            (values / f"{half}_{number}.pb").write_bytes(written.SerializeToString())


def write_cases() -> pathlib.Path:
    """The folder of the suite, which is written once for each version of onnx."""
    data = BUILD / "onnx-installed" / onnx.__version__
    if data.exists():
        return data
    from onnx.backend.test.loader import load_model_tests  # computes all of them

    unfinished = data.with_name(f"{data.name}.{os.getpid()}")
    with warnings.catch_warnings():  # of NumPy, about what tests of limits compute
        warnings.simplefilter("ignore")
        for kind in KINDS:
            for case in load_model_tests(kind=kind):
                if case.model is not None:  # None: a model to download
                    _write_case(case, unfinished / kind / case.name)
    try:
        unfinished.rename(data)
    except OSError:  # another run was faster
        shutil.rmtree(unfinished)
    return data
