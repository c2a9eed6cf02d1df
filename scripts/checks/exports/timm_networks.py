# SPDX-License-Identifier: Apache-2.0
"""Of each module of timm the network with the fewest parameters, of ten classes and images of the size that it is made for."""

from typing import Dict, Iterator, List

import timm
import torch

from network import BATCH, Network

#: torch 2.15 writes a file for it that onnxruntime does not load either.
WRITTEN_WRONGLY = "gemma4_vit"
CLASSES = 10


def smallest(names: List[str]) -> str:
    """By the number of parameters, of those that can be made without data."""
    sizes: Dict[str, int] = {}
    for name in names:
        try:
            with torch.device("meta"):
                sizes[name] = sum(parameter.numel() for parameter in timm.create_model(name, num_classes=CLASSES).parameters())
        except Exception:  # some compute with their parameters when they are made
            continue
    return min(sizes, key=sizes.__getitem__) if sizes else names[0]


def image_of(name: str) -> torch.Tensor:
    """Of the size in the network's configuration."""
    return torch.randn(BATCH, *timm.get_pretrained_cfg(name, allow_unregistered=True).input_size)


def networks() -> Iterator[Network]:
    """One of each module."""
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names and module != WRITTEN_WRONGLY:
            name = smallest(names)
            yield Network(f"{module}.{name}", lambda n=name: timm.create_model(n, num_classes=CLASSES), lambda n=name: {"x": image_of(n)})
