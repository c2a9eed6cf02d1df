# SPDX-License-Identifier: Apache-2.0
"""NumPy dtypes for the artifact's element types; the numbers are those of include/autopar/Base/DataType.h."""

from typing import Dict

import numpy as np

from .errors import Error

#: Types that NumPy does not have; the package ml_dtypes (which onnx brings along) has them by these names.
_EXTENSIONS: Dict[int, str] = {
    10: "bfloat16", 13: "float8_e4m3fn", 14: "float8_e4m3fnuz", 15: "float8_e5m2", 16: "float8_e5m2fnuz",
    17: "float4_e2m1fn",
}
_NUMBERS: Dict[int, str] = {
    0: "bool", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "uint8", 6: "uint16", 7: "uint32", 8: "uint64",
    9: "float16", 11: "float32", 12: "float64", **_EXTENSIONS,
}
_BY_NAME = {name: number for number, name in _NUMBERS.items()}
EXIT_BAD_INPUT = 65
EXIT_MISSING = 69


def to_numpy(number: int) -> np.dtype:
    """The NumPy dtype, of ml_dtypes where NumPy has none; Error 69 where that package is missing."""
    name = _NUMBERS[number]
    if number not in _EXTENSIONS:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise Error(EXIT_MISSING, f"{name} arrays need the Python package ml_dtypes; install it") from None
    return np.dtype(getattr(ml_dtypes, name))


def from_numpy(dtype: np.dtype, name: str) -> int:
    """The number of a dtype; Error 65 that names the tensor `name` when programs have no such type."""
    if dtype.name not in _BY_NAME:
        raise Error(EXIT_BAD_INPUT, f"input '{name}': arrays of {dtype.name} cannot enter a program; there are "
                                    f"{', '.join(_BY_NAME)}")
    return _BY_NAME[dtype.name]
