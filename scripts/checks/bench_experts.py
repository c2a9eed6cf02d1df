# SPDX-License-Identifier: Apache-2.0
"""Plans that experts published (docs/experts/*.json): what the cost model says of them against what was measured, and the plan that the
search finds for the same model, batch and cluster against theirs. Both are lowered until their memory is planned, and told twice: as the
search counts them, operation by operation, and by the kernels, library calls and collectives that they became (docs/Simulation.md)."""

import json
import math
import pathlib
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import autopar
from autopar import models

from . import measuring
from .building import ROOT

FOLDER = ROOT / "docs" / "experts"
#: A row counts where the simulated throughput is this close to the published one.
CLOSE = 0.15
PUBLISHED = ("tokens_per_s_per_gpu", "step_s")
KEYS = {"kind", "version", "model", "cluster", "batch", "sequence", "published", "derived", "source", "plan", "attention", "options", "precision", "gradients", "freeze", "differs"}
OWN = ["--stages", "auto", "--micro-batches", "auto", "--pipeline-schedule", "auto"]


class Expert(NamedTuple):
    """A row of docs/ExpertPlans.md."""

    name: str
    model: str
    cluster: str
    batch: int
    sequence: int
    published: Dict[str, float]
    plan: Dict[str, Any]
    attention: Optional[str]
    options: Optional[Dict[str, str]]
    precision: Optional[str]
    gradients: Optional[str]
    freeze: Optional[str]

    @property
    def devices(self) -> int:
        degrees = [self.plan.get(key, 1) for key in ("data", "context", "tensor", "pipeline")]
        return math.prod(degrees)

    def throughput(self, step_s: float) -> float:
        """Tokens per second and device."""
        return self.batch * self.sequence / step_s / self.devices

    @property
    def published_throughput(self) -> float:
        """Tokens per second and device, as published or from the time of a step."""
        if "step_s" in self.published:
            return self.throughput(self.published["step_s"])
        return self.published["tokens_per_s_per_gpu"]


def read(path: pathlib.Path) -> Expert:
    """The row in a file; ValueError says what is wrong with it."""
    row = json.loads(path.read_text())
    if row.get("kind") != "expert" or row.get("version") != 1:
        raise ValueError(f"{path}: expected \"kind\": \"expert\" and \"version\": 1")
    unknown = sorted(set(row) - KEYS)
    missing = sorted(KEYS - {"derived", "attention", "options", "precision", "gradients", "freeze"} - set(row))
    if unknown or missing:
        raise ValueError(f"{path}: unknown keys {unknown}, missing keys {missing}")
    if len(row["published"]) != 1 or not set(row["published"]) <= set(PUBLISHED):
        raise ValueError(f"{path}: published: expected one of {', '.join(PUBLISHED)}")
    if not row["source"].get("url", "").startswith("https://"):
        raise ValueError(f"{path}: source: expected a url")
    fields = {field: row.get(field) for field in Expert._fields if field != "name"}
    return Expert(path.stem, **fields)


def rows(only: Optional[str] = None) -> List[Expert]:
    """All rows, or those whose name contains `only`."""
    found = [read(path) for path in sorted(FOLDER.glob("*.json"))]
    chosen = [row for row in found if only is None or only in row.name]
    if not chosen:
        raise ValueError(f"no row has {only!r} in its name; there are {', '.join(row.name for row in found)}")
    return chosen


def believed(row: Expert, folder: pathlib.Path, options: List[str]) -> Dict[str, Any]:
    """What a plan that is searched under `options`, and lowered, believes of itself."""
    model, plan = folder / "m.onnx", folder / "plan.json"
    if not model.exists():
        models.save(row.model, model, weights=False, **(row.options or {}))
    run = measuring.run_measured(
        [autopar.find_tool("autopar-compile"), model, "--quiet", "--bind", f"batch={row.batch},seq={row.sequence}",
         "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-4)", "--precision", row.precision or "bf16",
         "--gradient-dtype", row.gradients or "f32", *(["--freeze", row.freeze] if row.freeze else []),
         "--cluster", row.cluster, "--stop-after", "plan-memory", "--emit-plan", plan, *options])
    return {**json.loads(plan.read_text())["believed"], "seconds": run.seconds}


#: Where a plan says what its step takes, and what a case is called by it.
COUNTS = {"step_us": "", "kernels_us": ", by kernels"}


def cases(only: Optional[str] = None) -> Iterator[Dict[str, Any]]:
    """Cases of each row: simulated against published throughput, and our step against the expert's, by each of COUNTS."""
    for row in rows(only):
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            folder = pathlib.Path(name)
            degrees = folder / "degrees.json"
            degrees.write_text(json.dumps(row.plan))
            theirs = None
            try:
                theirs = believed(row, folder, ["--plan", str(degrees), "--attention", row.attention or "auto"])
                for key, words in COUNTS.items():
                    simulated = row.throughput(theirs[key] / 1e6)
                    yield measuring.case(f"{row.name}, simulated / published{words}", simulated, "tok/s", row.published_throughput,
                                         counts=abs(simulated / row.published_throughput - 1) <= CLOSE, peak_bytes=theirs["peak_bytes"],
                                         seconds=round(theirs["seconds"], 1))
            except RuntimeError as error:
                print(f"{row.name}: their plan: {error}", flush=True)
            try:
                ours = believed(row, folder, OWN)
            except RuntimeError as error:
                print(f"{row.name}: our plan: {error}", flush=True)
                continue
            for key, words in COUNTS.items():
                yield measuring.case(f"{row.name}, our step / theirs{words}", ours[key] / 1e6, "s", theirs and theirs[key] / 1e6,
                                     peak_bytes=ours["peak_bytes"], seconds=round(ours["seconds"], 1))
