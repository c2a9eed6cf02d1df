# SPDX-License-Identifier: Apache-2.0
"""Models that are computed in two parts, one communicating while the other computes, answer what onnxruntime answers."""

import json
import math
import pathlib
import subprocess

import numpy as np
import onnxruntime
import pytest

import autopar
from autopar import models
from autopar.tools import find_tool

SMALL = {
    "gpt2-124m": dict(layers=2, hidden=64, heads=4, vocab=96, positions=64),
    "llama3-8b": dict(layers=2, hidden=64, heads=8, kv_heads=4, vocab=96, inner=96),
    "bert-base": dict(layers=2, hidden=64, heads=4, vocab=96, positions=64, inner=96),
}


def cluster(folder: pathlib.Path, ranks: int) -> str:
    """Devices that compute about as long as they communicate, beside each other."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({
        "kind": "autopar.cluster", "version": 1, "nodes": [{"count": 1, "devices_per_node": ranks, "device_type": "gpu"}],
        "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 3e9, "bf16": 3e9}, "memory_bytes_per_s": 1e12, "memory_bytes": 8 << 30, "cuda_chip": 90}],
        "levels": [{"latency_us": 1, "bytes_per_s": 1e8}]}))
    return str(path)


@pytest.mark.parametrize("name, plan, extents, target", [
    ("gpt2-124m", {"tensor": 2}, dict(batch=1, seq=64), "cpu"),
    ("gpt2-124m", {"tensor": 4}, dict(batch=4, seq=24), "cuda"),
    ("llama3-8b", {"tensor": 4}, dict(batch=1, seq=64), "cpu"),
    ("llama3-8b", {"tensor": 2, "sequence": True}, dict(batch=1, seq=64), "cpu"),
    ("llama3-8b", {"tensor": 2, "sequence": True}, dict(batch=2, seq=64), "cuda"),
    ("bert-base", {"tensor": 2}, dict(batch=2, seq=48), "cpu"),
    ("gpt2-124m", {"tensor": 2, "pipeline": 2, "micro_batch": 2}, dict(batch=4, seq=24), "cpu"),
    ("llama3-8b", {"tensor": 2, "data": 2}, dict(batch=4, seq=24), "cuda"),
])
def test_two_parts_answer_what_onnxruntime_answers(tmp_path, monkeypatch, name, plan, extents, target):
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"))
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "4")
    model = tmp_path / "m.onnx"
    models.save(name, model, **SMALL[name])
    (tmp_path / "plan.json").write_text(json.dumps({"kind": "degrees", **plan}))
    artifact = autopar.compile(model, tmp_path / "m.bin", bind=extents, cluster=cluster(tmp_path, math.prod(plan.get(kind, 1) for kind in ("data", "tensor", "pipeline"))),
                               options=["--target", target, "--plan", str(tmp_path / "plan.json"), "--emit-plan", str(tmp_path / "found.json")])
    assert json.loads((tmp_path / "found.json").read_text())["believed"]["operations_in_parts"] > 0
    text = subprocess.run([find_tool("autopar-translate"), "--dump", artifact], check=True, capture_output=True, text=True).stdout
    assert "/part0" in text and "/part1" in text
    random = np.random.default_rng(1)
    expected = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    inputs = {each.name: random.integers(0, 2 if "mask" in each.name or "type" in each.name else 96, (extents["batch"], extents["seq"]), dtype=np.int64)
              for each in expected.get_inputs()}
    with autopar.Session(artifact) as session:
        found = session.run(inputs)
    for output, value in zip(expected.get_outputs(), expected.run(None, inputs)):
        np.testing.assert_allclose(found[output.name], value, rtol=1e-3, atol=1e-4)


def test_training_is_not_written_in_parts(tmp_path):
    """What the backward pass reads would have to be joined; its products of weights fill the waits."""
    model = tmp_path / "m.onnx"
    models.save("gpt2-124m", model, **SMALL["gpt2-124m"])
    (tmp_path / "plan.json").write_text(json.dumps({"kind": "degrees", "tensor": 2}))
    artifact = autopar.compile(model, tmp_path / "m.bin", bind=dict(batch=4, seq=24), cluster=cluster(tmp_path, 2),
                               train=autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.1)),
                               options=["--plan", str(tmp_path / "plan.json")])
    text = subprocess.run([find_tool("autopar-translate"), "--dump", artifact], check=True, capture_output=True, text=True).stdout
    assert "all_reduce" in text and "/part0" not in text
