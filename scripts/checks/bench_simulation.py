# SPDX-License-Identifier: Apache-2.0
"""What the evaluator finds for the kernels of a plan against the simulation of the artifact that was compiled from it, on the same cluster."""

import json
import pathlib
import subprocess
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import autopar
import autopar.training
from autopar import models
from autopar.tools import find_tool


def two_hosts(mbit: float, latency_us: float, compute_loss: float) -> str:
    """A cluster of two hosts with a processor each, as autopar-profile writes it."""
    processor = {"name": "cpu", "peak_flops_per_s": {"f32": 2e11}, "memory_bytes_per_s": 3e10, "memory_efficiency": 0.5,
                 "memory_bytes": 12000000000, "launch_us": 0.5, "communicates_while_idle": True}
    network = {"name": "network", "latency_us": latency_us, "bytes_per_s": mbit * 1e6 / 8, "compute_loss": compute_loss}
    return json.dumps({"kind": "autopar.cluster", "version": 1, "name": f"two hosts, {mbit:g} Mbit/s", "device_types": [processor],
                       "nodes": [{"count": 2, "devices_per_node": 1, "device_type": "cpu"}],
                       "levels": [{"name": "memory", "latency_us": 20, "bytes_per_s": 1e10}, network]})


class Planned(NamedTuple):
    """A model of the zoo on a cluster: a preset, or JSON."""

    model: str
    cluster: str
    bind: Dict[str, int]
    sizes: Dict[str, int] = {}
    train: Optional[autopar.Train] = None
    options: List[str] = []

    def __str__(self) -> str:
        kind = f"training by {type(self.train.optimizer).__name__}" if self.train else "inference"
        cluster = json.loads(self.cluster)["name"] if self.cluster.startswith("{") else self.cluster
        return " ".join([self.model, *(f"{key}={value}" for key, value in self.sizes.items()), kind, "on", cluster, *self.options])


def trained(micro_batches: int = 1, loss: str = "softmax_cross_entropy(logits, labels)",
            optimizer: autopar.training.Optimizer = autopar.AdamW(lr=1e-4)) -> autopar.Train:
    return autopar.Train(loss, optimizer, clip_norm=1.0, micro_batches=micro_batches)


TEXT = {"batch": 32, "seq": 512}
OFFLOADED = ["--offload", "state"]
SMALL = {"layers": 4, "hidden": 256, "heads": 4, "vocab": 2000}
EAGER = ["--stages", "2", "--pipeline-schedule", "eager-1f1b"]
#: Four ranks of a stage wait for each other's sums and positions, forward and backward.
TOGETHER = ["--precision", "bf16", "--stages", "2", "--mesh", "tensor=4", "--constrain", "weight-axis=tensor, sequence=true",
            "--pipeline-schedule", "overlapped-1f1b"]
PLANS = [
    Planned("gpt2-124m", "presets:h100x1", {"batch": 8, "seq": 512}),
    Planned("resnet50", "presets:h100x2", {"batch": 64}),
    Planned("llama3-1b", "presets:h100x4", TEXT, {"layers": 4}),
    Planned("llama3-70b", "presets:h100x8", {"batch": 8, "seq": 2048}, {}, None, ["--precision", "bf16"]),
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
    Planned("llama3-8b", "presets:a100x8", {"batch": 8, "seq": 4096}, {"layers": 4}, trained(optimizer=autopar.Muon()), ["--precision", "bf16"]),
    Planned("llama3-8b", "presets:a100x8", {"batch": 16, "seq": 4096}, {"layers": 4}, trained(4), ["--precision", "bf16"]),
    Planned("llama3-8b", "presets:a100x8", {"batch": 64, "seq": 4096}, {"layers": 4}, trained(8, optimizer=autopar.Muon()),
            ["--precision", "bf16", "--stages", "2"]),
    Planned("llama3-8b", "presets:h100x8x8", {"batch": 64, "seq": 4096}, {"layers": 8}, trained(4),
            ["--precision", "bf16", "--stages", "2", "--pipeline-schedule", "zero-bubble"]),
    Planned("llama3-8b", "presets:h100x8x2", {"batch": 32, "seq": 4096}, {"layers": 8}, trained(), ["--precision", "bf16"]),
    Planned("llama3-8b", "presets:h100x8x8", {"batch": 1, "seq": 131072}, {"layers": 4}, trained(), ["--precision", "bf16"]),
    Planned("llama3-8b", "presets:h100x8", {"batch": 64, "seq": 4096}, {"layers": 16}, trained(16), TOGETHER),
    Planned("gpt2-124m", two_hosts(1000, 500, 0.5), {"batch": 16, "seq": 64}, SMALL, trained(8), EAGER),
    Planned("gpt2-124m", two_hosts(100, 2000, 0.1), {"batch": 16, "seq": 64}, SMALL, trained(8), EAGER),
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
