# SPDX-License-Identifier: Apache-2.0
"""A small gpt2 on two hosts of one rank and one thread each, joined by links of several rates and latencies.

The hosts are network namespaces of this machine (`hosts.py`), the cluster file is what `autopar-profile` measures: one host, then
with `--hosts` the network. For each link, training and inference under plans that are given and the one that the search chooses:
the step that the simulation of the artifact says against the clock, and whether the chosen plan is the fastest of all. Pipelines
are trained only: in inference the first stage does not wait for the last, so that no clock of one rank shows a step.
"""

import json
import os
import pathlib
import statistics
import subprocess
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import autopar
from autopar import models
from autopar.tools import find_tool

from . import hosts
from .bench_prediction import join
from .measuring import case, last_json

LINKS = {"10 Gbit/s, 50 us": (10000, 50), "1 Gbit/s, 200 us": (1000, 200), "100 Mbit/s, 1 ms": (100, 1000)}
SIZES = {"layers": 4, "hidden": 256, "heads": 4, "vocab": 2000}
BIND = {"batch": 16, "seq": 64}
PLANS: Dict[str, Optional[Dict[str, int]]] = {"data=2": {"data": 2}, "tensor=2": {"tensor": 2},
                                              "pipeline=2": {"pipeline": 2, "micro_batch": 4}, "chosen": None}
ROUNDS, WARMUP, STEPS = 3, 1, 6
#: Plans closer than this count as equally fast.
ALIKE = 1.05


class Run(NamedTuple):
    """A plan of training or inference over a link."""

    plan: str
    feed: List[object]
    artifact: pathlib.Path
    cluster: pathlib.Path
    measured_ms: List[float]

    def step_ms(self) -> float:
        """The median of all steps."""
        return statistics.median(self.measured_ms)


