# SPDX-License-Identifier: Apache-2.0
"""Pipelines: stages on ranks of their own, under every schedule, are the same training step."""

import json
import pathlib
import re
import subprocess
from typing import List, Optional

import numpy as np
import pytest
import small_gpt2
from small_gpt2 import BATCH, SEQ, VOCAB

import autopar
from autopar import models
from autopar.tools import find_tool

STEPS, MICRO_BATCHES = 20, 4
SCHEDULES = ["gpipe", "1f1b", "eager-1f1b", "zero-bubble", "overlapped-1f1b"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Its embedding is tied: the first and the last stage read it."""
    return small_gpt2.save(tmp_path_factory.mktemp("model"), layers=4)


def build(model: pathlib.Path, artifact: pathlib.Path, ranks: Optional[int], *options: str) -> pathlib.Path:
    return small_gpt2.compile_step(model, artifact, ranks, MICRO_BATCHES, *options)


def losses(artifact: pathlib.Path) -> List[float]:
    return small_gpt2.losses(artifact, STEPS)


@pytest.fixture(scope="module")
def alone(model: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> List[float]:
    """What one rank with the same micro-batches computes."""
    return losses(build(model, tmp_path_factory.mktemp("alone") / "1.bin", 1))


@pytest.mark.parametrize("stages, ranks, options", [(2, 2, []), (4, 4, []), (2, 4, ["--mesh", "data=2"]), (2, 4, ["--mesh", "tensor=2"])])
def test_every_schedule_trains_like_one_rank(model, alone, tmp_path, stages, ranks, options):
    """The stages of one plan: what is left to cost is cut for its schedule."""
    found = tmp_path / "plan.json"
    build(model, found, ranks, "--stages", str(stages), *options, "--plan-only")
    runs = []
    for name in SCHEDULES:
        plan = tmp_path / f"{name}.json"
        plan.write_text(json.dumps({**json.loads(found.read_text()), "schedule": name}))
        runs.append(losses(build(model, tmp_path / f"{name}.bin", ranks, "--plan", str(plan))))
    assert all(run == runs[0] for run in runs), "schedules differ in order only: not in a bit"
    np.testing.assert_allclose(runs[0], alone, rtol=1e-6 if ranks == stages else 1e-5)


UNEQUAL = [
    (3, ["--stages", "2", "--mesh", "data=1/data=2"]),
    (3, ["--stages", "2"]),
    (4, ["--stages", "2", "--mesh", "tensor=1/tensor=3"]),
    (4, ["--stages", "3", "--mesh", "data=1/tensor=2/data=1", "--pipeline-schedule", "zero-bubble"]),
]


@pytest.mark.parametrize("ranks, options", UNEQUAL)
def test_stages_on_meshes_of_different_sizes_train_like_one_rank(model, alone, tmp_path, ranks, options):
    """What the stages exchange is cut anew on the way, forwards and backwards; the plan can be followed."""
    first = build(model, tmp_path / "u.bin", ranks, *options, "--emit-plan", str(tmp_path / "plan.json"))
    run = losses(first)
    np.testing.assert_allclose(run, alone, rtol=1e-5)
    plan = json.loads((tmp_path / "plan.json").read_text())
    sizes = [len(mesh["devices"]) for mesh in plan["meshes"].values()]
    assert len(set(sizes)) == 2 and sum(sizes) == ranks
    assert losses(build(model, tmp_path / "r.bin", ranks, "--plan", str(tmp_path / "plan.json"))) == run
    simulated = subprocess.run([find_tool("autopar-run"), first, "--simulate", f"presets:cpux{ranks}"], capture_output=True, text=True, timeout=60)
    assert simulated.returncode == 0, simulated.stderr


def test_a_loss_on_a_stage_of_its_own_sends_its_slope_with_the_backward_pass(tmp_path):
    """A vocabulary this large makes the logits a stage's work. Sent earlier, the slope would be waited for by nobody: a standstill."""
    models.save("gpt2-124m", tmp_path / "m.onnx", layers=4, hidden=32, heads=4, vocab=4000, positions=32)
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-3), clip_norm=1.0, micro_batches=8)
    autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", bind={"batch": 16, "seq": 16}, ranks=4, train=train,
                    options=["--quiet", "--stages", "4", "--pipeline-schedule", "gpipe"])
    for words in (["--simulate", "presets:cpux4"], ["--data", "synthetic(vocab=4000)", "--quiet"]):
        done = subprocess.run([find_tool("autopar-run"), str(tmp_path / "m.bin"), *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


NORM = "/transformer/h.1/ln_2/LayerNormalization"


@pytest.mark.parametrize("precision, tolerance", [("f32", 1e-6), ("bf16", 5e-3)])
def test_a_cut_behind_a_normalization_sends_nothing_against_the_derivatives(model, tmp_path, precision, tolerance):
    """Derivatives on the later stage read what the forward pass has sent, not what is computed again on the earlier one: that was a standstill."""
    cut = ", ".join([f"{NORM}: stage 0"] + [f"{NORM}/{part}: stage 1" for part in ("mul", "add")])
    alone = losses(build(model, tmp_path / "1.bin", 1, "--precision", precision))
    runs = [
        losses(build(model, tmp_path / f"{name}.bin", 2, "--precision", precision, "--stages", "2", "--pipeline-schedule", name, "--constrain", cut))
        for name in SCHEDULES
    ]
    assert all(run == runs[0] for run in runs)
    np.testing.assert_allclose(runs[0], alone, rtol=tolerance)


@pytest.mark.parametrize("schedule", ["interleaved", "interleaved-zero-bubble", "overlapped-interleaved"])
def test_interleaved_stages_train_like_one_rank(model, alone, tmp_path, schedule):
    interleaved = losses(build(model, tmp_path / "i.bin", 2, "--stages", "2", "--virtual-stages", "2", "--pipeline-schedule", schedule))
    np.testing.assert_allclose(interleaved, alone, rtol=1e-6)


#: Four ranks that send bytes beside what they compute, so that there is something to run together.
BESIDE = json.dumps({
    "kind": "autopar.cluster", "version": 1, "name": "beside", "nodes": [{"count": 1, "devices_per_node": 4, "device_type": "rank"}],
    "device_types": [{"name": "rank", "peak_flops_per_s": {"f32": 8e10}, "memory_bytes_per_s": 1e10, "memory_bytes": 4000000000, "launch_us": 1}],
    "levels": [{"name": "inside", "latency_us": 20, "bytes_per_s": 1e9}],
})


@pytest.mark.parametrize("turns", [1, 2])
def test_rows_that_run_together_train_like_one_rank(model, alone, tmp_path, turns):
    """Operations of a forward and a backward row are mixed, sums over ranks begin in one order on all of them, and nobody waits forever."""
    schedule = ["overlapped-1f1b", "overlapped-interleaved"][turns - 1]
    options = ["--stages", "2", "--virtual-stages", str(turns), "--mesh", "tensor=2", "--constrain", "weight-axis=tensor",
               "--pipeline-schedule", schedule, "--cluster", BESIDE]
    artifact = build(model, tmp_path / "t.bin", None, *options, "--emit-mlir", str(tmp_path))
    mixed = re.findall(r'"/transformer\S*?(/vjp)?[^"@ ]*@([0-9])"', next(tmp_path.glob("*-schedule.mlir")).read_text().split("@main.1")[1])
    changes = sum(one != other for one, other in zip(mixed, mixed[1:]))
    assert changes > 4 * MICRO_BATCHES, "rows stand one behind the other"
    np.testing.assert_allclose(losses(artifact), alone, rtol=1e-5)
    simulated = subprocess.run([find_tool("autopar-run"), artifact, "--simulate", BESIDE], capture_output=True, text=True, timeout=60)
    assert simulated.returncode == 0, simulated.stderr


def test_stages_serve_too(model, tmp_path):
    ids = np.random.default_rng(1).integers(0, VOCAB, (BATCH, SEQ), dtype=np.int64)
    outputs = []
    for ranks, options in ((1, []), (4, ["--stages", "2"]), (2, ["--stages", "2", "--micro-batches", "4"])):
        artifact = tmp_path / f"{ranks}.bin"
        autopar.compile(model, artifact, bind={"batch": BATCH, "seq": SEQ}, ranks=ranks, options=["--quiet", *options])
        with autopar.Session(artifact) as session:
            outputs.append(session.run({"input_ids": ids})["logits"])
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs[2], outputs[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ranks, options", [(4, ["--stages", "2"]), UNEQUAL[0]])
def test_a_pipeline_trains_from_files_evaluates_and_resumes(model, tmp_path, ranks, options):
    """The command line with everything: data files, evaluation, checkpoints that another plan continues."""
    tokens = np.random.default_rng(5).integers(0, VOCAB, 4000).astype(np.uint16)
    tokens.tofile(tmp_path / "train.bin")
    pipelined = build(model, tmp_path / "p.bin", ranks, *options)
    alone = build(model, tmp_path / "a.bin", 1)

    def run(artifact: pathlib.Path, steps: int, folder: str, *more: str) -> List[dict]:
        metrics = tmp_path / f"{artifact.stem}-{steps}-{folder}.jsonl"
        command = [find_tool("autopar-run"), artifact, "--data", tmp_path / "train.bin", "--fields", "input_ids=tokens[:-1], labels=tokens[1:]",
                   "--steps", str(steps), "--eval-data", tmp_path / "train.bin", "--eval-every", "3", "--eval-steps", "2",
                   "--checkpoint-dir", tmp_path / folder, "--checkpoint-every", "3", "--metrics", metrics, *more]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        return [json.loads(line) for line in metrics.read_text().splitlines()]

    straight = run(alone, 6, "one")
    run(pipelined, 3, "two")
    resumed = run(alone, 6, "two")
    both = run(pipelined, 6, "three")
    run(alone, 3, "four")
    handed_over = run(pipelined, 6, "four")
    assert [line["step"] for line in handed_over if "loss" in line] == [3, 4, 5]
    for other in (resumed[-3:], both, handed_over):
        for line in other:
            twin = [known for known in straight if known["step"] == line["step"] and ("loss" in known) == ("loss" in line)]
            key = "loss" if "loss" in line else "eval_loss"
            np.testing.assert_allclose(line[key], twin[0][key], rtol=1e-5)


def test_a_stage_is_a_program_of_its_own(model, tmp_path):
    artifact = build(model, tmp_path / "p.bin", 4, "--stages", "2", "--emit-plan", str(tmp_path / "plan.json"))
    report = json.loads(subprocess.run([find_tool("autopar-run"), "--dry-run", "--json", artifact], check=True, capture_output=True).stdout)
    assert [rank["class"] for rank in report["ranks"]] == [0, 0, 1, 1]
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert len(plan["stages"]) == 2 and plan["schedule"] == "1f1b"
    replayed = build(model, tmp_path / "r.bin", 4, "--plan", str(tmp_path / "plan.json"))
    assert losses(replayed) == losses(artifact)


@pytest.mark.parametrize("options, why", [
    (["--stages", "5"], "4 devices are too few for the meshes of 5 stages"),
    (["--stages", "2", "--mesh", "data=1/data=2"], "gives 2 meshes with 3 devices together; expected 2 meshes with all 4"),
    (["--stages", "2", "--mesh", "a=1xb=1/b=1xa=3"], "has its axes in another order"),
    (["--stages", "2", "--pipeline-schedule", "zigzag"], "there is no schedule 'zigzag'"),
    (["--stages", "2", "--virtual-stages", "2", "--pipeline-schedule", "1f1b"], "takes one stage per mesh"),
    (["--virtual-stages", "2"], "need --stages of at least 2"),
    (["--stages", "auto", "--virtual-stages", "2"], "--stages auto does not go with --virtual-stages"),
    (["--stages", "some"], "expected a number from 1 to 16777216, or auto"),
])
def test_what_cannot_be_is_refused(model, tmp_path, options, why):
    with pytest.raises(autopar.Error, match=why):
        build(model, tmp_path / "x.bin", 4, *options)
    assert not (tmp_path / "x.bin").exists()


def test_a_limit_below_all_pipelines_is_refused_with_the_leanest_and_each_once(model, tmp_path):
    with pytest.raises(autopar.Error) as refused:
        build(model, tmp_path / "x.bin", 4, "--stages", "auto", "--memory-limit", "60K")
    head, *lines = refused.value.args[0].strip().splitlines()
    found = re.search(r"no pipeline has a plan: the leanest by the estimates, (\d stages?.*), needs about .* \((\d+) bytes\) per device: raise the limit", head)
    assert found and int(found.group(2)) > 60 * 1024
    names = [line.partition(": ")[0] for line in lines]
    assert found.group(1) in names and len(set(names)) == len(names)


def test_the_number_of_stages_follows_from_the_links(tmp_path):
    """Two machines of two ranks: on a slow network stages pay, on a fast one sharding alone is better; what was rejected is told."""
    path = tmp_path / "gpt2.onnx"
    models.save("gpt2-124m", path, weights=False, layers=8, hidden=512, heads=8, vocab=1000)
    found = {}
    for network in (1.2e8, 8e9):
        cluster = {
            "kind": "autopar.cluster", "version": 1, "name": "two machines",
            "device_types": [{"name": "cpu", "peak_flops_per_s": {"f32": 1.2e11}, "memory_bytes_per_s": 1.5e10, "memory_bytes": 8000000000}],
            "nodes": [{"count": 2, "devices_per_node": 2, "device_type": "cpu"}],
            "levels": [{"name": "inside", "latency_us": 5, "bytes_per_s": 8e9}, {"name": "network", "latency_us": 20, "bytes_per_s": network}],
        }
        (tmp_path / "cluster.json").write_text(json.dumps(cluster))
        command = [find_tool("autopar-compile"), path, "--bind", "batch=32,seq=128", "--cluster", tmp_path / "cluster.json", "--stages", "auto",
                   "--micro-batches", "8", "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-3)",
                   "--plan-only", "-o", tmp_path / "plan.json", "--quiet", "--explain=json"]
        done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
        found[network] = json.loads(done.stdout)
    slow, fast = found[1.2e8], found[8e9]
    assert (len(slow["meshes"]), len(fast["meshes"])) == (2, 1)
    assert any(other["change"].startswith("1 stage") for other in slow["believed"]["alternatives"])
    for plan in (slow, fast):
        rejected = plan["believed"]["alternatives"]
        # What is close is told apart by its kernels.
        assert all(other["step_us"] > plan["believed"]["step_us"] or "by its kernels" in other["change"] for other in rejected)


@pytest.mark.parametrize("train", [None, autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.1))])
def test_stages_of_one_micro_batch_follow_each_other(model, tmp_path, train):
    """But for updates, which they do beside each other."""

    def step_us(devices: int) -> float:
        plan = tmp_path / f"{devices}.json"
        autopar.compile(model, plan, bind={"batch": BATCH, "seq": SEQ}, train=train,
                        options=["--quiet", "--plan-only", "--cluster", f"presets:h100x{devices}", "--stages", str(devices)])
        return json.loads(plan.read_text())["believed"]["step_us"]

    alone = step_us(1)
    several = {devices: step_us(devices) for devices in (2, 4)}
    assert all(0.75 * alone < us < 2 * alone for us in several.values()), (alone, several)


def test_what_runs_ahead_is_tried_where_messages_are_slow(tmp_path):
    """Two machines of four ranks: on a slow network eager-1f1b is chosen and the simulation agrees; on a fast one it is not tried."""
    path = tmp_path / "gpt2.onnx"
    models.save("gpt2-350m", path, weights=False, layers=8)

    def planned(network: float, schedule: str):
        cluster = {
            "kind": "autopar.cluster", "version": 1, "name": "two machines",
            "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 5e13, "bf16": 5e13}, "memory_bytes_per_s": 5e11, "memory_bytes": 24000000000}],
            "nodes": [{"count": 2, "devices_per_node": 4, "device_type": "gpu"}],
            "levels": [{"name": "inside", "latency_us": 5, "bytes_per_s": 2e10}, {"name": "network", "latency_us": 10, "bytes_per_s": network}],
        }
        (tmp_path / "cluster.json").write_text(json.dumps(cluster))
        command = [find_tool("autopar-compile"), path, "--bind", "batch=64,seq=512", "--cluster", tmp_path / "cluster.json", "--stages", "2",
                   "--micro-batches", "8", "--pipeline-schedule", schedule, "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw()",
                   "--precision", "bf16", "-o", tmp_path / "m.bin", "--emit-plan", tmp_path / "plan.json", "--quiet"]
        subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
        done = subprocess.run([find_tool("autopar-run"), str(tmp_path / "m.bin"), "--simulate", str(tmp_path / "cluster.json")], check=True, capture_output=True, text=True)
        return json.loads((tmp_path / "plan.json").read_text()), float(re.search(r"([\d.]+) ms per step", done.stdout).group(1))

    chosen, ms = planned(6e8, "auto")
    assert chosen["schedule"] == "eager-1f1b"
    # By kernels it is the fastest; the simulation agrees to two percent.
    assert all(chosen["believed"]["kernels_us"] < planned(6e8, other)[0]["believed"]["kernels_us"] for other in ("1f1b", "zero-bubble"))
    assert all(ms < 1.02 * planned(6e8, other)[1] for other in ("1f1b", "zero-bubble"))
    fast, _ = planned(3e11, "auto")
    assert "eager" not in fast["schedule"] + str(fast["believed"]["alternatives"])


def test_a_deep_model_is_cut_everywhere(tmp_path):
    """More places to cut than are tried, all alike: the stages of 160 layers are of the same length all the same."""
    path = tmp_path / "gpt2.onnx"
    models.save("gpt2-124m", path, weights=False, layers=160, hidden=64, heads=2, vocab=100)
    command = [find_tool("autopar-compile"), path, "--bind=batch=8,seq=64", "--ranks=4", "--stages=4", "--micro-batches=4", "--stop-after=cut-stages", "-o", tmp_path / "cut.mlir", "--quiet"]
    subprocess.run([str(word) for word in command], check=True)
    cuts = sorted({int(layer) for layer in re.findall(r'autopar\.transfer .*?"/transformer/h\.(\d+)/', (tmp_path / "cut.mlir").read_text())})
    assert len(cuts) == 3
    assert all(abs(cut - wanted) <= 3 for cut, wanted in zip(cuts, [39, 79, 119])), cuts


@pytest.mark.parametrize("faster", [0, 1])
def test_the_faster_device_gets_more_layers(tmp_path, faster):
    """Two stages on a device each, one of them three times as fast: the cut follows it."""
    models.save("gpt2-124m", tmp_path / "m.onnx", weights=False, layers=8, hidden=256, heads=8, vocab=101)
    speeds = [3.6e11 if device == faster else 1.2e11 for device in range(2)]
    cluster = {
        "kind": "autopar.cluster", "version": 1, "name": "two speeds",
        "device_types": [{"name": f"d{i}", "peak_flops_per_s": {"f32": speed}, "memory_bytes_per_s": speed / 8, "memory_bytes": 8000000000} for i, speed in enumerate(speeds)],
        "nodes": [{"count": 1, "devices_per_node": 1, "device_type": f"d{i}"} for i in range(2)],
        "levels": [{"name": "inside", "latency_us": 5, "bytes_per_s": 8e9}, {"name": "network", "latency_us": 20, "bytes_per_s": 8e9}],
    }
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    build(tmp_path / "m.onnx", tmp_path / "p.json", None, "--cluster", str(tmp_path / "cluster.json"), "--stages", "2", "--plan-only")
    plan = json.loads((tmp_path / "p.json").read_text())
    layers = {plan["meshes"][stage["mesh"]]["devices"][0]: sum(op.endswith("/mlp/c_fc/Gemm") for op in stage["ops"]) for stage in plan["stages"]}
    assert sum(layers.values()) == 8 and layers[faster] >= 2 * layers[1 - faster] > 0


def test_a_plan_that_overfills_the_smaller_device_is_refused(model, tmp_path):
    """The devices of the second stage have half the memory that its program needs; those of the first have plenty."""
    plan = tmp_path / "plan.json"
    build(model, plan, 2, "--stages", "2", "--plan-only")
    needed = json.loads(plan.read_text())["believed"]["peak_bytes"][1]
    device = {"peak_flops_per_s": {"f32": 1.2e11}, "memory_bytes_per_s": 1.5e10}
    cluster = {
        "kind": "autopar.cluster", "version": 1, "name": "two kinds",
        "device_types": [{"name": "large", **device, "memory_bytes": 8000000000}, {"name": "small", **device, "memory_bytes": needed // 2}],
        "nodes": [{"count": 1, "devices_per_node": 1, "device_type": kind} for kind in ("large", "small")],
        "levels": [{"name": "inside", "latency_us": 5, "bytes_per_s": 8e9}, {"name": "network", "latency_us": 20, "bytes_per_s": 1e9}],
    }
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    with pytest.raises(autopar.Error, match='the program of rank 1 needs .* and device 1, a "small", has'):
        build(model, tmp_path / "x.bin", None, "--cluster", str(tmp_path / "cluster.json"), "--plan", str(plan))
    assert not (tmp_path / "x.bin").exists()


def test_all_is_left_to_cost(model, tmp_path):
    """Stages, micro-batches and schedule; what was rejected is slower, by its kernels where they were asked, and the step is that of one rank."""
    plan_file = tmp_path / "plan.json"
    artifact = small_gpt2.compile_step(model, tmp_path / "p.bin", 4, 1, "--stages", "auto", "--micro-batches", "auto",
                                       "--emit-plan", str(plan_file))
    plan = json.loads(plan_file.read_text())
    believed = plan["believed"]
    judged = [re.search(r"\(([\d.]+) us by its kernels\)", other["change"]) for other in believed["alternatives"]]
    assert len(judged) >= 2
    for other, kernels in zip(believed["alternatives"], judged):
        if kernels:
            assert float(kernels[1]) >= believed["kernels_us"] - 0.1
        else:
            assert other["step_us"] >= believed["step_us"]
    np.testing.assert_allclose(losses(artifact), losses(build(model, tmp_path / "a.bin", 1)), rtol=1e-5)


def test_micro_batches_follow_from_memory(tmp_path):
    """A batch that does not fit as a whole is computed in parts, one that fits is not."""
    path = tmp_path / "gpt2.onnx"
    models.save("gpt2-124m", path, weights=False)
    parts = {}
    for limit in ("64G", "2500M"):
        command = [find_tool("autopar-compile"), path, "--bind", "batch=16,seq=256", "--cluster", "presets:cpux2", "--micro-batches", "auto",
                   "--memory-limit", limit, "--constrain", "recompute=none", "--train", "loss=softmax_cross_entropy(logits, labels)",
                   "--optimizer", "adamw(lr=1e-3)", "--plan-only", "-o", tmp_path / "plan.json", "--quiet"]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        parts[limit] = json.loads((tmp_path / "plan.json").read_text())["time"]["micro_batches"]
    assert parts["64G"] == 1 < parts["2500M"]
