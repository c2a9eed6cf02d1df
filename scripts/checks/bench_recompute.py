# SPDX-License-Identifier: Apache-2.0
"""What a choice of operations to compute again gains over the best choice of layers, under the same memory limit. Both are
compiled; the memory plan says what they need, the simulation of what was compiled how long a step takes."""

import itertools
import json
import math
import pathlib
import re
import sys
import tempfile
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import autopar
from autopar import models

from . import measuring

#: Of the memory between that of every layer computed again and that of none.
SHARES = (1 / 4, 1 / 2, 3 / 4)


class Job(NamedTuple):
    """A training step of a model of the zoo on a cluster."""

    model: str
    cluster: str
    bind: str
    mesh: str
    precision: str = "f32"
    sizes: Dict[str, int] = {}
    options: Sequence[str] = ()


GPT3 = Job("gpt3-1.3b", "presets:h100x4", "batch=8,seq=2048", "data=4", "bf16")


class Judged(NamedTuple):
    """A compiled step."""

    bytes: int
    us: float


class Judge:
    """Plans, compiles and simulates steps of a job in a folder."""

    def __init__(self, job: Job, folder: pathlib.Path) -> None:
        self._job, self._folder = job, folder
        models.save(job.model, folder / "m.onnx", weights=False, **job.sizes)

    def _compile(self, *options: Any) -> None:
        measuring.run_measured(
            [autopar.find_tool("autopar-compile"), self._folder / "m.onnx", "--quiet", "--bind", self._job.bind, "--cluster", self._job.cluster,
             "--precision", self._job.precision, "--attention", "fused", "--train", "loss=softmax_cross_entropy(logits, labels)",
             "--optimizer", "adamw(lr=1e-4)", *self._job.options, *options])

    def searched(self, *options: str) -> Dict[str, Any]:
        """The plan that is found under these options, whose program fits."""
        plan = self._folder / "found.json"
        self._compile("--mesh", self._job.mesh, "--stop-after", "plan-memory", "--emit-plan", plan, "-o", self._folder / "found.mlir", *options)
        return json.loads(plan.read_text())

    def recomputing(self, plan: Dict[str, Any], operations: List[str], limit: Optional[int] = None) -> Judged:
        """A plan, but that it computes these operations again, compiled for devices with so much memory. Endless where it does not fit."""
        given, artifact = self._folder / "given.json", self._folder / "m.bin"
        given.write_text(json.dumps({**plan, "recompute": operations}))
        try:
            self._compile("--plan", given, "-o", artifact, *([f"--memory-limit={limit}"] if limit else []))
        except RuntimeError as error:
            if limit and "over the limit" in str(error):
                return Judged(sys.maxsize, math.inf)
            raise
        run = measuring.run_measured([autopar.find_tool("autopar-run"), artifact, "--simulate", self._job.cluster, "--json", "--quiet"])
        simulated = measuring.last_json(run.output)
        return Judged(max(rank["device_bytes"] for rank in simulated["ranks"]), 1e3 * simulated["step_ms"][0])


def layers_of(operations: List[str]) -> List[List[str]]:
    """What `--recompute full` computes again, a list for each layer, in the order of the forward pass. It stands there in that of the
    backward pass, each layer like the others but for its number; the first and the last may be parts of one, and come last here."""
    layers: List[Dict[str, str]] = []
    for name in operations:
        kind = re.sub(r"\d+", "N", name, count=1)
        if not layers or kind in layers[-1]:
            layers.append({})
        layers[-1][kind] = name
    whole = max(layers, key=len)
    if len(layers) < 2 or any(set(layer) != set(whole) for layer in layers[1:-1]) or any(set(layer) - set(whole) for layer in layers):
        raise ValueError(f"no layers that are alike: {operations[:3]}...")
    return sorted((list(layer.values()) for layer in layers[::-1]), key=lambda layer: len(layer) < len(whole))


def is_of_parameters(name: str) -> bool:
    """Whether an operation gives what layers read of parameters: converted, gathered."""
    return not name.startswith("/")


def rules(layers: List[List[str]]) -> Dict[str, Callable[[int], List[str]]]:
    """Ways to compute the first of the layers again: those free their memory before it is needed a second time."""
    def names(count: int, wanted: Callable[[str], bool] = lambda name: True) -> List[str]:
        return [name for layer in layers[:count] for name in layer if wanted(name)]

    return {"all of it": names,
            "parameters stay gathered": lambda count: names(count, lambda name: not is_of_parameters(name)),
            "all parameters gathered again": lambda count: sorted({*names(count), *names(len(layers), is_of_parameters)})}


def fewest(most: int, fits: Callable[[int], bool]) -> int:
    """The smallest count up to `most` that fits, where all that are larger do; `most` + 1 where none does."""
    low, high = 0, most + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def compare(judge: Judge, shares: Sequence[float] = SHARES) -> Iterator[Dict[str, Any]]:
    """For each limit, under which all is compiled: `limit`, steps in microseconds of `operations` and of `layers`, and what the latter are in
    `rule` and `count`."""
    full = judge.searched("--recompute", "full")
    layers = layers_of(full["recompute"])
    least, none = full["believed"]["peak_bytes"][0], judge.recomputing(full, [])
    known: Dict[Any, Judged] = {}

    def judged(sharded: Dict[str, Any], rule: str, count: int, limit: int) -> Judged:
        key = (json.dumps([sharded["ops"], sharded["shard"]]), rule, count, limit)
        if key not in known:
            known[key] = judge.recomputing(sharded, rules(layers)[rule](count), limit)
        return known[key]

    for share in shares:
        limit = int(least + share * (none.bytes - least))
        plan = judge.searched("--memory-limit", str(limit))
        ours = judge.recomputing(plan, plan["recompute"], limit)
        found = []
        # Layers may have the sharding that was found with operations, too.
        for sharded, rule in itertools.product((full, plan), rules(layers)):
            count = fewest(len(layers), lambda count, sharded=sharded, rule=rule: judged(sharded, rule, count, limit).bytes <= limit)
            if count <= len(layers):
                found.append((judged(sharded, rule, count, limit).us, count, rule))
        us, count, rule = min(found)
        yield {"limit": limit, "operations": ours.us, "layers": us, "count": count, "of": len(layers), "rule": rule,
               "kept": none.us}


def cases() -> Iterator[Dict[str, Any]]:
    """Milliseconds of a step by operations, against the best by layers."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for row in compare(Judge(GPT3, pathlib.Path(name))):
            yield measuring.case(f"{row['limit'] / 1e9:.2f} GB; layers: {row['count']} of {row['of']}, {row['rule']}", row["operations"] / 1e3,
                                 "ms", row["layers"] / 1e3, **{key: row[key] for key in ("limit", "kept")})
