# SPDX-License-Identifier: Apache-2.0
"""Plans of experts: the rows of docs/experts are read and checked, and a plan in degrees is planned at the size of a cluster."""

import json
import pathlib
import sys

import autopar
import pytest
from autopar import models

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from checks import bench_experts  # noqa: E402

CLUSTER, DEVICES = "presets:a100x8x128", 1024
DEGREES = {"kind": "degrees", "version": 1, "data": 16, "tensor": 8, "pipeline": 8, "micro_batch": 1}


def test_rows_are_read():
    rows = {row.name: row for row in bench_experts.rows()}
    row = rows["gpt3-175b-a100-384"]
    assert row.devices == 384
    assert row.published_throughput == pytest.approx(1536 * 2048 / 384 / 76.78)
    assert {row.model for row in rows.values()} == {"gpt3-175b", "llama3-8b", "llama3-70b", "llama3-405b", "mixtral-8x7b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3", "gpt-oss-120b"}
    assert all(8 <= row.devices <= 2048 for row in rows.values())
    assert [row.name for row in bench_experts.rows("mixtral")] == ["mixtral-8x7b-h100-32"]
    with pytest.raises(ValueError, match="no row has 'palm' in its name"):
        bench_experts.rows("palm")


def test_rows_are_in_the_document():
    text = (ROOT / "docs" / "ExpertPlans.md").read_text()
    for row in bench_experts.rows():
        assert f"| `{row.name}` |" in text


@pytest.mark.parametrize("change, why", [
    ({"kind": "degrees"}, 'expected "kind": "expert"'),
    ({"speed": 1}, r"unknown keys \['speed'\]"),
    ({"source": None}, r"missing keys \['source'\]"),
    ({"published": {}}, "published: expected one of"),
    ({"published": {"tflops_per_gpu": 150}}, "published: expected one of"),
    ({"source": {"title": "hearsay"}}, "source: expected a url"),
])
def test_rows_that_say_too_little_are_refused(tmp_path, change, why):
    row = json.loads((bench_experts.FOLDER / "gpt3-175b-a100-64.json").read_text())
    row = {key: value for key, value in {**row, **change}.items() if value is not None}
    (tmp_path / "row.json").write_text(json.dumps(row))
    with pytest.raises(ValueError, match=why):
        bench_experts.read(tmp_path / "row.json")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("experts") / "gpt3.onnx"
    models.save("gpt3-175b", path, weights=False, layers=8)
    return path


def planned(model, folder, batch=1024, **keys):
    degrees, plan = folder / "degrees.json", folder / "plan.json"
    degrees.write_text(json.dumps({**DEGREES, **keys}))
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-4))
    autopar.compile(model, plan, bind={"batch": batch, "seq": 2048}, cluster=CLUSTER, train=train,
                    options=["--quiet", "--plan-only", "--precision", "bf16", "--plan", str(degrees)])
    return json.loads(plan.read_text())


def test_degrees_on_a_thousand_devices_are_planned_and_fit(model, tmp_path):
    kept, full = (planned(model, tmp_path, recompute=word) for word in ("none", "full"))
    for plan in (kept, full):
        assert plan["devices"] == DEVICES and len(plan["stages"]) == 8 and plan["time"]["micro_batches"] == 64
        assert [axis["size"] for axis in next(iter(plan["meshes"].values()))["axes"]] == [16, 8]
        assert 0 < plan["believed"]["peak_bytes"][0] < 76.1 * 2**30  # what a preset leaves of an A100
    assert not kept.get("recompute") and full["recompute"]
    # A layer once more forward: about a third of the step.
    assert 1.15 < full["believed"]["step_us"] / kept["believed"]["step_us"] < 1.4
    assert full["believed"]["peak_bytes"][0] < kept["believed"]["peak_bytes"][0]


def test_degrees_that_do_not_divide_a_thousand_devices_are_refused(model, tmp_path):
    with pytest.raises(autopar.Error, match=r"data, context, tensor, pipeline: 16 x 1 x 8 x 12 ranks, but there are 1024"):
        planned(model, tmp_path, pipeline=12)
    with pytest.raises(autopar.Error, match=r"data: is 16, which does not divide the batch of 1000 samples"):
        planned(model, tmp_path, batch=1000)


def test_degrees_that_do_not_fit_are_refused_with_what_they_need(model, tmp_path):
    with pytest.raises(autopar.Error, match=r"with every layer computed again a device needs \d+ bytes of"):
        planned(model, tmp_path, data=1024, tensor=1, pipeline=1, recompute="full")
