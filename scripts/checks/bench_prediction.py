# SPDX-License-Identifier: Apache-2.0
"""Steps of ten models under three plans each, on two in-process ranks of one thread: what the simulation of the artifact says with
measured times of its instructions, against the clock; and the planned peak of memory against VmHWM.

The profile database knows none of the models. The speed of a machine may change while this runs, so that profiles and runs take
turns; both sides are medians over the rounds.
"""

import functools
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

from .measuring import case, last_json

RANKS = 2
ROUNDS = 3
WARMUP, STEPS = 1, 4
TOKENS = {"batch": 8, "seq": 128}
PLANS: Dict[str, Dict[str, int]] = {"data=2": {"data": 2}, "tensor=2": {"tensor": 2}, "pipeline=2": {"pipeline": 2, "micro_batch": 2}}


class Subject(NamedTuple):
    """A small model of the zoo."""

    model: str
    sizes: Dict[str, int]
    bind: Dict[str, int]
    inputs: List[str]
    trains: bool = False

    def __str__(self) -> str:
        return f"{self.model} {'training' if self.trains else 'inference'}"


SUBJECTS = [
    Subject("gpt2-124m", {"layers": 4, "hidden": 512, "heads": 8, "vocab": 8000}, TOKENS, ["input_ids=zeros"]),
    Subject("gpt2-124m", {"layers": 2, "hidden": 256, "heads": 4, "vocab": 4000}, TOKENS, [], True),
    Subject("llama3-1b", {"layers": 3, "hidden": 512, "heads": 8, "kv_heads": 4, "vocab": 4000, "inner": 1408}, TOKENS, ["input_ids=zeros"]),
    Subject("llama3-1b", {"layers": 2, "hidden": 256, "heads": 4, "kv_heads": 2, "vocab": 2000, "inner": 704}, TOKENS, [], True),
    Subject("bert-base", {"layers": 4, "hidden": 512, "heads": 8, "vocab": 4000}, TOKENS,
            ["input_ids=zeros", "attention_mask=zeros", "token_type_ids=zeros"]),
    Subject("vit-b", {"layers": 3}, {"batch": 4}, ["pixel_values=random"]),
    Subject("vit-b", {"layers": 2, "hidden": 384, "heads": 6}, {"batch": 4}, [], True),
    Subject("t5-770m", {"layers": 3, "hidden": 512, "heads": 8, "vocab": 4000}, {"batch": 8, "seq": 64, "decoder_seq": 64},
            ["input_ids=zeros", "attention_mask=zeros", "decoder_input_ids=zeros"]),
    Subject("resnet50", {}, {"batch": 4}, ["input=random"]),
    Subject("mixtral-8x7b", {"layers": 2, "hidden": 256, "heads": 4, "kv_heads": 2, "vocab": 2000}, {"batch": 4, "seq": 64}, ["input_ids=zeros"]),
]


class Prepared(NamedTuple):
    """An artifact and what was measured of it."""

    name: str
    artifact: pathlib.Path
    feed: List[str]
    trains: bool
    rounds: List[Dict[str, Any]]

    def step_ms(self) -> float:
        """The median of all steps but the first of a training, which no warm-up precedes: memory is touched in it."""
        return statistics.median(ms for one in self.rounds for ms in one["step_ms"][self.trains:])

    def spread(self) -> float:
        """Between the fastest and the slowest round, relative to the mean."""
        medians = [statistics.median(one["step_ms"][self.trains:]) for one in self.rounds]
        return (max(medians) - min(medians)) / statistics.mean(medians)


def prepare(folder: pathlib.Path) -> Iterator[Prepared]:
    """Compiles every subject under every plan."""
    for number, subject in enumerate(SUBJECTS):
        model = folder / f"{number}.onnx"
        models.save(subject.model, model, **subject.sizes)
        train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-4), clip_norm=1.0) if subject.trains else None
        feed = ["--data", "synthetic(vocab=1000)"] if subject.trains else [word for name in subject.inputs for word in ("--input", name)]
        for plan, degrees in PLANS.items():
            file, artifact = folder / "plan.json", folder / f"{number}-{plan}.bin"
            file.write_text(json.dumps({"kind": "degrees", "version": 1, **degrees}))
            autopar.compile(model, artifact, bind=subject.bind, ranks=RANKS, train=train, options=["--quiet", "--plan", str(file)])
            yield Prepared(f"{subject}, {plan}", artifact, feed, subject.trains, [])


