# SPDX-License-Identifier: Apache-2.0
"""A pipelined training step: a gpt2 of eight layers (hidden 512, batch 16x128, 8 micro-batches) on 2 ranks of one thread.

Its time under every schedule against the same step on one rank of two threads, and how much of the time of sends and receives
lies under compute of the same rank, from a real trace: a message counts from when both sides have asked for it.
"""

import json
import pathlib
import subprocess
import tempfile
from typing import Any, Dict, Iterator, List, Tuple

import autopar
from autopar import models
from autopar.tools import find_tool

STEPS = 5
SCHEDULES = ("gpipe", "1f1b", "eager-1f1b", "zero-bubble")
Interval = Tuple[float, float]


def covered(part: Interval, by: List[Interval]) -> float:
    """Microseconds of `part` that lie in one of the intervals, which do not overlap."""
    return sum(max(0.0, min(part[1], end) - max(part[0], begin)) for begin, end in by)


def overlap(trace: pathlib.Path) -> float:
    """The share of message time under compute; a message is under way from its later side's begin to its first side's end."""
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    compute: Dict[int, List[Interval]] = {}
    sides: Dict[Tuple[str, int], List[Tuple[int, Interval]]] = {}
    for event in events:
        interval = (event["ts"], event["ts"] + event["dur"])
        kind = event["args"]["key"].split("/")[0]
        if kind in ("send", "receive"):
            sides.setdefault((event["name"], event["args"]["step"]), []).append((event["pid"], interval))
        elif event["tid"] == 0:
            compute.setdefault(event["pid"], []).append(interval)
    total = under = 0.0
    for pair in sides.values():
        if len(pair) != 2:
            continue
        begin, end = max(side[1][0] for side in pair), max(side[1][1] for side in pair)
        for rank, _ in pair:
            total += end - begin
            under += covered((begin, end), compute[rank])
    return under / total


def step_ms(artifact: pathlib.Path, threads: int, trace: pathlib.Path) -> float:
    """The median of the steps after the first."""
    metrics = artifact.with_suffix(".jsonl")
    subprocess.run([str(word) for word in (find_tool("autopar-run"), artifact, "--data", "synthetic(vocab=1000)", "--steps", STEPS, "--threads", threads,
                                           "--metrics", metrics, "--trace", trace)], check=True, capture_output=True)
    times = sorted(json.loads(line)["ms"] for line in metrics.read_text().splitlines()[1:])
    return times[len(times) // 2]


def cases() -> Iterator[Dict[str, Any]]:
    """Milliseconds of a step, and shares of message time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = pathlib.Path(name)
        models.save("gpt2-124m", folder / "m.onnx", layers=8, hidden=512, heads=8, vocab=1000)

        def measured(name: str, ranks: int, options: List[str]) -> Tuple[float, pathlib.Path]:
            artifact, trace = folder / f"{name}.bin", folder / f"{name}.json"
            train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=3e-4), clip_norm=1.0, micro_batches=8)
            autopar.compile(folder / "m.onnx", artifact, bind={"batch": 16, "seq": 128}, ranks=ranks, train=train, options=["--quiet", *options])
            return step_ms(artifact, 2 // ranks, trace), trace

        alone, _ = measured("alone", 1, ["--threads", "2"])
        for schedule in SCHEDULES:
            time, trace = measured(schedule, 2, ["--stages", "2", "--pipeline-schedule", schedule])
            yield {"name": f"{schedule}, 2 stages", "value": time, "unit": "ms", "reference": alone, "ratio": time / alone}
            share = overlap(trace)
            yield {"name": f"{schedule}, message time under compute", "value": share, "unit": "", "reference": 0.7, "ratio": share / 0.7}
