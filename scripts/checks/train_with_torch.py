#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a network of torch_models.py with Debian's PyTorch on given weights and batches, as outside truth for training steps.

usage: train_with_torch.py run.npz

run.npz holds the initial weights under the model zoo's names ("transformer.wte.weight"), the batches as `batch/NAME` of
shape [steps, ...], `batch/labels` among them, and `settings`, a JSON text: model (a name of torch_models.FORWARD) with its
own settings, optimizer (see make_optimizer), lr, weight_decay (not on parameters of one dimension), clip_norm (0: none),
and if wished threads and autocast ("bf16"). Prints {"losses": softmax cross-entropy of each step, "seconds": its time}.
"""

import contextlib
import json
import sys
import time

import numpy
import torch
from torch.nn import functional as F

import torch_models


class Lion(torch.optim.Optimizer):
    """Chen et al., "Symbolic discovery of optimization algorithms" (2023), algorithm 2; torch has none."""

    def __init__(self, groups, lr):
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                direction = torch.sign(0.9 * mean + 0.1 * weight.grad)
                weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * direction)
                mean.mul_(0.99).add_(weight.grad, alpha=0.01)


class Muon(torch.optim.AdamW):
    """Jordan et al., "Muon: an optimizer for hidden layers" (2024), scaled as Liu et al., "Muon is scalable for LLM training" (2025), for
    groups marked `inner`; AdamW for the others. As torch.optim.Muon of PyTorch 2.9 and later, but in float32."""

    @torch.no_grad()
    def step(self):
        inner = [group for group in self.param_groups if group["inner"]]
        for weight, group in ((weight, group) for group in inner for weight in group["params"]):
            mean = self.state[weight].setdefault("mean", torch.zeros_like(weight)).lerp_(weight.grad, 0.05)
            direction = weight.grad.lerp(mean, 0.95)
            weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(self.orthogonal(direction), alpha=group["lr"])
        for group in inner:
            for weight in group["params"]:
                weight.grad = None
        super().step()

    @staticmethod
    def orthogonal(matrix):
        x = matrix.mT if matrix.shape[0] > matrix.shape[1] else matrix
        x = x / x.norm().clamp(min=1e-7)
        for _ in range(5):
            gram = x @ x.mT
            x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
        return 0.2 * max(x.shape) ** 0.5 * (x.mT if matrix.shape[0] > matrix.shape[1] else x)


def make_optimizer(weights, settings):
    """The optimizer of the settings; weight decay only where a parameter has two dimensions."""
    if settings["optimizer"] == "muon":
        inner = [w for name, w in weights.items() if w.ndim == 2 and ".h." in name]
        rest = [w for w in weights.values() if not any(w is one for one in inner)]
        return Muon([{"params": inner, "weight_decay": settings["weight_decay"], "inner": True},
                     {"params": [w for w in rest if w.ndim >= 2], "weight_decay": settings["weight_decay"], "inner": False},
                     {"params": [w for w in rest if w.ndim < 2], "weight_decay": 0.0, "inner": False}], settings["lr"], (0.9, 0.95))
    groups = [{"params": [w for w in weights.values() if w.ndim >= 2], "weight_decay": settings["weight_decay"]},
              {"params": [w for w in weights.values() if w.ndim < 2], "weight_decay": 0.0}]
    lr = settings["lr"]
    return {
        "sgd": lambda: torch.optim.SGD(groups, lr=lr),
        "momentum": lambda: torch.optim.SGD(groups, lr=lr, momentum=0.9),
        "nesterov": lambda: torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True),
        "adam": lambda: torch.optim.Adam(groups, lr=lr),
        "adamw": lambda: torch.optim.AdamW(groups, lr=lr),
        "adagrad": lambda: torch.optim.Adagrad(groups, lr=lr),
        "lion": lambda: Lion(groups, lr),
    }[settings["optimizer"]]()


def main(path):
    """Prints the losses."""
    run = numpy.load(path)
    settings = json.loads(str(run["settings"]))
    arrays = {name: torch.from_numpy(run[name]) for name in run.files if name != "settings"}
    batches = {name[len("batch/"):]: array for name, array in arrays.items() if name.startswith("batch/")}
    weights = {name: array for name, array in arrays.items() if not name.startswith("batch/")}
    trained = {name: array.requires_grad_() for name, array in weights.items()
               if array.is_floating_point() and not name.endswith(("running_mean", "running_var"))}
    optimizer = make_optimizer(trained, settings)
    if settings.get("threads"):
        torch.set_num_threads(settings["threads"])
    precision = (torch.autocast("cpu", torch.bfloat16) if settings.get("autocast") == "bf16" else contextlib.nullcontext())
    losses, seconds = [], []
    for step in range(len(batches["labels"])):
        start = time.perf_counter()
        batch = {name: array[step] for name, array in batches.items()}
        with precision:
            logits = torch_models.FORWARD[settings["model"]](weights, settings, batch)
        loss = F.cross_entropy(logits.flatten(0, -2).float(), batch["labels"].flatten())
        optimizer.zero_grad()
        loss.backward()
        if settings["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(list(trained.values()), settings["clip_norm"])
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"losses": losses, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1])
