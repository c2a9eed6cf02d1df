# SPDX-License-Identifier: Apache-2.0
"""What the evaluator finds for the kernels of a plan against the simulation of the artifact that was compiled from it, on the same cluster."""

import json
import pathlib
import subprocess
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import autopar
from autopar import models
from autopar.tools import find_tool


class Planned(NamedTuple):
    """A model of the zoo on a cluster."""

    model: str
    cluster: str
    bind: Dict[str, int]
    sizes: Dict[str, int] = {}
    train: Optional[autopar.Train] = None
    options: List[str] = []

    def __str__(self) -> str:
        kind = "training" if self.train else "inference"
        return " ".join([self.model, *(f"{key}={value}" for key, value in self.sizes.items()), kind, "on", self.cluster, *self.options])


def trained(micro_batches: int = 1, loss: str = "softmax_cross_entropy(logits, labels)") -> autopar.Train:
    return autopar.Train(loss, autopar.AdamW(lr=1e-4), clip_norm=1.0, micro_batches=micro_batches)


TEXT = {"batch": 32, "seq": 512}
OFFLOADED = ["--offload", "state"]
PLANS = [
    Planned("gpt2-124m", "presets:h100x1", {"batch": 8, "seq": 512}),
    Planned("resnet50", "presets:h100x2", {"batch": 64}),
    Planned("llama3-1b", "presets:h100x4", TEXT, {"layers": 4}),
    Planned("bert-base", "presets:cpux2", {"batch": 4, "seq": 128}),
    Planned("gpt2-124m", "presets:h100x8", TEXT, {}, trained()),
    Planned("gpt2-1.5b", "presets:a100x4", {"batch": 16, "seq": 512}, {"layers": 8}, trained(2)),
    Planned("vit-b", "presets:a100x4x2", {"batch": 128}, {"layers": 6}, trained()),
    Planned("gpt2-350m", "presets:h100x4", TEXT, {"layers": 8}, trained(8), ["--stages", "2", "--pipeline-schedule", "1f1b"]),
    Planned("gpt2-350m", "presets:h100x4x2", TEXT, {"layers": 8}, trained(8), ["--stages", "2", "--pipeline-schedule", "zero-bubble"]),
    Planned("llama3-1b", "presets:a100x4", TEXT, {"layers": 8}, trained(8), ["--stages", "2", "--pipeline-schedule", "gpipe"]),
    Planned("llama3-1b", "presets:h100x1", {"batch": 8, "seq": 512}, {}, trained(4), ["--precision", "bf16", *OFFLOADED]),
    Planned("gpt2-350m", "presets:h100x4", TEXT, {"layers": 8}, trained(2), ["--mesh", "data=4", *OFFLOADED]),
    Planned("llama3-1b", "presets:h100x4", TEXT, {"layers": 8}, trained(8),
            ["--precision", "bf16", "--stages", "2", "--pipeline-schedule", "zero-bubble", *OFFLOADED]),
]


def compare(planned: Planned, folder: pathlib.Path) -> Dict[str, Any]:
    """Microseconds of a step: `believed` and `simulated`."""
    model, artifact, plan = folder / "m.onnx", folder / "m.bin", folder / "plan.json"
    models.save(planned.model, model, weights=False, **planned.sizes)
    autopar.compile(model, artifact, bind=planned.bind, cluster=planned.cluster, train=planned.train,
                    options=["--quiet", "--emit-plan", str(plan), *planned.options])
    done = subprocess.run([find_tool("autopar-run"), artifact, "--simulate", planned.cluster, "--json", "--quiet"],
                          check=True, capture_output=True, text=True)
    return {"believed": json.loads(plan.read_text())["believed"]["kernels_us"], "simulated": 1e3 * json.loads(done.stdout)["step_ms"][0]}


def cases() -> Iterator[Dict[str, Any]]:
    """Simulated milliseconds, against those of the plan."""
    for planned in PLANS:
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            found = compare(planned, pathlib.Path(name))
        yield {"name": str(planned), "value": found["simulated"] / 1e3, "unit": "ms", "reference": found["believed"] / 1e3,
               "ratio": found["simulated"] / found["believed"]}
