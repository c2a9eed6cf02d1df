# SPDX-License-Identifier: Apache-2.0
"""A network of a library, to be exported."""

from typing import Any, Callable, Dict, NamedTuple

import torch

#: Of the inputs, so small that a network runs in a moment.
BATCH, SEQ = 2, 12


class Network(NamedTuple):
    """Its name, how it is made, and its inputs by the names of its arguments; `untrained`: its steps in PyTorch are no truth for training
    its export, for a reason that its module gives."""

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[], Dict[str, torch.Tensor]]
    untrained: bool = False


class Named(torch.nn.Module):
    """A network of one input, which is called `x` whatever the network calls it."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> Any:
        return self.network(x)


def image(size: int = 32, batch: int = BATCH) -> torch.Tensor:
    """Of three colours."""
    return torch.randn(batch, 3, size, size)
