# SPDX-License-Identifier: Apache-2.0
"""What is computed again for the backward pass changes memory and time, and not a bit of what is learnt."""

import json
import pathlib
import random
import re
import subprocess
from typing import Any, Dict, List

import numpy as np
import pytest
import small_gpt2

import autopar
from autopar import models
from autopar.tools import find_tool

STEPS, MICRO_BATCHES = 20, 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return small_gpt2.save(tmp_path_factory.mktemp("model"), layers=4)


def build(model: pathlib.Path, artifact: pathlib.Path, ranks: int, *options: str) -> pathlib.Path:
    return small_gpt2.compile_step(model, artifact, ranks, MICRO_BATCHES, *options)


def memory(artifact: pathlib.Path) -> List[int]:
    """Bytes that each rank's program was planned to need."""
    report = subprocess.run([find_tool("autopar-run"), "--dry-run", "--json", artifact], check=True, capture_output=True, text=True)
    return [rank["device_bytes"] for rank in json.loads(report.stdout)["ranks"]]


def forward_operations(phases: pathlib.Path) -> List[str]:
    """Ids of groups and other operations of the forward pass of a micro-batch."""
    (text,) = [path.read_text() for path in phases.glob("*-form-groups.mlir")]
    ids = re.findall(r'^    %\S+ = .*?autopar\.id = "([^"]*)"', text, re.M)
    return [name for name in ids if name.startswith("/transformer/h.") and "/vjp" not in name and "constant" not in name]


@pytest.mark.parametrize("options", [["--stages", "2", "--mesh", "x=2", "--pipeline-schedule", "zero-bubble"]])
def test_a_plan_with_recomputation_trains_alike_in_less_memory(model, tmp_path, options):
    kept = build(model, tmp_path / "kept.bin", 4, *options, "--emit-plan", str(tmp_path / "plan.json"), "--emit-mlir", str(tmp_path / "phases"))
    plan = json.loads((tmp_path / "plan.json").read_text())
    losses = small_gpt2.losses(kept, 5)
    names = forward_operations(tmp_path / "phases")
    names = [name for name in names if "/mlp/" in name]
    assert len(names) >= 12
    for share in (0.5,):
        plan["recompute"] = random.Random(3).sample(names, int(share * len(names)))
        (tmp_path / "edited.json").write_text(json.dumps(plan))
        again = build(model, tmp_path / "again.bin", 4, "--plan", str(tmp_path / "edited.json"))
        assert small_gpt2.losses(again, 5) == losses
        less = [before - now for before, now in zip(memory(kept), memory(again))]  # of a rank; a stage may be cut so that nothing waits in it
        assert min(less) >= 0 and max(less) > 0


