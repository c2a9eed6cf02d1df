# SPDX-License-Identifier: Apache-2.0
"""Chains and graphs of operations that were measured elsewhere are planned as models are, and a planner that does not look at AutoPar agrees."""

import itertools
import json
import pathlib
import re
import subprocess
from typing import Any, Dict, List

import profile_chains as chains
import pytest
import test_plan_format

from autopar.tools import find_tool

SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "docs" / "profile.schema.json").read_text())
LINK = {"latency_us": 7.0, "bytes_per_s": 2e11}
MEMORY_BYTES_PER_S = 1e12


def cluster(folder: pathlib.Path, devices: int) -> pathlib.Path:
    path = folder / f"cluster{devices}.json"
    path.write_text(json.dumps({
        "kind": "autopar.cluster", "version": 1, "name": "two",
        "device_types": [{"name": "d", "peak_flops_per_s": {"f32": 1e14}, "memory_bytes_per_s": MEMORY_BYTES_PER_S, "memory_bytes": 80_000_000_000}],
        "nodes": [{"count": 1, "devices_per_node": devices, "device_type": "d"}], "levels": [{"name": "inside", **LINK}]}))
    return path


def compile_words(words: List[str], *options: Any) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in [find_tool("autopar-compile"), *words, "--plan-only", "--quiet", *options]], capture_output=True, text=True)


