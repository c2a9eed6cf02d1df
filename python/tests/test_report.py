# SPDX-License-Identifier: Apache-2.0
"""What a person looks at: the HTML page of a plan, what differs between two, what else was possible."""

import html.parser
import json
import pathlib
import re
import subprocess
from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
import small_gpt2

from autopar import models
from autopar.tools import find_tool

TRAIN = ["--train", f"loss={small_gpt2.LOSS}", "--optimizer", "adamw(lr=1e-3)"]
PARTS = ["parameters", "optimizer", "gradients", "activations", "workspace"]
CLOSES_ITSELF = {"meta", "br", "img", "input", "link", "hr"}


class Page(html.parser.HTMLParser):
    """Checks that elements close in the order in which they opened, and keeps what could be loaded from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: List[str] = []
        self.links: List[str] = []
        self.data = ""
        self.in_data = False
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        if tag not in CLOSES_ITSELF:
            self.open.append(tag)
        self.links += [value for key, value in attributes if key in ("src", "href")]
        self.in_data = dict(attributes).get("id") == "data"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.in_data = False

    def handle_data(self, data):
        if self.in_data:
            self.data += data


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return small_gpt2.save(tmp_path_factory.mktemp("model"), layers=2)


def run(*words: Any, code: int = 0) -> str:
    done = subprocess.run([find_tool("autopar-compile"), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout if code in (0, 1) else done.stderr


def plan_of(model: pathlib.Path, path: pathlib.Path, *options: Any, ranks: int = 4) -> Dict[str, Any]:
    run(model, "--bind", f"batch={small_gpt2.BATCH},seq={small_gpt2.SEQ}", "--ranks", ranks, "--plan-only", "-o", path, "--quiet", *TRAIN, *options)
    return json.loads(path.read_text())


def check_belief(believed: Dict[str, Any]) -> None:
    """Parts of the time make up the whole; those of the memory are of operations, the whole is of kernels."""
    assert sum(term["us"] for term in believed["time"]) == pytest.approx(believed["step_us"], rel=1e-6)
    assert len(believed["memory"]) == len(believed["peak_bytes"])
    for memory, peak in zip(believed["memory"], believed["peak_bytes"]):
        assert memory.keys() == set(PARTS) and 0.3 * peak < sum(memory.values()) < 3 * peak


@pytest.mark.parametrize("options", [[], ["--micro-batches", "2"], ["--stages", "2", "--micro-batches", "4"],
                                     ["--stages", "2", "--micro-batches", "4", "--pipeline-schedule", "zero-bubble", "--mesh", "data=2"],
                                     ["--stages", "2", "--micro-batches", "4", "--mesh", "data=1/tensor=3"]])
def test_a_report_tells_the_plan(model, tmp_path, options):
    plan = plan_of(model, tmp_path / "plan.json", "--report", tmp_path / "plan.html", *options)
    text = (tmp_path / "plan.html").read_text()
    page = Page(text)
    assert page.links == [] and "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", text) and "@import" not in text
    data = json.loads(page.data)
    believed = plan["believed"]
    check_belief(believed)
    assert data["plan"]["believed"] == believed and data["plan"]["meshes"] == plan["meshes"]
    assert (data["samples"], data["tokens"]) == (small_gpt2.BATCH, small_gpt2.BATCH * small_gpt2.SEQ)
    # Every parameter is in one line of the table, and the timeline ends with the step.
    parameters = [row for row in data["rows"] if row["parameter"]]
    assert sum(row["count"] for row in parameters) == sum(1 for name in plan["shard"] if name.endswith(("weight", "bias")) and not name.startswith("output:"))
    assert any(row["name"] == "transformer.h.*.mlp.c_fc.weight" and row["count"] == 2 for row in parameters)
    assert max(slice[6] for slice in data["timeline"]) == pytest.approx(believed["step_us"])
    if "--stages" in options:
        rows = [tuple(slice[1:5]) for slice in data["timeline"] if slice[1] in "FBW"]
        assert len({row for row in rows if row[0] == "F"}) == 2 * 4
        assert len(believed["peak_bytes"]) == 2


def test_an_empty_queue_never_overlaps_itself(model, tmp_path):
    plan_of(model, tmp_path / "plan.json", "--report", tmp_path / "plan.html", "--stages", "2", "--micro-batches", "4")
    data = json.loads(Page((tmp_path / "plan.html").read_text()).data)
    for queue in range(len(data["queues"])):
        slices = sorted((slice[5], slice[6]) for slice in data["timeline"] if slice[0] == queue)
        assert all(end <= start + 1e-6 for (_, end), (start, _) in zip(slices, slices[1:]))


@pytest.mark.parametrize("options", [[], ["--stages", "2", "--micro-batches", "4"]])
def test_a_trace_has_the_step_of_the_plan(model, tmp_path, options):
    plan = plan_of(model, tmp_path / "plan.json", "--trace", tmp_path / "trace.json", *options)
    trace = json.loads((tmp_path / "trace.json").read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    believed = plan["believed"]["step_us"]
    assert trace["otherData"]["step_us"] == believed
    assert max(slice["ts"] + slice["dur"] for slice in slices) == pytest.approx(believed)
    named = {event["tid"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert {slice["tid"] for slice in slices} <= named
    names = {slice["name"] for slice in slices}
    if options:
        assert {f"F, stage {stage}, micro-batch {number}" for stage in range(2) for number in range(4)} <= names
    else:
        assert set(names) > {name for name in plan["ops"] if name.endswith("mlp.c_fc/MatMul")}, "no operation is folded away"


def test_rejected_plans_can_be_followed(model, tmp_path):
    plan = plan_of(model, tmp_path / "plan.json", "--emit-alternatives", tmp_path / "others")
    rejected = plan["believed"]["alternatives"]
    files = sorted((tmp_path / "others").iterdir())
    assert 1 <= len(files) == len(rejected) <= 3
    for file, other in zip(files, rejected):
        # Followed, it costs what was told, and it does without the choice.
        again = plan_of(model, tmp_path / "again.json", "--plan", file)
        assert again["believed"]["step_us"] == pytest.approx(other["step_us"], rel=1e-4)
        assert other["step_us"] >= plan["believed"]["step_us"] * 0.99, "the search is no proof, but near"
        name, axes = re.fullmatch(r"(.*): not \[(.*)\](?: \(\d+ times\))?", other["change"]).groups()
        assert axes_of(plan, name) == {axes} and axes not in axes_of(again, name)
        assert run("--compare", tmp_path / "plan.json", file, code=1)


def axes_of(plan: Dict[str, Any], pattern: str) -> set:
    """As in demands; of all names that the pattern means."""
    expression = re.compile(re.escape(pattern).replace(r"\*", "[^./]*"))
    lists = [value for table in ("shard", "ops") for name, value in plan[table].items() if expression.fullmatch(name)]
    return {", ".join("*".join(axes) or "-" for axes in dims) for dims in lists}


def test_a_plan_that_is_given_is_costed(model, tmp_path):
    found = plan_of(model, tmp_path / "found.json")
    given = json.loads((tmp_path / "found.json").read_text())
    del given["believed"]
    (tmp_path / "given.json").write_text(json.dumps(given))
    costed = plan_of(model, tmp_path / "costed.json", "--plan", tmp_path / "given.json")
    assert costed["believed"]["step_us"] == pytest.approx(found["believed"]["step_us"], rel=1e-4)
    assert costed["believed"]["time"] == found["believed"]["time"] and costed["believed"]["memory"] == found["believed"]["memory"]


def parts_over_data(model: pathlib.Path, plan: Dict[str, Any], suffix: str) -> float:
    """Into how many parts the axis "data" cuts the parameters, or what the optimizer keeps of them, on average of the elements."""
    sizes = {axis["name"]: axis["size"] for axis in next(iter(plan["meshes"].values()))["axes"]}
    whole = held = 0.0
    for parameter in (initializer for initializer in onnx.load(model).graph.initializer if initializer.data_type == onnx.TensorProto.FLOAT):
        dims = plan["shard"].get(parameter.name + suffix, [])
        elements = float(np.prod(parameter.dims))
        whole += elements
        held += elements / (sizes["data"] if any("data" in axes for axes in dims) else 1)
    return whole / held


@pytest.mark.parametrize("degrees, roles, words", [
    ({"data": 4}, {"data": "samples"}, ["data = 4 +data parallel", "parameters +.* on a rank, as they are used"]),
    ({"data": 4, "zero": 1}, {"data": "samples"}, [r"optimizer state +1/.* \(as ZeRO-1 and 2 do\)", "not in parts +they would take .* of a device"]),
    ({"data": 4, "zero": 3}, {"data": "samples"}, [r"parameters +1/.* \(as ZeRO-3 and FSDP do\)"]),
    ({"tensor": 4}, {"tensor": "model"}, ["tensor = 4 +tensor parallel"]),
    ({"context": 4}, {"context": "positions"}, ["context = 4 +context parallel"]),
    ({"data": 2, "tensor": 2, "zero": 1}, {"data": "samples", "tensor": "model"}, ["data = 2 +data parallel", "tensor = 2 +tensor parallel"]),
    ({"data": 2, "pipeline": 2, "micro_batch": 1}, {"data": "samples"},
     ["pipeline +2 stages on 2 groups of ranks, schedule 1f1b, 4 micro-batches", "s1 .* operations on m1: transformer.h."]),
])
def test_a_plan_is_told_in_the_words_of_its_degrees(model, tmp_path, degrees, roles, words):
    (tmp_path / "degrees.json").write_text(json.dumps({"kind": "degrees", "version": 1, **degrees}))
    # What zero permits is done where it is faster; this is held.
    hold = ["--constrain", "transformer.h.*.mlp.c_fc.weight: [data, -]"] if degrees.get("zero") == 3 else []
    said = run(model, "--bind", f"batch={small_gpt2.BATCH},seq={small_gpt2.SEQ}", "--ranks", 4, "--plan-only", "-o", tmp_path / "plan.json", *TRAIN,
               "--plan", tmp_path / "degrees.json", "--explain", *hold)
    plan = json.loads((tmp_path / "plan.json").read_text())
    for line in words:
        assert re.search(f"^  {line}", said, re.M), said
    uses = {use.pop("axis"): use for use in plan["believed"]["axes"]}
    for axis, role in roles.items():
        assert uses[axis][role] > 0.5 and sum(uses[axis].values()) <= 1.0001
        # What has no positions, such as the loss, is shared otherwise or not at all.
        assert role == "positions" or uses[axis][role] == max(uses[axis].values())
    if set(degrees) <= {"data", "zero"}:
        assert uses["data"]["samples"] > 0.9 and uses["data"]["model"] < 0.01, "the update in parts is no tensor parallelism"
    for state in plan["believed"]["state"]:
        assert state["optimizer"] == pytest.approx(2 * state["parameters"], rel=0.05)
        if len(plan["stages"]) == 1 and "data" in roles:
            assert state["parameter_parts"] == pytest.approx(parts_over_data(model, plan, ""), rel=0.05)
            assert state["optimizer_parts"] == pytest.approx(parts_over_data(model, plan, "/mean"), rel=0.05)


def test_what_is_multiplied_as_it_lies_is_not_told_as_gathered(model, tmp_path):
    """On an axis that divides samples here and matrices there, each parameter is told by how it is read."""
    plan = plan_of(model, tmp_path / "plan.json", "--mesh", "x=4", "--constrain", "transformer.h.*.mlp.c_fc.weight: [-, x], /transformer/h.*/mlp/c_fc/Gemm: [-, -, x, -]")
    told = plan["believed"]["state"][0]
    plan = plan_of(model, tmp_path / "plan.json", "--mesh", "x=4", "--constrain", "transformer.h.*.mlp.c_fc.weight: [-, x], /transformer/h.*/mlp/c_fc/Gemm: [x, -, -, -]")
    gathered = plan["believed"]["state"][0]
    assert plan["shard"]["transformer.h.0.mlp.c_fc.weight"] == [[], ["x"]]
    assert told["parameter_parts"] < gathered["parameter_parts"], (told, gathered)


def test_carried_caches_are_no_state_of_an_optimizer(tmp_path):
    models.save("llama3-8b", tmp_path / "llama.onnx", layers=1, hidden=32, heads=4, vocab=61, positions=64, opset=24, cache=24)
    said = run(tmp_path / "llama.onnx", "--bind", "batch=4,seq=1", "--ranks", 2, "--carry", "present.*=past_key_values.*", "--plan-only", "-o",
               tmp_path / "plan.json", "--explain", "--report", tmp_path / "plan.html")
    assert "optimizer" not in said and "ZeRO-1" not in said and re.search(r"^ +\d.* %  .*  carried state$", said, re.M), said
    assert all(state["optimizer"] == 0 for state in json.loads((tmp_path / "plan.json").read_text())["believed"]["state"])


def test_state_in_host_memory_is_none_of_a_device(model, tmp_path):
    plan = plan_of(model, tmp_path / "plan.json", "--mesh", "data=4", "--offload", "state")
    assert plan["offload"] and plan["believed"]["state"][0]["optimizer"] == 0


def test_the_parts_of_a_step_and_of_its_peak_are_told(model, tmp_path):
    said = run(model, "--bind", f"batch={small_gpt2.BATCH},seq={small_gpt2.SEQ}", "--ranks", 4, "--plan-only", "-o", tmp_path / "plan.json", *TRAIN,
               "--emit-alternatives", tmp_path / "others", "--explain")
    believed = json.loads((tmp_path / "plan.json").read_text())["believed"]
    parts = {title: [float(line.split(" %")[0]) for line in lines.splitlines()] for title, lines in re.findall(r"^(the step|a device|rejected).*:.*\n((?:  .*\n)+)", said, re.M)}
    assert sum(parts["the step"]) == pytest.approx(100, abs=0.5) and sum(parts["a device"]) == pytest.approx(100, abs=1)
    dearer = sorted(100 * (other["step_us"] / believed["step_us"] - 1) for other in believed["alternatives"])
    assert parts["rejected"] == pytest.approx(dearer, abs=0.6)


def test_compare_tells_what_differs(model, tmp_path):
    plan_of(model, tmp_path / "a.json", "--mesh", "data=4")
    plan_of(model, tmp_path / "b.json", "--mesh", "data=2,tensor=2", "--micro-batches", "2")
    assert run("--compare", tmp_path / "a.json", tmp_path / "a.json") == ""
    text = run("--compare", tmp_path / "a.json", tmp_path / "b.json", code=1)
    assert text.startswith("mesh:\n  data=4 | data=2xtensor=2\nmicro-batches:\n  1 | 2\nshardings:\n")
    assert "transformer.h.*." in text and "output:transformer" not in text and "time:\n  step: " in text
    told = json.loads(run("--compare", tmp_path / "a.json", tmp_path / "b.json", "--explain=json", code=1))
    assert not told["equal"] and told["differences"][0] == {"group": "mesh", "name": "", "count": 1, "a": "data=4", "b": "data=2xtensor=2"}
    assert json.loads(run("--compare", tmp_path / "a.json", tmp_path / "a.json", "--explain=json")) == {"equal": True, "differences": []}


def test_what_cannot_be_told_is_refused(model, tmp_path):
    assert "cannot open 'a.json'" in run("--compare", "a.json", "b.json", code=66)
    bind = ["--bind", f"batch={small_gpt2.BATCH},seq={small_gpt2.SEQ}"]
    assert "nothing is planned for one rank" in run(model, *bind, "--report", tmp_path / "x.html", code=2)
    assert "absent" in run(model, *bind, "--ranks", 2, "--report", tmp_path / "absent" / "x.html", "--plan-only", "-o", tmp_path / "p.json", code=73)
