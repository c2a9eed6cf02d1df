# SPDX-License-Identifier: Apache-2.0
"""Whether an array is the expected one: dtype and shape always, floats within a tolerance, everything else exactly."""

from typing import Mapping, Optional

import numpy as np

#: What onnx's own backend runner allows.
RTOL = 1e-3
ATOL = 1e-7
#: One unit in the last place of bfloat16: the backend suite was written with truncation where rounding is usual.
BFLOAT16_RTOL = 2.0**-7


def is_float(dtype: np.dtype) -> bool:
    """True for IEEE floats, bfloat16 and floats of 8 bits and less, which NumPy knows as extension types."""
    return np.issubdtype(dtype, np.floating) or dtype.name.startswith(("bfloat", "float"))


def is_half(dtype: np.dtype) -> bool:
    """Whether elements are floats of 16 bits."""
    return dtype.name in ("float16", "bfloat16")


def difference(actual: np.ndarray, expected: np.ndarray, rtol: float = RTOL, atol: float = ATOL,
               exact: Optional[np.ndarray] = None) -> Optional[str]:
    """None when equal, otherwise what differs and where most. Floats that are close to `exact` are equal, too."""
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}, expected {expected.dtype}"
    if actual.shape != expected.shape:
        return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    if not is_float(expected.dtype):
        wrong = np.argwhere(actual != expected)
        if len(wrong) == 0:
            return None
        at = tuple(wrong[0])
        return f"{len(wrong)} of {expected.size} differ, first at {list(map(int, at))}: {actual[at]}, expected {expected[at]}"
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    rtol = max(rtol, BFLOAT16_RTOL) if expected.dtype.name == "bfloat16" else rtol
    with np.errstate(invalid="ignore"):
        close = np.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
        if exact is not None:
            close |= np.isclose(a, exact, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.where(close, 0.0, np.nan_to_num(np.abs(a - e) / (atol + rtol * np.abs(e)), nan=np.inf))
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    return (f"{int((~close).sum())} of {expected.size} differ, worst at {list(map(int, at))}: "
            f"{a[at]:.6g}, expected {e[at]:.6g}")


def scaled_difference(actual: np.ndarray, expected: np.ndarray, rtol: float) -> Optional[str]:
    """Like difference, with an absolute tolerance of rtol times the largest expected magnitude: for whole models, where
    sums over many terms of both signs end near zero."""
    magnitude = float(np.max(np.abs(expected.astype(np.float64)), initial=0.0)) if is_float(expected.dtype) else 0.0
    return difference(actual, expected, rtol, max(ATOL, rtol * magnitude))


def differences(actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], rtol: float) -> Optional[str]:
    """The first difference between named outputs of a model, under scaled_difference."""
    for name, array in expected.items():
        if name not in actual:
            return f"output '{name}' is missing; there are {', '.join(actual)}"
        found = scaled_difference(actual[name], array, rtol)
        if found:
            return f"output '{name}': {found}"
    return None
