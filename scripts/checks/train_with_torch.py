#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a gpt2 with Debian's PyTorch on given weights and batches, as outside truth for training steps.

usage: train_with_torch.py run.npz

run.npz holds the initial weights under the model zoo's names ("transformer.wte.weight"), `ids` and `labels` of shape
[steps, batch, seq], and `settings`, a JSON text: layers, heads, optimizer (see make_optimizer), lr, weight_decay (not on
parameters of one dimension), clip_norm (0: none). Prints the losses as a JSON list.
"""

import json
import math
import sys

import numpy
import torch
from torch.nn import functional as F


def forward(weights, settings, ids):
    """Logits of the zoo's gpt2."""
    def linear(scope, x):
        return x @ weights[f"{scope}.weight"] + weights[f"{scope}.bias"]

    def norm(scope, x):
        return F.layer_norm(x, x.shape[-1:], weights[f"{scope}.weight"], weights[f"{scope}.bias"], 1e-5)

    batch, seq = ids.shape
    heads = settings["heads"]
    x = weights["transformer.wte.weight"][ids] + weights["transformer.wpe.weight"][:seq]
    mask = torch.tril(torch.ones(seq, seq, dtype=torch.bool))
    for layer in range(settings["layers"]):
        scope = f"transformer.h.{layer}"
        parts = linear(f"{scope}.attn.c_attn", norm(f"{scope}.ln_1", x)).split(x.shape[-1], dim=2)
        query, key, value = (part.view(batch, seq, heads, -1).transpose(1, 2) for part in parts)
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(~mask, torch.finfo(torch.float32).min)
        context = (F.softmax(scores, dim=-1) @ value).transpose(1, 2).reshape(batch, seq, -1)
        x = x + linear(f"{scope}.attn.c_proj", context)
        inner = linear(f"{scope}.mlp.c_fc", norm(f"{scope}.ln_2", x))
        inner = 0.5 * inner * (1 + torch.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
        x = x + linear(f"{scope}.mlp.c_proj", inner)
    return norm("transformer.ln_f", x) @ weights["transformer.wte.weight"].T


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


def make_optimizer(weights, settings):
    """The optimizer of the settings; weight decay only where a parameter has two dimensions."""
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
    weights = {name: torch.from_numpy(run[name]).requires_grad_() for name in run.files
               if name not in ("ids", "labels", "settings") and run[name].dtype == numpy.float32}
    optimizer = make_optimizer(weights, settings)
    losses = []
    for ids, labels in zip(torch.from_numpy(run["ids"]), torch.from_numpy(run["labels"])):
        loss = F.cross_entropy(forward(weights, settings, ids).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        if settings["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(list(weights.values()), settings["clip_norm"])
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps(losses))


if __name__ == "__main__":
    main(sys.argv[1])