def tool(name: str, *words: object) -> str:
    """Standard output of a command on this machine."""
    done = subprocess.run([str(word) for word in (find_tool(name), *words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def on_hosts(network: hosts.Network, words: List[object]) -> str:
    """Standard output of rank 0; each rank has a core."""
    cores = sorted(os.sched_getaffinity(0))
    script = 'exec taskset -c "$(echo "$CORES" | cut -d, -f$((RANK + 1)))" "$@"'
    ranks = network.start_ranks(["sh", "-c", script, "sh", *words], env={"CORES": ",".join(map(str, cores[:network.count]))},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = [rank.communicate() for rank in ranks]
    for number, (rank, (_, errors)) in enumerate(zip(ranks, said)):
        if rank.returncode != 0:
            raise RuntimeError(f"rank {number} ended with {rank.returncode}: {errors.strip()[-500:]}")
    return said[0][0]


def profile(folder: pathlib.Path) -> Dict[str, Any]:
    """Measures both ranks at once, as they run; gives the database. Each rank is a host here, so collectives of one are dropped."""
    tool("autopar-profile", "--quick", "--quiet", "--ranks", 2, "--threads", 1, "-o", folder / "both.json", "--database", folder / "one.json")
    return {key: value for key, value in json.loads((folder / "one.json").read_text()).items() if key != "collectives"}


def measure_link(network: hosts.Network, folder: pathlib.Path, cluster: pathlib.Path) -> Dict[str, float]:
    """Writes the cluster file; gives the level between hosts."""
    host = json.loads((folder / "both.json").read_text())
    host["nodes"][0]["devices_per_node"] = 1
    (folder / "host.json").write_text(json.dumps(host))
    on_hosts(network, [find_tool("autopar-profile"), "--quick", "--quiet", "--hosts", folder / "host.json", "-o", cluster])
    return json.loads(cluster.read_text())["levels"][-1]


def compile_plans(folder: pathlib.Path, cluster: pathlib.Path, trains: bool) -> Iterator[Run]:
    """An artifact for each plan."""
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-4), clip_norm=1.0) if trains else None
    feed: List[object] = ["--data", "synthetic(vocab=1000)"] if trains else ["--input", "input_ids=zeros"]
    for plan, degrees in PLANS.items():
        if degrees and "pipeline" in degrees and not trains:
            continue
        options = ["--quiet", "--cluster", str(cluster)]
        if degrees:
            (folder / "plan.json").write_text(json.dumps({"kind": "degrees", "version": 1, **degrees}))
            options += ["--plan", str(folder / "plan.json")]
        elif trains:
            options += ["--stages", "auto", "--micro-batches", "auto"]
        artifact = cluster.with_name(f"{cluster.stem}-{'training' if trains else 'inference'}-{plan}.bin")
        autopar.compile(folder / "m.onnx", artifact, bind=BIND, train=train, options=options)
        yield Run(plan, feed, artifact, cluster, [])


def measure(network: hosts.Network, run: Run) -> None:
    """A few steps."""
    report = last_json(on_hosts(network, [find_tool("autopar-run"), run.artifact, *run.feed, "--threads", 1, "--benchmark", "--quiet",
                                          "--warmup", WARMUP, "--steps", STEPS]))
    run.measured_ms.extend(report["step_ms"])


def predicted_ms(run: Run, database: pathlib.Path) -> float:
    """What the simulation says of the artifact."""
    output = tool("autopar-run", run.artifact, "--simulate", run.cluster, "--profile-database", database, "--profile-fallback", "analytical",
                  "--json", "--quiet")
    return float(last_json(output)["step_ms"][0])


def cases_of(what: str, runs: List[Run], predicted: Dict[str, float]) -> Iterator[Dict[str, Any]]:
    """Each plan, then the chosen one against the fastest, with the order of plans in which each side sees them."""
    measured = {run.plan: run.step_ms() for run in runs}
    for plan, step_ms in measured.items():
        yield case(f"{what}, {plan}", predicted[plan], "ms", step_ms)
    fastest = min(measured, key=lambda plan: measured[plan])
    yield case(f"{what}: chosen / fastest ({fastest})", measured["chosen"], "ms", measured[fastest],
               predicted=sorted(predicted, key=lambda plan: predicted[plan]), measured=sorted(measured, key=lambda plan: measured[plan]),
               is_fastest=measured["chosen"] <= ALIKE * measured[fastest])


def cases() -> Iterator[Dict[str, Any]]:
    """Predicted milliseconds against measured ones for every link, and the mean of their errors."""
    if why := hosts.why_not():
        raise RuntimeError(f"no hosts can be made here: {why}")
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = pathlib.Path(name)
        models.save("gpt2-124m", folder / "m.onnx", **SIZES)
        profile(folder)
        subjects: Dict[str, Dict[str, List[Run]]] = {}
        for number, (link, (mbit, latency_us)) in enumerate(LINKS.items()):
            cluster = folder / f"cluster-{number}.json"
            with hosts.Network(2, mbit, latency_us) as network:
                found = measure_link(network, folder, cluster)
            yield case(f"{link}: rate of the link", found["bytes_per_s"] * 8e-6, "Mbit/s", mbit, latency_us=found["latency_us"])
            subjects[link] = {kind: list(compile_plans(folder, cluster, kind == "training")) for kind in ("inference", "training")}
        # The speed of a machine may change meanwhile, so that profiles and runs take turns.
        databases = []
        for _ in range(ROUNDS):
            databases.append(profile(folder))
            for link, kinds in subjects.items():
                with hosts.Network(2, *LINKS[link]) as network:
                    for run in (run for runs in kinds.values() for run in runs):
                        measure(network, run)
        (folder / "joined.json").write_text(json.dumps(join(databases)))
        errors = []
        for link, kinds in subjects.items():
            for kind, runs in kinds.items():
                predicted = {run.plan: predicted_ms(run, folder / "joined.json") for run in runs}
                errors += [abs(predicted[run.plan] / run.step_ms() - 1) for run in runs]
                yield from cases_of(f"{link}: {kind}", runs, predicted)
        yield case("mean error of the step", statistics.mean(errors), "", 0.15, largest=round(max(errors), 3))
