# SPDX-License-Identifier: Apache-2.0
"""NumPy dtypes for the artifact's element types; the numbers are those of include/autopar/Base/DataType.h."""

from typing import Dict

import numpy as np

from .errors import Error

BFLOAT16 = 10
_NUMBERS: Dict[int, str] = {
    0: "bool", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "uint8", 6: "uint16", 7: "uint32", 8: "uint64",
    9: "float16", BFLOAT16: "bfloat16", 11: "float32", 12: "float64",
}
_BY_NAME = {name: number for number, name in _NUMBERS.items()}
EXIT_BAD_INPUT = 65
EXIT_MISSING = 69


def to_numpy(number: int) -> np.dtype:
    """The NumPy dtype; bfloat16 is an extension type of the package ml_dtypes (which onnx brings along)."""
    if number != BFLOAT16:
        return np.dtype(_NUMBERS[number])
    try:
        import ml_dtypes
    except ImportError:
        raise Error(EXIT_MISSING, "bfloat16 arrays need the Python package ml_dtypes; install it") from None
    return np.dtype(ml_dtypes.bfloat16)


def from_numpy(dtype: np.dtype, name: str) -> int:
    """The number of a dtype; Error 65 that names the tensor `name` when programs have no such type."""
    if dtype.name not in _BY_NAME:
        raise Error(EXIT_BAD_INPUT, f"input '{name}': arrays of {dtype.name} cannot enter a program; there are "
                                    f"{', '.join(_BY_NAME)}")
    return _BY_NAME[dtype.name]