def test_a_plan_that_recomputes_what_does_not_exist_is_refused(model, tmp_path):
    build(model, tmp_path / "plan.json", 2, "--plan-only")
    plan = json.loads((tmp_path / "plan.json").read_text())
    plan["recompute"] = ["/transformer/h.9/Add"]
    (tmp_path / "edited.json").write_text(json.dumps(plan))
    with pytest.raises(autopar.Error, match='recompute: names operation "/transformer/h.9/Add", which @main does not have'):
        build(model, tmp_path / "b.bin", 2, "--plan", str(tmp_path / "edited.json"))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Activations of which outweigh its parameters."""
    path = tmp_path_factory.mktemp("wide") / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=6, hidden=128, heads=4, vocab=512, positions=64)
    return path


def build_wide(model: pathlib.Path, artifact: pathlib.Path, ranks: int, *options: str) -> pathlib.Path:
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-3))
    autopar.compile(model, artifact, bind={"batch": 16, "seq": 64}, ranks=ranks, train=train, options=["--quiet", *options])
    return artifact


def losses_of(artifact: pathlib.Path, steps: int) -> List[float]:
    numbers = np.random.default_rng(4)
    result = []
    with autopar.Session(artifact) as session:
        for _ in range(steps):
            tokens = numbers.integers(0, 512, (16, 65), dtype=np.int64)
            result.append(float(session.run({"input_ids": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()})["loss"]))
    return result


@pytest.mark.parametrize("ranks, options", [(1, []), (2, ["--stages", "2", "--micro-batches", "4"])])
def test_a_step_fits_into_less_memory_and_learns_the_same(wide, tmp_path, ranks, options):
    whole = build_wide(wide, tmp_path / "whole.bin", ranks, *options, "--recompute", "none")
    limit = max(memory(whole)) * (65 if "--stages" in options else 60) // 100
    with pytest.raises(autopar.Error, match="memory|no plan fits|no plan found"):
        build_wide(wide, tmp_path / "n.bin", ranks, *options, "--recompute", "none", "--memory-limit", str(limit))
    fitting = build_wide(wide, tmp_path / "fits.bin", ranks, *options, "--memory-limit", str(limit), "--emit-plan", str(tmp_path / "plan.json"))
    assert max(memory(fitting)) <= limit
    assert losses_of(fitting, 2) == losses_of(whole, 2)
    believed = json.loads((tmp_path / "plan.json").read_text())["believed"]
    assert 0 < believed["recompute_us"] < 0.2 * believed["step_us"], "all layers again would be a third"
    replayed = build_wide(wide, tmp_path / "r.bin", ranks, *options[2:4] if "--stages" in options else [], "--memory-limit", str(limit),
                          "--plan", str(tmp_path / "plan.json"))
    assert memory(replayed) == memory(fitting)


def test_stages_are_cut_so_that_what_they_keep_fits(wide, tmp_path):
    """The first stage keeps most micro-batches: under a limit it gets fewer layers."""
    options = ["--stages", "2", "--micro-batches", "4", "--recompute", "none"]
    free = build_wide(wide, tmp_path / "free.bin", 2, *options)
    limit = max(memory(free)) * 85 // 100
    fitting = build_wide(wide, tmp_path / "fits.bin", 2, *options, "--memory-limit", str(limit))
    assert max(memory(fitting)) <= limit
    assert losses_of(fitting, 2) == pytest.approx(losses_of(free, 2), rel=1e-6)


def test_every_layer_again_needs_less_memory_than_none(wide, tmp_path):
    whole, full = (build_wide(wide, tmp_path / f"{word}.bin", 1, "--recompute", word) for word in ("none", "full"))
    assert max(memory(full)) < 0.6 * max(memory(whole))
    assert losses_of(full, 2) == losses_of(whole, 2)


def test_what_cannot_fit_is_refused_with_what_it_would_take(wide, tmp_path):
    refusal = r"no plan fits 12.0 MiB \(12582912 bytes\) per device: the leanest that was found needs [\d.]+ MiB \((\d+) bytes\) with recomputation, and a step takes about"
    with pytest.raises(autopar.Error, match=refusal) as refused:
        build_wide(wide, tmp_path / "x.bin", 1, "--memory-limit", "12M")
    assert not (tmp_path / "x.bin").exists()
    needed = re.search(refusal, str(refused.value)).group(1)
    assert max(memory(build_wide(wide, tmp_path / "x.bin", 1, "--memory-limit", needed))) <= int(needed)


def test_nothing_is_computed_again_where_memory_suffices(wide, tmp_path):
    build_wide(wide, tmp_path / "plan.json", 2, "--memory-limit", "1G", "--plan-only")
    assert json.loads((tmp_path / "plan.json").read_text())["recompute"] == []


def test_what_an_edited_plan_computes_again_is_priced_anew(wide, tmp_path):
    """What its file says of another list does not count: neither time nor memory."""
    options = ["--stages", "2", "--micro-batches", "4"]

    def believed(plan: pathlib.Path, *more: str) -> Dict[str, Any]:
        build_wide(wide, tmp_path / "x.json", 2, "--plan-only", *more)
        (tmp_path / "x.json").rename(plan)
        return json.loads(plan.read_text())

    full = believed(tmp_path / "full.json", *options, "--recompute", "full")
    replayed = believed(tmp_path / "again.json", "--plan", str(tmp_path / "full.json"))["believed"]
    for key in ("recompute_us", "step_us", "saved_bytes", "peak_bytes"):
        assert replayed[key] == pytest.approx(full["believed"][key]), key
    edited = dict(full, recompute=full["recompute"][::2])
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    half = believed(tmp_path / "half.json", "--plan", str(tmp_path / "edited.json"))["believed"]
    assert 0.2 * replayed["recompute_us"] < half["recompute_us"] < 0.8 * replayed["recompute_us"]
    assert max(half["peak_bytes"]) > max(replayed["peak_bytes"])
    assert half["step_us"] - half["recompute_us"] == pytest.approx(replayed["step_us"] - replayed["recompute_us"])
    (tmp_path / "edited.json").write_text(json.dumps(dict(full, recompute=[])))
    assert "recompute_us" not in believed(tmp_path / "none.json", "--plan", str(tmp_path / "edited.json"))["believed"]


@pytest.mark.parametrize("option, why", [("some", "recompute: expected none, auto or full")])
def test_unknown_words_are_refused(model, tmp_path, option, why):
    with pytest.raises(autopar.Error, match=why):
        build(model, tmp_path / "x.bin", 2, "--recompute", option)


def test_pipelined_and_recomputed_training_is_the_same_under_every_schedule(model, tmp_path):
    """On four ranks, against one rank with the same micro-batches."""
    alone = small_gpt2.losses(build(model, tmp_path / "1.bin", 1), STEPS)
    build(model, tmp_path / "found.json", 4, "--stages", "4", "--recompute", "full", "--plan-only")
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found["recompute"]) > 5
    runs = []
    for schedule in ("gpipe", "1f1b", "eager-1f1b", "zero-bubble"):
        plan = tmp_path / f"{schedule}.json"
        plan.write_text(json.dumps({**found, "schedule": schedule}))
        runs.append(small_gpt2.losses(build(model, tmp_path / f"{schedule}.bin", 4, "--plan", str(plan)), STEPS))
    interleaved = build(model, tmp_path / "interleaved.bin", 2, "--stages", "2", "--virtual-stages", "2", "--recompute", "full")
    runs.append(small_gpt2.losses(interleaved, STEPS))
    assert runs[0] == runs[1] == runs[2] == runs[3], "schedules differ in order only: not in a bit"
    np.testing.assert_allclose(runs[0], alone, rtol=1e-6)


def test_the_first_stages_get_no_more_layers_where_what_waits_in_them_hardly_fits(tmp_path):
    """Equal stages need 1,000,000 bytes: the first one holds four micro-batches, the last one holds one."""
    model = small_gpt2.save(tmp_path, layers=8)
    options = ["--quiet", "--stages", "4", "--pipeline-schedule", "1f1b", "--memory-limit", "900000", "--emit-plan", str(tmp_path / "plan.json")]
    train = autopar.Train(small_gpt2.LOSS, autopar.AdamW(), micro_batches=8)
    autopar.compile(model, tmp_path / "fits.bin", bind={"batch": 16, "seq": small_gpt2.SEQ}, ranks=4, train=train, options=options)
    assert max(memory(tmp_path / "fits.bin")) <= 900000
    layers = [sum(op.endswith("/attn/c_attn/Gemm") for op in stage["ops"]) for stage in json.loads((tmp_path / "plan.json").read_text())["stages"]]
    assert layers[0] <= max(layers[1:]) and sum(layers) == 8


def test_a_backward_pass_that_is_not_split_holds_one_layer_at_a_time(tmp_path):
    """Split, all layers of a stage that were computed again wait for the weight gradients."""
    path = tmp_path / "gpt3.onnx"
    models.save("gpt3-1.3b", path, weights=False)
    plan, peaks = tmp_path / "plan.json", {}
    for schedule in ("1f1b", "zero-bubble"):
        subprocess.run([find_tool("autopar-compile"), path, "--bind=batch=32,seq=1024", "--cluster=presets:a100x4", "--precision=bf16", "--micro-batches=8", "--stages=4",
                        "--train=loss=softmax_cross_entropy(logits, labels)", "--optimizer=adamw(lr=1e-4)", "--quiet", "--recompute=full",
                        "--pipeline-schedule", schedule, "--plan-only", "-o", plan], check=True)
        peaks[schedule] = json.loads(plan.read_text())["believed"]["peak_bytes"]
    assert all(whole < 0.9 * split for whole, split in list(zip(peaks["1f1b"], peaks["zero-bubble"]))[1:])


@pytest.mark.parametrize("pipeline", [["1f1b", "--stages=4"], ["gpipe", "--stages=4"], ["zero-bubble", "--stages=4"],
                                      ["interleaved", "--stages=2", "--virtual-stages=2"],
                                      ["interleaved-zero-bubble", "--stages=2", "--virtual-stages=2"]])
def test_memory_that_a_schedule_is_thought_to_need_is_what_its_programs_need(tmp_path, pipeline):
    """gpt3-1.3b under a limit that asks for recomputation: planned memory of every stage against what the choice was judged by."""
    path = tmp_path / "gpt3.onnx"
    models.save("gpt3-1.3b", path, weights=False)
    limit = 8 if pipeline[0].startswith("interleaved") else 9
    command = [find_tool("autopar-compile"), path, "--bind=batch=32,seq=1024", "--cluster=presets:a100x4", "--precision=bf16", "--micro-batches=16", f"--memory-limit={limit}G",
               "--train=loss=softmax_cross_entropy(logits, labels)", "--optimizer=adamw(lr=1e-4)", "--quiet", "--pipeline-schedule", *pipeline]

    def peaks(*options: str) -> np.ndarray:
        subprocess.run([*map(str, command), *options], check=True)
        believed = json.loads((tmp_path / "plan.json").read_text())["believed"]
        assert json.loads((tmp_path / "plan.json").read_text())["recompute"]
        return np.array(believed["peak_bytes"])

    judged = peaks("--plan-only", f"-o={tmp_path / 'plan.json'}")
    planned = peaks("--stop-after=plan-memory", f"--emit-plan={tmp_path / 'plan.json'}")
    assert max(planned) <= limit << 30
    np.testing.assert_allclose(planned, judged, rtol=0.1)


def test_operations_are_a_finer_choice_than_layers(tmp_path):
    """gpt3-1.3b by the cost model, half way between the memory of every layer recomputed and that of none: a step is 3 % faster than with half
    of the layers, and more."""
    path = tmp_path / "gpt3.onnx"
    models.save("gpt3-1.3b", path, weights=False)

    def plan(*options: str) -> dict:
        command = [find_tool("autopar-compile"), path, "--bind", "batch=8,seq=2048", "--cluster", "presets:h100x4", "--mesh", "data=4", "--precision", "bf16",
                   "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-4)", "--plan-only", "-o", tmp_path / "plan.json", "--quiet"]
        subprocess.run([*map(str, command), *options], check=True)
        return json.loads((tmp_path / "plan.json").read_text())["believed"]

    layers = plan("--recompute", "full")
    half = layers["peak_bytes"][0] + layers["saved_bytes"] // 2
    operations = plan("--memory-limit", str(half))
    assert operations["peak_bytes"][0] <= half
    assert operations["step_us"] <= 0.97 * (layers["step_us"] - layers["recompute_us"] / 2)


def test_sums_of_gradients_are_split_where_that_computes_less_again(tmp_path):
    """Whole on each device they take 5 GB of the 16 for which activations would have to be computed again, for 107 of 776 ms."""
    path = tmp_path / "gpt3.onnx"
    models.save("gpt3-1.3b", path, weights=False)
    command = [find_tool("autopar-compile"), path, "--bind", "batch=32,seq=2048", "--cluster", "presets:a100x4", "--mesh", "data=4", "--precision", "bf16",
               "--micro-batches", "2", "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-4)",
               "--memory-limit", "16G", "--plan-only", "-o", tmp_path / "plan.json", "--quiet"]
    subprocess.run([*map(str, command)], check=True, timeout=120)
    plan = json.loads((tmp_path / "plan.json").read_text())
    matrices = [factors for name, factors in plan["ops"].items() if name.endswith("/waiting") and len(factors) > 2]
    assert sum(factors[-1] == [] for factors in matrices) > len(matrices) / 2  # the last is what is summed over
    assert 0 < plan["believed"]["recompute_us"] < 0.07 * plan["believed"]["step_us"]
