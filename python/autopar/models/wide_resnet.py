# SPDX-License-Identifier: Apache-2.0
"""wide-resnet: the resnet graph with more channels and wider 3x3 convolutions.

Sizes: the wide-resnet benchmark of Zheng et al., "Alpa" (2022): 50 or 101 layers, base channels 224 to 640, width
factor 2 or 16, 1024 classes.
"""

from . import resnet
from .family import Family
from .resnet import ResnetConfig


def _size(channels: int, width_factor: int, blocks: str = "3,4,6,3") -> ResnetConfig:
    return ResnetConfig(blocks=blocks, channels=channels, width_factor=width_factor, classes=1024)


FAMILY = Family(
    name="wide-resnet",
    summary="the resnet graph with more channels and wider 3x3 convolutions",
    config=ResnetConfig,
    sizes={
        "wide-resnet-0.5b": _size(224, 2),
        "wide-resnet-1b": _size(320, 2),
        "wide-resnet-2b": _size(448, 2),
        "wide-resnet-4b": _size(640, 2),
        "wide-resnet-6.8b": _size(320, 16),
        "wide-resnet-13b": _size(320, 16, blocks="3,4,23,3"),
    },
    emit=resnet.emit,
    sequence=False,
)
