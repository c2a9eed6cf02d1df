# SPDX-License-Identifier: Apache-2.0
"""Writes networks of a library of PyTorch networks with torch.onnx.export(dynamo=True) into the folder given, each with what
PyTorch computes; run by a Python that has torch, onnxscript and the library.

usage: exports FOLDER LIBRARY [whole] [TEXT]      (LIBRARY_networks.py lists them; only those with TEXT in their name)

NAME.onnx is the export, `whole` with optimize=False; NAME.npz has `input/NAME`, `output/NAME`, `target` of the first output's
shape, and `losses`: the mean squared error to the target in STEPS steps of SGD with the learning rate `lr`. Parameters are drawn,
as a trained network's are no two alike, and nothing is dropped out. A network that cannot be exported is named on standard
error and left out.
"""

import copy
import importlib
import logging
import pathlib
import sys
import warnings
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import torch

from network import BATCH, SEQ

STEPS, LRS = 3, (0.02, 0.002, 0.0002)


def tensors_of(results: Any, name: str = "output") -> Iterator[Tuple[str, torch.Tensor]]:
    """The tensors of what a network returns, by the keys of dictionaries and the places in tuples."""
    if torch.is_tensor(results):
        yield name, results
    elif isinstance(results, dict):
        for key, value in results.items():
            if torch.is_tensor(value):
                yield key, value
    elif isinstance(results, (tuple, list)):
        for place, value in enumerate(results):
            yield from tensors_of(value, f"{name}_{place}")


class Outputs(torch.nn.Module):
    """A network that takes its inputs in their order and gives its results in theirs, without caches."""

    def __init__(self, network: torch.nn.Module, inputs: List[str]) -> None:
        super().__init__()
        self.network, self.inputs, self.outputs = network, inputs, []

    def forward(self, *values: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        # which are named as inputs at times
        results = {f"{name}_output" if name in self.inputs else name: value
                   for name, value in tensors_of(self.network(**dict(zip(self.inputs, values))))}
        if not self.outputs:
            self.outputs = list(results)
        return tuple(results[name] for name in self.outputs)


def draw(network: torch.nn.Module) -> torch.nn.Module:
    """As it is trained: no two parameters alike, nothing dropped out."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    return network.eval()


def export(model: Outputs, inputs: Dict[str, torch.Tensor], path: pathlib.Path, whole: bool) -> None:
    """With a batch of any size and, of tokens, any number; where torch cannot, with those of the inputs."""
    dynamic = tuple({**({0: "batch"} if value.shape[0] == BATCH else {}), **({1: "seq"} if list(value.shape) == [BATCH, SEQ] else {})}
                    for value in inputs.values())
    for shapes in ((dynamic,), None):
        try:
            # of copies, as torch marks what was dynamic
            torch.onnx.export(model, tuple(value.clone() for value in inputs.values()), dynamo=True, optimize=not whole, dynamic_shapes=shapes,
                              input_names=list(inputs), output_names=model.outputs, verbose=False).save(str(path))
            return
        except Exception as error:  # torch has no common class for what it cannot export
            last = error
            torch._dynamo.reset()
    raise last


def train(model: Outputs, inputs: Dict[str, torch.Tensor], target: torch.Tensor) -> Tuple[float, List[float]]:
    """The learning rate, the largest by which it learns, and the losses of the first output, one before each step. Batches are
    normalized by their own statistics."""
    start = copy.deepcopy(model.state_dict())
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.train()
    for lr in LRS:
        model.load_state_dict(start)
        optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=lr)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(*inputs.values())[0], target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if losses[-1] < losses[0]:
            break
    return lr, losses


def main() -> None:
    """Exports every network of the library whose name has the text."""
    folder, library, *rest = sys.argv[1:]
    whole, text = rest[:1] == ["whole"], "".join(word for word in rest if word != "whole")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    for network in importlib.import_module(f"{library}_networks").networks():
        if text not in network.name or (whole and network.untrained):
            continue
        try:
            torch.manual_seed(0)
            inputs = network.inputs()
            model = Outputs(draw(network.make()), list(inputs))
            with torch.no_grad():
                results = model(*inputs.values())
            path = pathlib.Path(folder, f"{network.name}.onnx")
            export(model, inputs, path, whole)
            target = torch.randn(results[0].shape)
            lr, losses = train(model, inputs, target) if whole else (0.0, [])
            np.savez(path.with_suffix(".npz"), lr=lr, losses=losses, target=target.numpy(),
                     **{f"input/{key}": value.numpy() for key, value in inputs.items()},
                     **{f"output/{key}": value.numpy() for key, value in zip(model.outputs, results)})
        except Exception as error:
            print(f"{network.name}: {type(error).__name__}: {' '.join(str(error).split())[-200:]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
