# SPDX-License-Identifier: Apache-2.0
"""gpt3: the gpt2 graph at the sizes of Brown et al., "Language Models are Few-Shot Learners" (2020), table 2.1.

Attention is dense in every block (the paper alternates it with a banded form). Where the printed number of heads does
not divide the width (1.3b, 13b) or sizes differ (2.6b), the values are those of common reproductions: Alpa's benchmark
suite for 1.3b and 2.6b, width 5120 for 13b.
"""

from .family import Family
from .gpt2 import Gpt2Config, emit


def _size(layers: int, hidden: int, heads: int) -> Gpt2Config:
    return Gpt2Config(layers=layers, hidden=hidden, heads=heads, positions=2048)


FAMILY = Family(
    name="gpt3",
    summary="decoder-only transformer, the gpt2 graph at larger sizes",
    config=Gpt2Config,
    sizes={
        "gpt3-1.3b": _size(24, 2048, 32),
        "gpt3-2.6b": _size(32, 2560, 32),
        "gpt3-6.7b": _size(32, 4096, 32),
        "gpt3-13b": _size(40, 5120, 40),
        "gpt3-175b": _size(96, 12288, 96),
    },
    emit=emit,
)
