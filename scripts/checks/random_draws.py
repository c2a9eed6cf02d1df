# SPDX-License-Identifier: Apache-2.0
"""The backend tests whose expected outputs are another library's random draws.

Their numbers cannot be met; what can be checked is that the draws are draws: dtype and shape, the rate, that the same
seed gives the same numbers, and, for dropout, that kept elements are scaled and the mask says which were kept.
"""

import re
from typing import List, Mapping, Optional

import numpy as np

NAMES = re.compile(r"^node/test_(bernoulli\w*|training_dropout(_default)?(_mask)?)$")
DEFAULT_RATIO = 0.5
SIGMAS = 4.0


def is_random(name: str) -> bool:
    """Whether the test expects another library's draws."""
    return bool(NAMES.match(name))


def judge(
    name: str,
    inputs: Mapping[str, np.ndarray],
    actual: Mapping[str, np.ndarray],
    again: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
) -> Optional[str]:
    """None when `actual` (and a second run, `again`) is a proper draw, otherwise what is wrong with it."""
    for key, array in expected.items():
        if key not in actual:
            return f"output '{key}' is missing"
        if (actual[key].dtype, actual[key].shape) != (array.dtype, array.shape):
            return f"output '{key}' is {actual[key].dtype}{actual[key].shape}, expected {array.dtype}{array.shape}"
        if not np.array_equal(actual[key], again[key]):
            return f"output '{key}' changes between two fresh runs with the same seed"
    if "bernoulli" in name:
        return _judge_bernoulli(next(iter(inputs.values())), next(iter(actual.values())))
    return _judge_dropout(list(inputs.values()), list(actual.values()))


def _rate_fault(ones: float, probabilities: np.ndarray) -> Optional[str]:
    """Whether a number of successes is too far from its mean under independent draws."""
    mean, deviation = probabilities.sum(), np.sqrt((probabilities * (1 - probabilities)).sum())
    if abs(ones - mean) > SIGMAS * deviation + 1e-9:
        return f"{ones:.0f} successes, expected {mean:.1f} +- {deviation:.1f}"
    return None


def _judge_bernoulli(probabilities: np.ndarray, drawn: np.ndarray) -> Optional[str]:
    """Zeros and ones at the rate of the input."""
    values = drawn.astype(np.float64)
    if not np.isin(values, (0.0, 1.0)).all():
        return "a draw is neither 0 nor 1"
    return _rate_fault(values.sum(), probabilities.astype(np.float64))


def _judge_dropout(inputs: List[np.ndarray], outputs: List[np.ndarray]) -> Optional[str]:
    """Elements are 0 or scaled by 1 / (1 - ratio), at the rate of the ratio, and the mask agrees."""
    x = inputs[0].astype(np.float64)
    ratio = float(inputs[1]) if len(inputs) > 1 and inputs[1].dtype != np.bool_ else DEFAULT_RATIO
    y = outputs[0].astype(np.float64)
    kept = y != 0
    if not np.allclose(y[kept], x[kept] / (1 - ratio), rtol=1e-3):
        return f"a kept element is not scaled by 1 / (1 - {ratio})"
    if len(outputs) > 1 and not np.array_equal(outputs[1], kept | (x == 0) & outputs[1]):
        return "the mask does not say which elements were kept"
    return _rate_fault(float(kept.sum()), np.full(x.shape, 1 - ratio))