def planned(words: List[str], folder: pathlib.Path, *options: Any) -> Dict[str, Any]:
    done = compile_words(words, "-o", folder / "plan.json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "plan.json").read_text())


# What two ranks can do with a value: whole on both, halves of the samples, halves of the hidden dimension, or two terms of a sum.
def moves_us(before: str, after: str, size: float, collectives: Dict[str, Dict[float, float]]) -> float:
    """docs/CostModel.md for two ranks: `size` are the bytes of the whole value."""
    def us(kind: str, held: float) -> float:
        if kind in collectives:
            return collectives[kind][held]
        once = LINK["latency_us"] + 1e6 * held / 2 / LINK["bytes_per_s"]
        direct = once
        bruck = LINK["latency_us"] + 1e6 * held / 2 / LINK["bytes_per_s"]
        return {"all_reduce": 2 * once, "all_gather": once, "reduce_scatter": once, "all_to_all": min(direct, bruck)}[kind]

    if before == after:
        return 0
    if before == "partial":
        return us("all_reduce" if after == "whole" else "reduce_scatter", size)
    if before == "whole":
        return 1e6 * 2 * size / 2 / MEMORY_BYTES_PER_S  # each rank copies its half
    return us("all_gather", size) if after == "whole" else us("all_to_all", size / 2)


def best_by_enumeration(profile: Dict[str, Any], graph: Dict[str, Any], collectives: Dict[str, Dict[float, float]]) -> float:
    """The time of the best of all plans of a chain on two ranks, each told by hand."""
    ops = {op["key"]: op for op in profile["ops"]}
    batch = graph["batch"]

    def ways(key: str):
        rows = {(row["batch"], row["degree"], row.get("choice")): row for row in ops[key]["rows"]}
        if (batch, 1, None) in rows:
            yield "whole", "whole", rows[batch, 1, None]["forward_us"]
        if batch > 1:
            yield "samples", "samples", rows[batch // 2, 1, None]["forward_us"]
        for choice in ops[key]["choices"]:
            yield choice["inputs"][0], choice["outputs"][0], rows[batch, 2, choice["name"]]["forward_us"]

    keys = [op["op"] for op in graph["ops"]]
    size = [next(row["bytes_out"] for row in ops[key]["rows"] if row["batch"] == batch and row["degree"] == 1) for key in keys]
    best = float("inf")
    for plan in itertools.product(*(list(ways(key)) for key in keys)):
        total = sum(us for _, _, us in plan)
        total += sum(moves_us(plan[i][1], plan[i + 1][0], size[i], collectives) for i in range(len(plan) - 1))
        if plan[-1][1] == "partial":
            total += min(moves_us("partial", after, size[-1], collectives) for after in ("whole", "hidden"))
        best = min(best, total)
    return best


def tiny(us: Dict[str, float], token: int, batch: int) -> Dict[str, Any]:
    common: Dict[str, Any] = {"batches": sorted({max(1, batch // 2), batch}), "degrees": [1, 2]}
    choices = [chains.COLUMNS, chains.ROWS]
    profile = chains.database(common["batches"], [1, 2])
    profile["weight_dtype"] = "f32"
    profile["ops"] = [
        chains.operation("fc1", **common, us=us["fc1"], in_bytes=token, out_bytes=2 * token, weight=1024, choices=choices, floor=us["floor"]),
        chains.operation("norm", **common, us=us["norm"], in_bytes=2 * token, out_bytes=2 * token, floor=us["floor"]),
        chains.operation("fc2", **common, us=us["fc2"], in_bytes=2 * token, out_bytes=token, weight=1024, choices=choices, floor=us["floor"]),
    ]
    return profile


@pytest.mark.parametrize("us, token", [
    ({"fc1": 100, "norm": 1, "fc2": 100, "floor": 2}, 1 << 20), ({"fc1": 30, "norm": 20, "fc2": 1, "floor": 0}, 1 << 16),
    ({"fc1": 1, "norm": 1, "fc2": 1, "floor": 40}, 1 << 22), ({"fc1": 400, "norm": 0.5, "fc2": 3, "floor": 90}, 1 << 12)])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("measured", [False, True])
def test_the_plan_of_a_tiny_chain_is_the_best_of_all(us, token, batch, measured, tmp_path):
    profile = tiny(us, token, batch)
    graph = {"kind": "autopar.graph", "version": 1, "batch": batch,
             "ops": [{"id": "a", "op": "fc1"}, {"id": "b", "op": "norm"}, {"id": "c", "op": "fc2"}, {"id": "d", "op": "fc1"}]}
    collectives: Dict[str, Dict[float, float]] = {}
    if measured:
        sizes = sorted({size * token * batch // share for size in (1, 2) for share in (1, 2)})
        collectives = {kind: {size: 3 + rank + size / 5e4 for size in sizes}
                       for rank, kind in enumerate(["all_to_all", "reduce_scatter", "all_gather", "all_reduce"])}
        profile["collectives"] = [{"kind": kind, "ranks_per_node": 2, "times": [{"bytes": size, "us": time} for size, time in times.items()]}
                                  for kind, times in collectives.items()]
    plan = planned(chains.write(tmp_path, graph, profile), tmp_path, "--cluster", cluster(tmp_path, 2))
    assert plan["believed"]["step_us"] == pytest.approx(best_by_enumeration(profile, graph, collectives), rel=1e-9)


def test_a_chain_of_24_operations_is_planned_with_stages_micro_batches_and_schedule(tmp_path):
    words = chains.write(tmp_path, chains.chain(24, 512), chains.database())
    options = ["--cluster", "presets:h100x8", *chains.TRAINED, "--stages", "auto", "--micro-batches", "auto"]
    done = compile_words(words, "-o", tmp_path / "plan.json", *options, "--explain", "--report", tmp_path / "plan.html")
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert list(test_plan_format.violations(plan, test_plan_format.SCHEMA)) == []
    # At most 8 samples were measured at a time.
    assert 512 / 8 / plan["time"]["micro_batches"] <= 8
    assert "h.0.fc1" in plan["ops"] and "h.0.fc1/vjp.0" in plan["ops"]
    # Pipelines that were given up before they were solved are told of as well.
    assert re.search(r"^rejected:\n(  .*\n)*   *\+.* stages, .*\(estimated, at the least\)$", done.stdout, re.M), done.stdout
    assert "h.*.fc1" in (tmp_path / "plan.html").read_text()
    # Followed, it costs what was believed.
    again = planned(words, tmp_path, "--plan", tmp_path / "plan.json", "--cluster", "presets:h100x8", *chains.TRAINED)
    assert again["believed"]["step_us"] == pytest.approx(plan["believed"]["step_us"])


def test_less_memory_costs_time_and_is_kept(tmp_path):
    words = chains.write(tmp_path, chains.chain(24, 64), chains.database())
    options = ["--cluster", "presets:h100x8", *chains.TRAINED, "--stages", "auto", "--micro-batches", "auto"]
    free = planned(words, tmp_path, *options)["believed"]
    limit = int(0.7 * max(free["peak_bytes"]))
    tight = planned(words, tmp_path, *options, "--memory-limit", limit)["believed"]
    assert max(tight["peak_bytes"]) <= limit < max(free["peak_bytes"])
    assert free["step_us"] < tight["step_us"] < 1.5 * free["step_us"]


def test_stages_and_schedules(tmp_path):
    words = chains.write(tmp_path, chains.chain(26, 128), chains.database())
    options = ["--cluster", "presets:h100x8", *chains.TRAINED, "--stages", "2", "--micro-batches", "16"]
    plans = {name: planned(words, tmp_path, *options, "--pipeline-schedule", name) for name in ("gpipe", "1f1b", "zero-bubble")}
    assert all(len(plan["meshes"]) == 2 for plan in plans.values())
    assert plans["zero-bubble"]["believed"]["step_us"] < plans["1f1b"]["believed"]["step_us"]
    # What waits for the backward pass is held for all micro-batches under gpipe.
    assert max(plans["1f1b"]["believed"]["peak_bytes"]) < max(plans["gpipe"]["believed"]["peak_bytes"])


def test_saved_bytes_and_workspace_are_held(tmp_path):
    def peak(**changes: int) -> int:
        profile = chains.database([4], [1])
        for operation in profile["ops"]:
            for row in operation["rows"]:
                row.update(changes)
        words = chains.write(tmp_path, chains.chain(8, 8), profile)
        return planned(words, tmp_path, "--cluster", "presets:h100x2", "--mesh", "x=2", *chains.TRAINED, "--recompute", "none")["believed"]["peak_bytes"][0]

    mega = 1 << 30
    nothing = peak(saved_bytes=0, workspace_bytes=0)
    # Of one operation at a time, and of all eight until the first backward operation.
    assert peak(saved_bytes=0, workspace_bytes=mega) - nothing == pytest.approx(mega, rel=0.2)
    assert peak(saved_bytes=mega, workspace_bytes=0) - nothing == pytest.approx(8 * mega, rel=0.2)


def test_what_is_saved_is_recomputed_under_a_limit(tmp_path):
    profile = chains.database([4], [1])
    for operation in profile["ops"]:
        for row in operation["rows"]:
            row["saved_bytes"] = 1 << 30
    words = chains.write(tmp_path, chains.chain(14, 8), profile)
    options = ["--cluster", "presets:h100x2", "--mesh", "x=2", *chains.TRAINED]
    plan = planned(words, tmp_path, *options, "--memory-limit", "11G")
    assert plan["recompute"] and max(plan["believed"]["peak_bytes"]) <= 11 << 30
    times = {row["key"]: row["rows"][0]["forward_us"] for row in profile["ops"]}
    kinds = [name.rsplit(".", 1)[-1] for name in plan["recompute"] if "/" not in name]
    assert plan["believed"]["recompute_us"] >= sum(times[kind] for kind in kinds) > 0
    # The parts of the step add up to it, what is computed again included.
    assert sum(term["us"] for term in plan["believed"]["time"]) == pytest.approx(plan["believed"]["step_us"])
    assert [term["us"] for term in plan["believed"]["time"] if term["kind"] == "recompute"] == [plan["believed"]["recompute_us"]]
    # The cheap ones first.
    assert kinds.count("norm") == 4


def test_a_graph_with_branches(tmp_path):
    profile = chains.database()
    token = 2 * chains.MIB
    add = chains.operation("add", [1, 2, 4, 8], [1, 2, 4, 8], us=5, in_bytes=token, out_bytes=token, saved=0)
    add["inputs"] = 2
    for row in add["rows"]:
        row["bytes_in"] = [row["bytes_in"]] * 2
    profile["ops"].append(add)
    graph = {"kind": "autopar.graph", "version": 1, "batch": 32, "inputs": ["tokens"], "ops": [
        {"id": "embed", "op": "embed", "inputs": ["tokens"], "outputs": ["x"]},
        {"id": "norm", "op": "norm", "inputs": ["x"]},
        {"id": "up", "op": "fc1", "inputs": ["norm"]},
        {"id": "down", "op": "fc2", "inputs": ["up"], "outputs": ["delta"]},
        {"id": "join", "op": "add", "inputs": ["x", "delta"]},
        {"id": "loss", "op": "loss"}]}
    plan = planned(chains.write(tmp_path, graph, profile), tmp_path, "--cluster", "presets:h100x4", *chains.TRAINED)
    # The gradients of a value with two readers are added.
    assert "embed/vjp.sum" in plan["ops"] and plan["believed"]["step_us"] > 0


def test_degrees_are_followed(tmp_path):
    (tmp_path / "degrees.json").write_text(json.dumps({"kind": "degrees", "version": 1, "data": 2, "tensor": 4, "micro_batch": 4}))
    words = chains.write(tmp_path, chains.chain(8, 64), chains.database())
    plan = planned(words, tmp_path, "--cluster", "presets:h100x8", *chains.TRAINED, "--plan", tmp_path / "degrees.json")
    assert [axis["size"] for axis in plan["meshes"]["mesh"]["axes"]] == [2, 4]
    assert plan["time"]["micro_batches"] == 8
    tensor_split = [name for name, axes in plan["ops"].items() if name.endswith(("fc1", "fc2")) and "tensor" in sum(axes[1:], [])]
    assert len(tensor_split) == 4


def test_a_collective_within_the_measured_time_is_not_planned_again(tmp_path):
    def step(included: bool) -> Dict[str, Any]:
        profile = chains.database([8], [1, 8])
        for operation in profile["ops"]:
            operation["choices"] = [dict(choice) for choice in operation["choices"]]
            for choice in operation["choices"]:
                choice["collectives_included"] = included
                choice["outputs"] = ["whole" if included and word == "partial" else word for word in choice["outputs"]]
            operation["rows"] = [row for row in operation["rows"] if not operation["choices"] or row["degree"] == 8]
            operation["rows"] += [dict(row, degree=1, forward_us=1e6, backward_us=2e6) for row in []]
        for operation in profile["ops"]:
            if operation["choices"]:
                whole = chains.database([8], [1])["ops"][[op["key"] for op in profile["ops"]].index(operation["key"])]["rows"][0]
                operation["rows"].insert(0, dict(whole, forward_us=1e6, backward_us=2e6))
        words = chains.write(tmp_path, chains.chain(8, 8), profile)
        return planned(words, tmp_path, "--cluster", "presets:h100x8", "--mesh", "x=8", *chains.TRAINED)["believed"]

    kinds = {included: {term["kind"] for term in step(included)["time"]} for included in (True, False)}
    assert kinds[False] & {"all_reduce", "reduce_scatter"}
    assert step(True)["step_us"] < step(False)["step_us"]


def test_holes_are_refused_and_filled_where_told_to(tmp_path):
    profile = chains.database()
    hole = next(row for row in profile["ops"][2]["rows"] if row["batch"] == 4 and row.get("choice") == "rows" and row["degree"] == 2)
    profile["ops"][2]["rows"].remove(hole)
    words = chains.write(tmp_path, chains.chain(8, 8), profile)
    done = compile_words(words, "-o", tmp_path / "plan.json", "--cluster", "presets:h100x8")
    assert done.returncode != 0
    assert 'ops[2].rows: no row for "fc1" with batch 4, degree 2, choice "rows": measure it, or say --profile-fallback interpolate' in done.stderr
    assert "chain-profile.json" in done.stderr
    planned(words, tmp_path, "--cluster", "presets:h100x8", "--profile-fallback", "interpolate")


def test_a_hole_among_collectives_is_refused(tmp_path):
    profile = chains.database()
    profile["collectives"] = [{"kind": "all_reduce", "ranks_per_node": 8, "times": [{"bytes": 1, "us": 1}]}]
    words = chains.write(tmp_path, chains.chain(8, 8), profile)
    done = compile_words(words, "-o", tmp_path / "plan.json", "--cluster", "presets:h100x8")
    assert done.returncode != 0 and "collectives: no times of all_reduce with ranks_per_node 2, nodes 1" in done.stderr
    planned(words, tmp_path, "--cluster", "presets:h100x8", "--profile-fallback", "interpolate")


@pytest.mark.parametrize("options, message", [
    (["--cluster", "presets:h100x2", "--stages", "1"], "was measured on none of the sizes that it has on mesh x=2: it reads tensor<128x"),
    (["--cluster", "presets:h100x2", "--precision", "bf16"], "--precision: a graph of measured operations says its element types"),
    (["--cluster", "presets:h100x2", "--profile-fallback", "guess"], "--profile-fallback: expected none, interpolate or analytical"),
])
def test_refused(options, message, tmp_path):
    done = compile_words(chains.write(tmp_path, chains.chain(8, 256), chains.database()), "-o", tmp_path / "plan.json", *options)
    assert done.returncode != 0 and message in done.stderr, done.stderr


def test_a_graph_needs_a_profile_and_cannot_be_run(tmp_path):
    words = chains.write(tmp_path, chains.chain(8, 8), chains.database())
    assert "expected --profile db.json" in compile_words(words[:1], "--cluster", "presets:h100x2").stderr
    done = subprocess.run([str(find_tool("autopar-compile")), *words, "--cluster", "presets:h100x2", "-o", str(tmp_path / "a.bin")], capture_output=True, text=True)
    assert "can be planned, not run: expected --plan-only" in done.stderr and done.returncode != 0


# The file that docs/profile.schema.json describes is the one that is read.

def profile_violations(profile: Dict[str, Any]) -> List[str]:
    return list(test_plan_format.violations(profile, SCHEMA, "profile", SCHEMA))


def test_a_profile_is_what_the_schema_says():
    profile = chains.database()
    profile["collectives"] = [{"kind": "all_reduce", "ranks_per_node": 8, "nodes": 1, "times": [{"bytes": 1, "us": 1}]}]
    assert profile_violations(profile) == []


def test_a_profile_of_instructions_is_what_the_schema_says():
    extents = [{"name": "rows", "values": [1, 8], "reach": 4}]
    profile = {"kind": "autopar.profile", "version": 1, "instructions": [{"key": "product", "extents": extents, "us": [1, 2.5]}]}
    assert profile_violations(profile) == []
    assert profile_violations({**profile, "ops": [], "batches": [1], "degrees": [1]})


@pytest.mark.parametrize("place, value", [
    ("kind", "autopar.plan"), ("version", 2), ("batches", []), ("batches/0", 0), ("degrees", "1"), ("dtype", "f64"), ("ops", []), ("unknown", 1),
    ("ops/0/key", 1), ("ops/0/unknown", 1), ("ops/0/rows/0/forward_us", "1"), ("ops/0/rows/0/forward_us", -1), ("ops/0/rows/0/forward_ms", 1),
    ("ops/0/rows/0/saved_bytes", 0.5), ("ops/2/choices/0/name", None), ("ops/2/choices/0/weight", "some"), ("ops/2/choices/0/collectives_included", 1),
    ("collectives/0/kind", "gossip"), ("collectives/0/times", []), ("collectives/0/times/0/us", -1)])
def test_what_the_schema_refuses_is_refused(place, value, tmp_path):
    profile = chains.database()
    profile["collectives"] = [{"kind": "all_reduce", "ranks_per_node": 8, "nodes": 1, "times": [{"bytes": 1, "us": 1}]}]
    target: Any = profile
    *path, last = [int(word) if word.isdigit() else word for word in place.split("/")]
    for word in path:
        target = target[word]
    target[last] = value
    assert profile_violations(profile)
    done = compile_words(chains.write(tmp_path, chains.chain(8, 8), profile), "-o", tmp_path / "plan.json", "--cluster", "presets:h100x8",
                         "--profile-fallback", "interpolate")
    assert done.returncode != 0 and str(path[0] if path else last) in done.stderr, done.stderr


@pytest.mark.parametrize("place", ["kind", "version", "batches", "degrees", "ops", "ops/0/key", "ops/0/rows", "ops/0/rows/0/batch",
                                   "ops/0/rows/0/forward_us", "ops/0/rows/0/bytes_in", "ops/2/choices/0/inputs"])
def test_what_the_schema_requires_is_required(place, tmp_path):
    profile = chains.database()
    target: Any = profile
    *path, last = [int(word) if word.isdigit() else word for word in place.split("/")]
    for word in path:
        target = target[word]
    del target[last]
    assert profile_violations(profile)
    done = compile_words(chains.write(tmp_path, chains.chain(8, 8), profile), "-o", tmp_path / "plan.json", "--cluster", "presets:h100x8")
    assert done.returncode != 0 and f"{last}: missing" in done.stderr, done.stderr
