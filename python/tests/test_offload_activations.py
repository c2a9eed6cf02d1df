# SPDX-License-Identifier: Apache-2.0
"""Values of the forward pass that wait in host memory for the backward pass: what is learnt is that of the same plan without, bit by bit."""

import json
import pathlib
import subprocess
from typing import Any, Dict

import numpy as np
import pytest

import autopar
from autopar import models

import emulated_cuda
from test_offload import BATCH, SEQ, STEP, VOCAB, compile_step, folder_in, memory, refusal, trained


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("activations") / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=3, hidden=64, heads=4, vocab=VOCAB, positions=SEQ)
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A device that computes at 100 GFLOP/s; copies between it and the host take 0.1 us and go at 20 GB/s."""
    path = tmp_path_factory.mktemp("cluster") / "cluster.json"
    device = {"name": "device", "peak_flops_per_s": {"f32": 1e11}, "memory_bytes_per_s": 1e11, "memory_bytes": 1 << 34, "host_memory_bytes": 1 << 34,
              "host_link": {"latency_us": 0.1, "bytes_per_s": 2e10}}
    path.write_text(json.dumps({"kind": "autopar.cluster", "version": 1, "name": "slow", "device_types": [device],
                                "nodes": [{"count": 1, "devices_per_node": 1, "device_type": "device"}], "levels": [{"latency_us": 1, "bytes_per_s": 1e10}]}))
    return path


def waiting(plan: pathlib.Path, target: pathlib.Path) -> Dict[str, Any]:
    """Writes a plan in which all that `plan` computes again waits in host memory instead."""
    told = json.loads(plan.read_text())
    assert told["recompute"] and "offload_activations" not in told
    told["offload_activations"], told["recompute"] = told["recompute"], []
    target.write_text(json.dumps(told))
    return told


PLANS = {
    "one rank": ["--cluster", "presets:cpux1"],
    "data, bf16": ["--ranks", "2", "--mesh", "data=2", "--precision", "bf16"],
    "tensors and micro-batches": ["--ranks", "4", "--mesh", "data=2,tensor=2", "--micro-batches", "2"],
    "a pipeline": ["--ranks", "2", "--stages", "2", "--micro-batches", "4"],
    "a pipeline whose weight gradients wait": ["--ranks", "2", "--stages", "2", "--micro-batches", "4", "--pipeline-schedule", "zero-bubble"],
}


@pytest.mark.parametrize("name", PLANS)
def test_it_learns_the_same_bits(model: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    again = compile_step(model, tmp_path / "again.json", *PLANS[name], "--recompute", "full", "--plan-only")
    waiting(again, tmp_path / "waits.json")
    keep = ("--cluster", "--precision", "--stages", "--ranks", "--micro-batches", "--pipeline-schedule")
    asked = [word for pair in zip(PLANS[name][::2], PLANS[name][1::2]) if pair[0] in keep for word in pair]
    (tmp_path / "kept.json").write_text(json.dumps({**json.loads(again.read_text()), "recompute": []}))
    kept, recomputed, offloaded = (compile_step(model, tmp_path / f"{name}.bin", *asked, "--plan", tmp_path / f"{name}.json") for name in ("kept", "again", "waits"))
    expected = trained(kept, 3, folder_in(tmp_path, "kept"))
    assert len(set(expected[0])) == 3
    assert trained(offloaded, 3, folder_in(tmp_path, "waits")) == expected
    assert trained(recomputed, 3, folder_in(tmp_path, "again")) == expected
    assert memory(kept)[1] == memory(recomputed)[1] == 0 and memory(offloaded)[1] > 0


def test_a_gpu_learns_the_same_bits(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Captured steps, too."""
    random = np.random.default_rng(2)
    inputs = {name: random.integers(0, VOCAB, (BATCH, SEQ)) for name in ("input_ids", "labels")}
    words = ["--target", "cuda", "--precision", "bf16", "--cluster", "presets:cpux1"]
    again = compile_step(model, tmp_path / "again.json", *words, "--recompute", "full", "--plan-only")
    waiting(again, tmp_path / "waits.json")
    results = [emulated_cuda.run(compile_step(model, tmp_path / f"{plan.stem}.bin", *words, "--plan", plan), inputs, tmp_path / plan.stem, "--steps", "4")
               for plan in (again, tmp_path / "waits.json")]
    assert results[0].keys() == results[1].keys() and all(np.array_equal(results[0][key], results[1][key]) for key in results[0])


def step_us(artifact: pathlib.Path, cluster: pathlib.Path) -> float:
    run = subprocess.run([autopar.find_tool("autopar-run"), artifact, "--simulate", cluster, "--json"], capture_output=True, text=True, check=True, timeout=120)
    return 1e3 * float(json.loads(run.stdout)["step_ms"][0])


LARGE = ["--bind", f"batch=64,seq={SEQ}", *STEP[3:]]


