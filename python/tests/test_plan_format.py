# SPDX-License-Identifier: Apache-2.0
"""Plans are what docs/plan.schema.json says, and the compiler refuses what it does not say."""

import copy
import json
import pathlib
import subprocess
from typing import Any, Dict, Iterator

import pytest
import small_gpt2

import autopar
from autopar.tools import find_tool

SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "docs" / "plan.schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
KNOWN = {"$ref", "$schema", "$defs", "title", "description", "oneOf", "const", "enum", "type", "minimum", "maximum", "minItems", "required", "properties",
         "additionalProperties", "items"}


def violations(value: Any, schema: Dict[str, Any], place: str = "plan", root: Dict[str, Any] = SCHEMA) -> Iterator[str]:
    """The part of JSON Schema that the file uses."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        yield from violations(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], place, root)
    if "oneOf" in schema and sum(not list(violations(value, one, place, root)) for one in schema["oneOf"]) != 1:
        yield f"{place}: fits not exactly one of {len(schema['oneOf'])} forms"
    if "const" in schema and value != schema["const"]:
        yield f"{place}: is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: is none of {schema['enum']}"
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{place}: is no {kind}"
        return
    if isinstance(value, (int, float)) and value < schema.get("minimum", value):
        yield f"{place}: is below {schema['minimum']}"
    if isinstance(value, (int, float)) and value > schema.get("maximum", value):
        yield f"{place}: is above {schema['maximum']}"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{place}: is too short"
        for number, item in enumerate(value):
            yield from violations(item, schema.get("items", {}), f"{place}[{number}]", root)
    if isinstance(value, dict):
        yield from (f"{place}: lacks {key}" for key in schema.get("required", []) if key not in value)
        for key, item in value.items():
            known = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            if known is False:
                yield f"{place}: has {key}"
            else:
                yield from violations(item, known, f"{place}.{key}", root)


def compile_plan(model: pathlib.Path, *options: Any) -> subprocess.CompletedProcess:
    command = [find_tool("autopar-compile"), model, "--bind", f"batch={small_gpt2.BATCH},seq={small_gpt2.SEQ}", "--ranks", "4", "--plan-only", "--quiet",
               "--train", f"loss={small_gpt2.LOSS}", "--optimizer", "adamw(lr=1e-3)", *options]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return small_gpt2.save(tmp_path_factory.mktemp("model"), layers=2)


@pytest.fixture(scope="module")
def plan(model: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Any]:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    assert compile_plan(model, "-o", path, "--emit-alternatives", path.parent / "others").returncode == 0
    for other in (path.parent / "others").iterdir():
        assert not list(violations(json.loads(other.read_text()), SCHEMA))
    return json.loads(path.read_text())


def test_a_plan_is_what_the_schema_says(plan):
    assert list(violations(plan, SCHEMA["$defs"]["plan"])) == []
    assert list(violations(plan, SCHEMA)) == []


def test_so_is_one_with_stages(model, tmp_path):
    done = compile_plan(model, "-o", tmp_path / "plan.json", "--stages", "2", "--micro-batches", "4", "--pipeline-schedule", "zero-bubble")
    assert done.returncode == 0, done.stderr
    assert list(violations(json.loads((tmp_path / "plan.json").read_text()), SCHEMA["$defs"]["plan"])) == []


def test_so_is_one_that_computes_again_and_keeps_state_on_the_host(model, tmp_path):
    done = compile_plan(model, "-o", tmp_path / "plan.json", "--recompute", "full", "--offload", "all")
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["recompute"] and plan["offload"]
    assert list(violations(plan, SCHEMA["$defs"]["plan"])) == []


def test_what_is_demanded_beside_a_plan_is_what_the_plan_has(model, plan, tmp_path):
    """Or it is refused: a plan is followed, and would leave the demand behind."""
    (tmp_path / "flat.json").write_text(json.dumps(plan))
    done = compile_plan(model, "-o", tmp_path / "staged.json", "--stages", "2", "--micro-batches", "4", "--pipeline-schedule", "gpipe", "--mesh", "data=2")
    assert done.returncode == 0, done.stderr
    same = ["--stages", "2", "--micro-batches", "4", "--pipeline-schedule", "gpipe", "--mesh"]
    for mesh in ("data=2", "data=2/data=2", "data=2,tensor=1"):
        done = compile_plan(model, "-o", tmp_path / "again.json", "--plan", tmp_path / "staged.json", *same, mesh)
        assert done.returncode == 0, (mesh, done.stderr)
    for file, words, has in [("flat", ["--stages", "2"], "stages=1"), ("flat", ["--micro-batches", "2"], "micro-batches=1"),
                             ("flat", ["--mesh", "data=1"], "mesh="), ("staged", ["--stages", "4"], "stages=2"),
                             ("staged", ["--virtual-stages", "2"], "virtual-stages=1"), ("staged", ["--pipeline-schedule", "1f1b"], "schedule=gpipe"),
                             ("staged", ["--mesh", "tensor=2"], "mesh=data=2/data=2"), ("staged", ["--constrain", "mesh=data=1"], "mesh=data=2/data=2")]:
        done = compile_plan(model, "-o", tmp_path / "out.json", "--plan", tmp_path / f"{file}.json", *words)
        said = f"{file}.json demands {has}"
        assert done.returncode == 2 and said in done.stderr and f", but {words[0]} " in done.stderr, (words, done.stderr)


def set_at(plan: Dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split(".")
    for key in folders:
        plan = plan[int(key)] if isinstance(plan, list) else plan[key]
    plan[last] = value


@pytest.mark.parametrize("path, value", [
    ("version", 2), ("kind", "plan"), ("devices", 0), ("devices", "4"), ("size", 1), ("meshes.mesh.axes", {}), ("meshes.mesh.size", 4), ("stages", []),
    ("stages.0.depth", 1), ("time.micro_batches", 0), ("time.micro_batches", 1.5), ("time.parts", 2), ("schedule", 3), ("recompute", [3]),
    ("ops", []), ("ops.nothing", 3), ("shard.labels", [["x"], "y"]), ("shard.labels", {"dims": [], "whole": True}), ("believed.step_us", -1),
    ("believed.time", [{"us": 1}]), ("believed.memory", [{"words": 1}]), ("believed.peak_bytes", [1.5]), ("believed.alternatives", [{"change": "x"}]),
])
def test_schema_and_compiler_refuse_alike(model, plan, tmp_path, path, value):
    bad = copy.deepcopy(plan)
    set_at(bad, path, value)
    assert list(violations(bad, SCHEMA)), "the schema takes it"
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    done = compile_plan(model, "-o", tmp_path / "out.json", "--plan", tmp_path / "bad.json")
    assert done.returncode == 65 and path.split(".")[0].replace("size", "size") in done.stderr, done.stderr


@pytest.mark.parametrize("part, why", [("ops", 'names operation "nobody", which @main does not have'), ("shard", 'shard names "nobody"')])
def test_a_plan_that_names_nobody_is_refused_without_a_program_too(model, plan, tmp_path, part, why):
    edited = copy.deepcopy(plan)
    edited[part]["nobody"] = next(iter(plan[part].values()))
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    done = compile_plan(model, "--plan", tmp_path / "edited.json", "-o", tmp_path / "again.json")
    assert done.returncode != 0 and why in done.stderr, done
    assert not (tmp_path / "again.json").exists()


def test_a_plan_for_other_devices_is_refused(model, plan, tmp_path):
    (tmp_path / "bad.json").write_text(json.dumps({**plan, "devices": 8}))
    done = compile_plan(model, "-o", tmp_path / "out.json", "--plan", tmp_path / "bad.json")
    assert done.returncode == 78 and "bad.json: plan is for 8 devices, cluster" in done.stderr, done.stderr


@pytest.mark.parametrize("keys", [{"data": 0}, {"micro_batch": 0}, {"zero": 4}, {"sequence": 1}, {"expert": 2}, {"expert_tensor": 0}, {"version": 0}])
def test_degrees_are_refused_alike(model, tmp_path, keys):
    good = {"kind": "degrees", "version": 1, "data": 4}
    assert not list(violations(good, SCHEMA))
    assert list(violations({**good, **keys}, SCHEMA))
    (tmp_path / "bad.json").write_text(json.dumps({**good, **keys}))
    done = compile_plan(model, "-o", tmp_path / "out.json", "--plan", tmp_path / "bad.json")
    assert done.returncode == 65 and next(iter(keys)) in done.stderr, done.stderr


def test_a_plan_without_a_price_is_not_written(model, tmp_path):
    """No search splits a dimension over the axes of a mesh in this order."""
    weight = "transformer.h.0.mlp.c_fc.weight"
    done = compile_plan(model, "-o", tmp_path / "plan.json", "--constrain", "mesh=x=2xy=2, batch-axis=x, weight-axis=y")
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    for part, name, value, why in (("shard", weight, [["y", "x"], []], "no search has the value lie like that"),
                                   ("ops", f"{weight}/forward", [["y", "x"], []], "no search splits the operation like that")):
        bad = copy.deepcopy(plan)
        assert name in bad[part]
        bad[part][name] = value
        (tmp_path / "bad.json").write_text(json.dumps(bad))
        done = compile_plan(model, "-o", tmp_path / "out.json", "--plan", tmp_path / "bad.json")
        assert done.returncode == 65 and f"bad.json: {part}.{name}: has no price: {why}" in done.stderr, done.stderr
        assert not (tmp_path / "out.json").exists()


def test_experts_that_ranks_cannot_share_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plan.json").write_text('{"kind": "degrees", "version": 1, "data": 2, "experts": 3}')
    with pytest.raises(autopar.Error, match='experts: is 3, which does not divide the 2 "data" ranks that share them'):
        autopar.compile(small_gpt2.save(tmp_path, layers=1), tmp_path / "m.bin", bind={"batch": 2, "seq": 8}, ranks=2, options=["--plan", str(tmp_path / "plan.json")])


def test_a_plan_comes_through_a_pipe_too(model: pathlib.Path, plan: Dict[str, Any], tmp_path: pathlib.Path) -> None:
    """A pipe tells what it has once, and the compiler asks for devices and for placements."""
    text, given = json.dumps(plan), tmp_path / "given.json"
    given.write_text(text)
    command = [str(find_tool("autopar-compile")), str(model), "--bind", f"batch={small_gpt2.BATCH},seq={small_gpt2.SEQ}", "--quiet",
               "--train", f"loss={small_gpt2.LOSS}", "--optimizer", "adamw(lr=1e-3)", "--stop-after", "partition", "-o", str(tmp_path / "out.mlir")]
    modules = []
    for source, piped in ((str(given), None), ("/dev/stdin", text)):
        done = subprocess.run([*command, "--plan", source], input=piped, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        modules.append((tmp_path / "out.mlir").read_text())
    assert modules[0].replace(str(given), "/dev/stdin") == modules[1]
