# SPDX-License-Identifier: Apache-2.0
"""`autopar-run --simulate`: the same program in virtual time does the same in the same order."""

import json
import pathlib
import subprocess
import sys
from typing import Any, Dict, List, Tuple

import pytest
import small_gpt2
from small_gpt2 import BATCH, SEQ, VOCAB

import autopar
from autopar import models
from autopar.tools import find_tool

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))

from checks import bench_simulation  # noqa: E402

SYNTHETIC = f"synthetic(vocab={VOCAB})"


def run(*words: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(word) for word in (find_tool("autopar-run"), *words)], capture_output=True, text=True)


def simulate(artifact: pathlib.Path, cluster: Any, *words: Any) -> Dict[str, Any]:
    done = run(artifact, "--simulate", cluster, "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def events(trace: pathlib.Path) -> Dict[Tuple[int, int], List[Tuple[str, str, int]]]:
    """By rank and queue: what was started, in order."""
    found: Dict[Tuple[int, int], List[Tuple[str, str, int]]] = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["ph"] == "X":
            found.setdefault((event["pid"], event["tid"]), []).append((event["name"], event["cat"], event["args"]["step"]))
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return small_gpt2.save(tmp_path_factory.mktemp("model"), layers=4)


@pytest.mark.parametrize("ranks, options", [
    (4, ["--mesh", "data=2,tensor=2"]),
    (4, ["--stages", "2", "--pipeline-schedule", "1f1b"]),
    (4, ["--stages", "2", "--pipeline-schedule", "zero-bubble"]),
])
def test_simulated_training_does_what_real_training_does(model, tmp_path, ranks, options):
    artifact = small_gpt2.compile_step(model, tmp_path / "t.bin", ranks, 4, *options)
    real = run(artifact, "--data", SYNTHETIC, "--steps", "2", "--trace", tmp_path / "real.json", "--quiet")
    assert real.returncode == 0, real.stderr
    simulate(artifact, f"presets:cpux{ranks}", "--steps", "2", "--trace", tmp_path / "simulated.json")
    wanted, found = events(tmp_path / "real.json"), events(tmp_path / "simulated.json")
    assert {rank for rank, _ in wanted} == set(range(ranks))
    assert found == wanted


@pytest.mark.parametrize("options", [
    ["--mesh", "data=2,tensor=2", "--micro-batches", "2"],
    ["--stages", "2", "--micro-batches", "4", "--pipeline-schedule", "zero-bubble"],
    ["--stages", "auto", "--micro-batches", "auto", "--pipeline-schedule", "auto"],
])
def test_a_plan_alone_says_what_its_kernels_will_take(model, tmp_path, options):
    def kernels_us(*words: Any) -> float:
        command = [find_tool("autopar-compile"), model, "--bind", f"batch=8,seq={SEQ}", "--cluster", "presets:a100x4", "--quiet",
                   "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-4)", *words]
        subprocess.run([str(word) for word in command], check=True)
        return json.loads((tmp_path / "plan.json").read_text())["believed"]["kernels_us"]

    lowered = kernels_us(*options, "--stop-after", "plan-memory", "--emit-plan", tmp_path / "plan.json", "-o", tmp_path / "out.mlir")
    assert kernels_us(*options, "--plan-only", "-o", tmp_path / "plan.json") == pytest.approx(lowered)
    (tmp_path / "plan.json").rename(tmp_path / "given.json")
    assert kernels_us("--plan", tmp_path / "given.json", "--plan-only", "-o", tmp_path / "plan.json") == pytest.approx(lowered)


def test_simulated_inference_does_what_real_inference_does(model, tmp_path):
    autopar.compile(model, tmp_path / "i.bin", bind={"batch": BATCH, "seq": SEQ}, options=["--quiet"])
    real = run(tmp_path / "i.bin", "--input", "input_ids=zeros", "--trace", tmp_path / "real.json")
    assert real.returncode == 0, real.stderr
    simulate(tmp_path / "i.bin", "presets:cpux1", "--trace", tmp_path / "simulated.json")
    assert events(tmp_path / "simulated.json") == events(tmp_path / "real.json")


def test_a_simulation_is_the_same_every_time_and_says_what_ranks_do(model, tmp_path):
    artifact = small_gpt2.compile_step(model, tmp_path / "t.bin", 4, 4, "--stages", "2")
    reports = [simulate(artifact, "presets:cpux4", "--steps", "3", "--trace", tmp_path / f"{i}.json") for i in range(2)]
    for report in reports:
        report.pop("simulated_in_s")
    assert reports[0] == reports[1]
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
    report = reports[0]
    assert len(report["step_ms"]) == 3 and len(set(report["step_ms"])) == 1
    planned = json.loads(run("--dry-run", "--json", artifact).stdout)["ranks"]
    for rank, plan in zip(report["ranks"], planned):
        assert 0 < rank["compute_share"] < 1 and rank["compute_share"] + rank["waiting_share"] == pytest.approx(1)
        assert rank["device_bytes"] == plan["device_bytes"]
    text = run(artifact, "--simulate", "presets:cpux4")
    assert "4 ranks" in text.stdout and "ms per step" in text.stdout and "waiting %" in text.stdout


def test_weights_are_not_read_and_tensors_take_no_memory(tmp_path):
    """The model's file is gone, and a part of its embedding would alone take more than the process may have."""
    models.save("gpt2-124m", tmp_path / "m.onnx", weights=False, layers=2, hidden=1024, heads=16, vocab=400000)
    artifact = tmp_path / "t.bin"
    autopar.compile(tmp_path / "m.onnx", artifact, bind={"batch": 8, "seq": 128}, ranks=4, options=["--quiet", "--mesh", "data=4"],
                    train=autopar.Train(small_gpt2.LOSS, autopar.AdamW(lr=1e-3)))
    (tmp_path / "m.onnx").unlink()
    limit = 256 << 20
    words = [find_tool("autopar-run"), str(artifact), "--simulate", "presets:h100x4", "--json"]
    done = subprocess.run(["bash", "-c", f'ulimit -v {limit >> 10}; exec "$@"', "bash", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sum(rank["device_bytes"] for rank in json.loads(done.stdout)["ranks"]) > 4 * limit


def test_slower_links_make_slower_steps(model, tmp_path):
    artifact = small_gpt2.compile_step(model, tmp_path / "t.bin", 4, 4, "--mesh", "data=2,tensor=2")
    found = []
    for rate in (1e10, 1e8):
        cluster = {
            "kind": "autopar.cluster", "version": 1, "name": "four ranks",
            "device_types": [{"name": "cpu", "peak_flops_per_s": {"f32": 1e11}, "memory_bytes_per_s": 1e10, "memory_bytes": 8000000000}],
            "nodes": [{"count": 1, "devices_per_node": 4, "device_type": "cpu"}],
            "levels": [{"name": "inside", "latency_us": 5, "bytes_per_s": rate}],
        }
        (tmp_path / "c.json").write_text(json.dumps(cluster))
        found.append(simulate(artifact, tmp_path / "c.json"))
    fast, slow = found
    assert fast["step_ms"][0] < slow["step_ms"][0]
    assert all(a["compute_share"] > b["compute_share"] for a, b in zip(fast["ranks"], slow["ranks"]))


@pytest.mark.parametrize("words, code, why", [
    (["--simulate", "presets:cpux2"], 78, "was compiled for 4 ranks, the cluster has 2 devices; simulate a larger cluster"),
    (["--simulate", "presets:abacusx4"], 65, "abacus"),
    (["--simulate", "missing.json"], 66, "missing.json"),
    (["--simulate", "presets:cpux4", "--data", "x.bin"], 2, "--data does not go with --simulate"),
    (["--simulate", "presets:cpux4", "--checkpoint-dir", "x"], 2, "--checkpoint-dir does not go with --simulate"),
    (["--simulate", "presets:cpux4", "--input", "x=zeros"], 2, "--input does not go with --simulate"),
    (["--simulate", "presets:cpux4", "--steps", "0"], 2, "--simulate needs at least one step"),
])
def test_what_cannot_be_simulated_is_refused(model, tmp_path_factory, words, code, why):
    artifact = tmp_path_factory.getbasetemp() / "refused.bin"
    if not artifact.exists():
        small_gpt2.compile_step(model, artifact, 4, 4)
    done = run(artifact, *words)
    assert (done.returncode, why in done.stderr) == (code, True), done.stderr


def test_a_wrong_cluster_file_is_refused_with_the_place(model, tmp_path):
    artifact = small_gpt2.compile_step(model, tmp_path / "t.bin", 2, 4)
    (tmp_path / "c.json").write_text('{"kind": "autopar.cluster", "version": 1, "device_types": [{"name": 3}]}')
    done = run(artifact, "--simulate", tmp_path / "c.json")
    assert done.returncode == 65 and "c.json: nodes: missing" in done.stderr, done.stderr


@pytest.mark.parametrize("planned", bench_simulation.PLANS, ids=str)
def test_the_kernels_of_a_plan_take_what_the_simulation_of_its_artifact_finds(tmp_path, planned):
    found = bench_simulation.compare(planned, tmp_path)
    assert found["simulated"] == pytest.approx(found["believed"], rel=0.03)


def test_weight_gradients_fill_the_gaps_of_a_pipeline_although_their_norm_is_clipped(tmp_path):
    """A part of the norm is sent to the other stage, behind all micro-batches."""
    models.save("gpt2-124m", tmp_path / "m.onnx", weights=False, layers=4)
    times = []
    for schedule in ("1f1b", "zero-bubble"):
        train = autopar.Train(small_gpt2.LOSS, autopar.AdamW(lr=1e-4), clip_norm=1.0, micro_batches=4)
        autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", bind={"batch": 16, "seq": 512}, cluster="presets:h100x2", train=train,
                        options=["--quiet", "--stages", "2", "--mesh", "data=1", "--pipeline-schedule", schedule])
        times.append(simulate(tmp_path / "m.bin", "presets:h100x2")["step_ms"][0])
    assert times[1] < 0.97 * times[0]