def run(*words: object) -> str:
    """Standard output of a tool, pinned to as many cores as there are ranks."""
    pin = functools.partial(os.sched_setaffinity, 0, sorted(os.sched_getaffinity(0))[:RANKS])
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, preexec_fn=pin)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def join(databases: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The median of every time."""
    joined = json.loads(json.dumps(databases[0]))
    for place, instruction in enumerate(joined["instructions"]):
        instruction["us"] = [statistics.median(times) for times in zip(*(one["instructions"][place]["us"] for one in databases))]
    for place, collective in enumerate(joined.get("collectives", [])):
        for index, time in enumerate(collective["times"]):
            time["us"] = statistics.median(one["collectives"][place]["times"][index]["us"] for one in databases)
    return joined


def measure(prepared: List[Prepared], folder: pathlib.Path) -> Dict[str, Any]:
    """One round: a profile, then every artifact; gives the database."""
    cluster, database = folder / "cluster.json", folder / "profile.json"
    run(find_tool("autopar-profile"), "--quick", "--quiet", "--ranks", RANKS, "--threads", 1, "-o", cluster, "--database", database)
    for one in prepared:
        output = run(find_tool("autopar-run"), one.artifact, *one.feed, "--threads", 1, "--benchmark", "--quiet", "--warmup", WARMUP, "--steps", STEPS)
        one.rounds.append(last_json(output))
    return json.loads(database.read_text())


def process_bytes(folder: pathlib.Path) -> int:
    """What a process has besides the planned arenas (code of libraries, compiled products), of a model that is none of the ten."""
    model, artifact = folder / "small.onnx", folder / "small.bin"
    models.save("bert-base", model, layers=1, hidden=128, heads=2, vocab=500)
    autopar.compile(model, artifact, bind={"batch": 2, "seq": 32}, ranks=RANKS, options=["--quiet"])
    feed = [word for name in ("input_ids", "attention_mask", "token_type_ids") for word in ("--input", f"{name}=zeros")]
    report = last_json(run(find_tool("autopar-run"), artifact, *feed, "--threads", 1, "--benchmark", "--quiet"))
    return int(report["peak_bytes"] - report["planned_bytes"])


def predicted_ms(artifact: pathlib.Path, folder: pathlib.Path) -> float:
    """The step of an artifact in simulation."""
    output = run(find_tool("autopar-run"), artifact, "--simulate", folder / "cluster.json", "--profile-database", folder / "joined.json",
                 "--profile-fallback", "analytical", "--json", "--quiet")
    return float(last_json(output)["step_ms"][0])


def cases(kept: Optional[pathlib.Path] = None) -> Iterator[Dict[str, Any]]:
    """Predicted milliseconds against measured ones, peaks of memory, and the means of their errors."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = kept or pathlib.Path(name)
        prepared = list(prepare(folder))
        databases = [measure(prepared, folder) for _ in range(ROUNDS)]
        (folder / "joined.json").write_text(json.dumps(join(databases)))
        own = process_bytes(folder)
        errors, memory = [], []
        for one in prepared:
            ratio = predicted_ms(one.artifact, folder) / one.step_ms()
            errors.append(abs(ratio - 1))
            peak = max(each["peak_bytes"] for each in one.rounds)
            planned = one.rounds[0]["planned_bytes"] + own
            memory.append(abs(planned / peak - 1))
            yield case(one.name, ratio * one.step_ms(), "ms", one.step_ms(), spread=round(one.spread(), 3),
                       peak_mib=round(peak / 2**20, 1), peak_ratio=round(planned / peak, 3))
        yield case("mean error of the step", statistics.mean(errors), "", 0.10, largest=round(max(errors), 3))
        yield case("mean error of the peak", statistics.mean(memory), "", 0.03, largest=round(max(memory), 3))