def test_what_the_link_has_time_for_is_not_computed_again(model: pathlib.Path, cluster: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Under one limit the step is shorter than where all that is missing is computed again, and as long as the evaluator says."""

    def compiled(name: str, *words: object, of: pathlib.Path = cluster) -> Dict[str, Any]:
        subprocess.run([autopar.find_tool("autopar-compile"), model, *LARGE, "--cluster", of, "-o", tmp_path / f"{name}.bin", "--emit-plan",
                        tmp_path / f"{name}.json", *words], check=True, timeout=120)
        return dict(json.loads((tmp_path / f"{name}.json").read_text()))

    whole = compiled("whole")
    limit = str(memory(tmp_path / "whole.bin")[0] * 7 // 10)
    again = compiled("again", "--memory-limit", limit)
    waits = compiled("waits", "--memory-limit", limit, "--offload", "activations")
    assert "offload_activations" not in again and again["recompute"]
    assert waits["offload_activations"] and len(waits["recompute"]) < len(again["recompute"])
    assert memory(tmp_path / "waits.bin")[0] <= int(limit) and memory(tmp_path / "waits.bin")[1] > 0
    us = {name: step_us(tmp_path / f"{name}.bin", cluster) for name in ("whole", "again", "waits")}
    assert us["whole"] <= us["waits"] < us["again"]
    for name, plan in (("again", again), ("waits", waits)):
        assert plan["believed"]["kernels_us"] == pytest.approx(us[name], rel=0.03), name
    # The plan is followed to the letter, with the same belief.
    followed = compiled("followed", "--memory-limit", limit, "--plan", tmp_path / "waits.json")
    assert followed["offload_activations"] == waits["offload_activations"] and followed["recompute"] == waits["recompute"]
    assert followed["believed"]["kernels_us"] == waits["believed"]["kernels_us"]
    # What is computed again costs what it costs without fetches beside it.
    (tmp_path / "rest.json").write_text(json.dumps({key: value for key, value in waits.items() if key != "offload_activations"}))
    rest = compiled("priced", "--plan", tmp_path / "rest.json")
    assert 0 < followed["believed"]["recompute_us"] == pytest.approx(rest["believed"]["recompute_us"], rel=1e-6)
    # Nothing is stored where everything fits, nor over a link that is too slow.
    assert "offload_activations" not in compiled("wide", "--offload", "activations")
    slow = json.loads(cluster.read_text())
    slow["device_types"][0]["host_link"]["bytes_per_s"] = 1e6
    (tmp_path / "slow-cluster.json").write_text(json.dumps(slow))
    assert "offload_activations" not in compiled("slow", "--memory-limit", limit, "--offload", "activations", of=tmp_path / "slow-cluster.json")


def test_without_recomputation_the_host_makes_room(model: pathlib.Path, cluster: pathlib.Path, tmp_path: pathlib.Path) -> None:
    whole = compile_step(model, tmp_path / "whole.bin", "--cluster", cluster)
    limit = ["--cluster", cluster, "--recompute", "none", "--memory-limit", str(memory(whole)[0] * 9 // 10)]
    assert "bytes" in refusal(model, tmp_path, *STEP, *limit)
    waits = compile_step(model, tmp_path / "waits.bin", *limit, "--offload", "activations", "--emit-plan", tmp_path / "plan.json")
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["offload_activations"] and not plan["recompute"] and memory(waits)[0] <= int(limit[-1])


def test_bad_demands_are_refused(model: pathlib.Path, cluster: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "offload=activations: expected --train" in refusal(model, tmp_path, "--bind", "batch=2,seq=16", "--offload", "activations")
    assert "offload=activations: expected recompute=auto or none" in refusal(
        model, tmp_path, *STEP, "--cluster", cluster, "--offload", "activations", "--recompute", "full")
    compile_step(model, tmp_path / "all.bin", "--cluster", cluster, "--offload", "all", "--recompute", "full", "--emit-plan", tmp_path / "all.json")
    told = json.loads((tmp_path / "all.json").read_text())
    assert told["offload"] and told["recompute"] and "offload_activations" not in told  # where all is computed again nothing waits
    said = refusal(model, tmp_path, *STEP, "--cluster", cluster, "--offload", "all", "--recompute", "full", "--memory-limit", "200000")
    assert "with every layer computed again a device needs" in said
    plan = compile_step(model, tmp_path / "plan.json", "--cluster", "presets:cpux1", "--recompute", "full", "--plan-only")
    told = waiting(plan, tmp_path / "waits.json")
    told["offload_activations"].append("nobody")
    (tmp_path / "nobody.json").write_text(json.dumps(told))
    assert 'plan: offload_activations: names operation "nobody", which @main does not have' in refusal(
        model, tmp_path, *STEP, "--cluster", "presets:cpux1", "--plan", tmp_path / "nobody.json")
    assert "demands offload=activations" in refusal(model, tmp_path, *STEP, "--cluster", "presets:cpux1", "--plan", tmp_path / "waits.json", "--offload", "none")
    small = json.loads(cluster.read_text())
    small["device_types"][0]["host_memory_bytes"] = 4096
    (tmp_path / "small.json").write_text(json.dumps(small))
    told["offload_activations"].pop()
    (tmp_path / "waits.json").write_text(json.dumps({**told, "cluster": "slow"}))
    assert "bytes of host memory per rank" in refusal(model, tmp_path, *STEP, "--cluster", tmp_path / "small.json", "--plan", tmp_path / "waits.json")
