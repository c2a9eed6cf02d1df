# SPDX-License-Identifier: Apache-2.0
"""State of the optimizer in host memory: what is learnt is that of the same plan without it, bit by bit, in less memory of the device."""

import json
import pathlib
import re
import subprocess
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

import autopar
from autopar import models

import emulated_cuda

BATCH, SEQ, VOCAB = 8, 16, 64
STEP = ["--bind", f"batch={BATCH},seq={SEQ}", "--quiet", "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-2)"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("offload") / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=2, hidden=64, heads=4, vocab=VOCAB, positions=SEQ)
    return path


def compile_step(model: pathlib.Path, output: pathlib.Path, *options: object) -> pathlib.Path:
    subprocess.run([autopar.find_tool("autopar-compile"), model, "-o", output, *STEP, *options], check=True, timeout=120)
    return output


def refusal(model: pathlib.Path, tmp_path: pathlib.Path, *options: object) -> str:
    run = subprocess.run([autopar.find_tool("autopar-compile"), model, "-o", tmp_path / "none.bin", "--quiet", *options],
                         capture_output=True, text=True, timeout=120)
    assert run.returncode != 0
    return run.stderr


def memory(artifact: pathlib.Path) -> Tuple[int, int]:
    """Planned bytes of the rank that has most, on the device and on the host."""
    text = subprocess.run([autopar.find_tool("autopar-run"), "--dry-run", "--json", artifact], capture_output=True, text=True, check=True).stdout
    ranks = json.loads(text)["ranks"]
    return max(rank["device_bytes"] for rank in ranks), max(rank["pinned_host_bytes"] for rank in ranks)


def trained(artifact: pathlib.Path, steps: int, folder: pathlib.Path, *, resume: bool = False) -> Tuple[List[float], Dict[str, bytes]]:
    """The losses, and what is exported at the end."""
    np.random.default_rng(1).integers(0, VOCAB, 4096).astype(np.uint16).tofile(folder / "tokens.bin")
    checkpoints = folder / "checkpoints"
    metrics = folder / f"{artifact.stem}.jsonl"
    metrics.unlink(missing_ok=True)
    subprocess.run([autopar.find_tool("autopar-run"), artifact, "--data", folder / "tokens.bin",
                    "--fields", "input_ids=tokens[:-1], labels=tokens[1:]", "--steps", str(steps), "--checkpoint-dir", checkpoints,
                    "--checkpoint-every", str(steps), "--metrics", metrics], check=True, timeout=120, capture_output=True)
    losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines() if '"loss"' in line]
    newest = max(path for path in checkpoints.iterdir() if path.is_dir())
    return losses, {path.name: path.read_bytes() for path in newest.glob("*.safetensors")}


PLANS = {
    "one rank": [],
    "one rank, bf16, clipped": ["--precision", "bf16", "--clip-norm", "0.5"],
    "data": ["--ranks", "2", "--mesh", "data=2"],
    "tensors and micro-batches": ["--ranks", "4", "--mesh", "data=2,tensor=2", "--micro-batches", "2", "--precision", "bf16"],
    "a pipeline": ["--ranks", "4", "--stages", "2", "--micro-batches", "4"],
    "random": ["--ranks", "4", "--engine", "random", "--seed", "3"],
    "random again": ["--ranks", "4", "--engine", "random", "--seed", "4", "--precision", "bf16"],
}


@pytest.mark.parametrize("name", PLANS)
def test_it_learns_the_same_bits(model: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    options = list(PLANS[name])
    if "--ranks" not in options:
        plain = compile_step(model, tmp_path / "plain.bin", *options)
        offloaded = compile_step(model, tmp_path / "offloaded.bin", *options, "--offload", "state")
    else:  # one plan, with and without
        plan = compile_step(model, tmp_path / "plan.json", *options, "--offload", "state", "--plan-only")
        kept = json.loads(plan.read_text())
        held = kept.pop("offload")
        assert all(name.endswith(("/mean", "/square")) or "bf16" in options for name in held)
        (tmp_path / "kept.json").write_text(json.dumps(kept))
        asked = [option for pair in zip(options[::2], options[1::2]) for option in pair if pair[0] in ("--precision", "--clip-norm", "--stages", "--ranks", "--micro-batches")]
        plain = compile_step(model, tmp_path / "plain.bin", *asked, "--plan", tmp_path / "kept.json")
        offloaded = compile_step(model, tmp_path / "offloaded.bin", *asked, "--plan", plan)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    losses, expected = trained(plain, 4, tmp_path / "a")
    assert len(losses) == 4 and len(set(losses)) == 4
    assert trained(offloaded, 4, tmp_path / "b") == (losses, expected)
    device, host = memory(offloaded)
    assert memory(plain)[1] == 0 and host > 0 and device < memory(plain)[0]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_gpu_learns_the_same_bits(model: pathlib.Path, tmp_path: pathlib.Path, ranks: int) -> None:
    random = np.random.default_rng(2)
    inputs = {name: random.integers(0, VOCAB, (BATCH, SEQ)) for name in ("input_ids", "labels")}
    split = ["--ranks", str(ranks), "--mesh", f"data={ranks}"] if ranks > 1 else []
    results = []
    for offload in ("none", "state"):
        artifact = compile_step(model, tmp_path / f"{offload}.bin", "--target", "cuda", "--precision", "bf16", "--clip-norm", "1", *split,
                                "--offload", offload)
        results.append(emulated_cuda.run(artifact, inputs, tmp_path / offload, "--steps", "4"))  # the last two are captured
    assert results[0].keys() == results[1].keys() and all(np.array_equal(results[0][key], results[1][key]) for key in results[0])


def test_the_plan_tells_what_a_process_holds(tmp_path: pathlib.Path) -> None:
    """Device and host memory of CPU ranks are both the process's."""
    models.save("gpt2-124m", tmp_path / "m.onnx", layers=2)
    train = autopar.Train("softmax_cross_entropy(logits, labels)", offload="state")
    autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", bind={"batch": 2, "seq": 16}, ranks=2, train=train)
    device, host = memory(tmp_path / "m.bin")
    run = subprocess.run([autopar.find_tool("autopar-run"), tmp_path / "m.bin", "--input", "input_ids=zeros", "--input", "labels=zeros", "--benchmark",
                          "--steps", "2", "--quiet"], capture_output=True, text=True, check=True, timeout=120)
    told = json.loads(run.stdout.splitlines()[-1])
    assert 0 <= told["planned_bytes"] - 2 * (device + host) < 0.01 * told["planned_bytes"]
    assert told["peak_bytes"] == pytest.approx(told["planned_bytes"], rel=0.03)


def test_training_goes_on_with_and_without(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    plain = compile_step(model, tmp_path / "plain.bin", "--ranks", "2")
    offloaded = compile_step(model, tmp_path / "offloaded.bin", "--ranks", "4", "--mesh", "data=2,tensor=2", "--offload", "state")
    whole = compile_step(model, tmp_path / "one.bin", "--offload", "state")
    expected = trained(whole, 6, folder_in(tmp_path, "whole"))
    parts = folder_in(tmp_path, "parts")
    assert trained(whole, 3, parts)[0] == expected[0][:3]
    # The same program goes on with the same bits, another plan with the same numbers.
    assert trained(whole, 6, parts)[0] == expected[0][3:]
    mixed = folder_in(tmp_path, "mixed")
    losses = [loss for artifact, steps in ((plain, 2), (offloaded, 4), (plain, 6)) for loss in trained(artifact, steps, mixed)[0]]
    np.testing.assert_allclose(losses, expected[0], rtol=1e-5)


def folder_in(parent: pathlib.Path, name: str) -> pathlib.Path:
    (parent / name).mkdir()
    return parent / name


def test_a_simulated_step_waits_for_the_link(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    artifact = compile_step(model, tmp_path / "step.bin", "--ranks", "2", "--mesh", "data=2", "--offload", "state")
    times = []
    for rate in (4e9, 1e6):
        cluster = json.loads(CLUSTER)
        cluster["device_types"][0]["host_link"]["bytes_per_s"] = rate
        (tmp_path / "cluster.json").write_text(json.dumps(cluster))
        text = subprocess.run([autopar.find_tool("autopar-run"), artifact, "--simulate", tmp_path / "cluster.json", "--json"],
                              capture_output=True, text=True, check=True).stdout
        times.append(1e3 * json.loads(text)["step_ms"][0])
    link = 1e6 * memory(artifact)[1] / 1e6  # microseconds each way
    assert times[0] < link < times[1] < 1.5 * link


CLUSTER = """{"kind": "autopar.cluster", "version": 1, "name": "two",
 "device_types": [{"name": "d", "peak_flops_per_s": {"f32": 1e12}, "memory_bytes_per_s": 1e11, "memory_bytes": 16000000000,
                   "host_memory_bytes": 16000000000, "host_link": {"latency_us": 1, "bytes_per_s": 1e9}}],
 "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "d"}],
 "levels": [{"latency_us": 1, "bytes_per_s": 1e10}]}"""


HINT = "note: --offload auto puts the optimizer's state into host memory where nothing fits otherwise"

# Of two ranks: limits that a step exceeds with its state on the devices, and keeps without, on any CPU.
LIMITS = {"--mesh data=2": 1100000, "--stages auto --micro-batches auto": 940000, "--mesh data=2 --recompute full": 1300000,
          "--mesh data=2 --recompute none": 1230000, "--engine random --seed 3": 1700000}


@pytest.mark.parametrize("options", LIMITS)
def test_auto_offloads_where_nothing_fits(model: pathlib.Path, tmp_path: pathlib.Path, options: str) -> None:
    limit = ["--memory-limit", str(LIMITS[options])]

    def compiled(name: str, *more: str, code: int = 0) -> str:
        words = [word for word in STEP if word != "--quiet"] + ["--ranks", "2", *options.split(), *more, "--explain"]
        files = ["-o", tmp_path / name, "--emit-plan", tmp_path / f"{name}.json", "--report", tmp_path / f"{name}.html"]
        run = subprocess.run([autopar.find_tool("autopar-compile"), model, *files, *words], capture_output=True, text=True, timeout=120)
        assert run.returncode == code, run.stderr
        return run.stderr

    def plan(name: str) -> Any:
        return json.loads((tmp_path / f"{name}.json").read_text())

    assert "host" not in compiled("wide", "--offload", "auto")
    assert "offload" not in plan("wide") and memory(tmp_path / "wide")[1] == 0
    assert compiled("refused", *limit, code=65).rstrip().endswith(HINT)
    assert HINT not in compiled("refused", *limit, "--offload", "none", code=65)
    said = compiled("narrow", *limit, "--offload", "auto")
    assert "offload=auto: the optimizer's state lies in host memory, for without that: " in said and " MiB on the host" in said
    assert said.count(": trains ") == 1
    compiled("demanded", *limit, "--offload", "state")
    assert set(plan("narrow")["offload"]) <= set(plan("demanded")["offload"]) and any(name.endswith("/mean") for name in plan("demanded")["offload"])
    if "auto" in options:  # with all of the state on the host other stages may be better
        assert plan("narrow")["believed"]["kernels_us"] <= plan("demanded")["believed"]["kernels_us"]
    else:
        assert all(plan("narrow")[key] == plan("demanded")[key] for key in ("meshes", "stages", "ops", "shard"))
    device, host = memory(tmp_path / "narrow")
    assert device <= LIMITS[options] and host > 0
    page = (tmp_path / "narrow.html").read_text()
    told = json.loads(page.split('id="data">')[1].split("</script>")[0])["host_bytes"]
    assert max(told) <= host <= 1.01 * max(told)
    run = subprocess.run([autopar.find_tool("autopar-compile"), "--compare", tmp_path / "wide.json", tmp_path / "narrow.json"], capture_output=True, text=True)
    assert run.returncode == 1 and "device | host memory" in run.stdout


LARGE = ["--bind", f"batch=32,seq={SEQ}", *STEP[3:]]


@pytest.mark.parametrize("more", ["", "--stages auto --micro-batches auto"])
def test_auto_is_a_choice_by_cost(model: pathlib.Path, tmp_path: pathlib.Path, more: str) -> None:
    """What does not fit as it is may be computed again, come from host memory, or be split in more micro-batches."""

    def plan(name: str, limit: int, link: float, offload: str, *files: object) -> Tuple[Any, str]:
        cluster = json.loads(CLUSTER)
        cluster["device_types"][0]["host_link"] = {"latency_us": 0.01, "bytes_per_s": link}
        (tmp_path / "cluster.json").write_text(json.dumps(cluster))
        words = [*LARGE, "--cluster", tmp_path / "cluster.json", *more.split()]
        run = subprocess.run([autopar.find_tool("autopar-compile"), model, *words, "--memory-limit", str(limit), "--offload", offload, "--explain",
                              *(files or ["--plan-only", "-o", tmp_path / f"{name}.json"])], capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
        return json.loads((tmp_path / f"{name}.json").read_text()), run.stderr + run.stdout

    def without_figures(found: Any) -> Any:
        return {key: value for key, value in found.items() if key != "believed"}

    limit = 1400000 if more else 2800000
    # Nothing is paid for memory: nothing else is planned.
    wide, said = plan("wide", 100000000, 1e11, "auto")
    assert wide == plan("wide-none", 100000000, 1e11, "none")[0] and "offload=auto" not in said and "offload" not in wide
    holds_state = []
    for link in (1e11, 1e8):
        files = (lambda name: ["-o", tmp_path / name, "--emit-plan", tmp_path / f"{name}.json", "--report", tmp_path / f"{name}.html"]) if not more else (lambda name: [])
        found, said = plan("auto", limit, link, "auto", *files("auto"))
        demanded = [plan(word, limit, link, word, *files(word))[0] for word in ("none", "state", "activations", "all")]
        if files("auto"):
            assert found["believed"]["kernels_us"] <= min(other["believed"]["kernels_us"] for other in demanded) + 0.1
        else:
            assert without_figures(found) in map(without_figures, demanded[2:])
        holds_state.append("offload" in found)
        told, other = ("lies in host memory", "on the devices") if "offload" in found else ("stays on the devices", "in host memory")
        rejected = found["believed"]["alternatives"][-1]
        kernels = float(re.findall(r"^with the optimizer's state (?:.*) \((.*) us by its kernels\)$", rejected["change"])[0])
        assert other in rejected["change"] and rejected["step_us"] > 0 and found["believed"]["kernels_us"] < kernels
        figures = re.findall(rf"offload=auto: the optimizer's state {told}: a step takes (\S+) us by its kernels in host memory, (\S+) without", said)[0]
        assert sorted(map(float, figures)) == [pytest.approx(found["believed"]["kernels_us"], abs=0.1), kernels]
        assert re.search(rf"^rejected:\n(  .*\n)*  .*{re.escape(rejected['change'])}$", said, re.M), said
        assert more or rejected["change"] in (tmp_path / "auto.html").read_text()
        assert more or (memory(tmp_path / "auto")[1] > 0) == ("offload" in found or "offload_activations" in found)
    assert not holds_state[1]  # a slow link is not worth it


def test_auto_offloads_no_more_than_has_to_be(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """What there is room for stays on the devices, weights that would be fetched twice first; the plan is followed to the letter."""
    words = ["--ranks", "2", "--mesh", "data=2", "--precision", "bf16"]
    state = compile_step(model, tmp_path / "state.bin", *words, "--offload", "state", "--emit-plan", tmp_path / "state.json")
    none = compile_step(model, tmp_path / "none.bin", *words, "--emit-plan", tmp_path / "none.json")
    wide, narrow = memory(none)[0], memory(state)[0]
    limit = ["--memory-limit", str(narrow + (wide - narrow) // 2), "--recompute", "auto"]
    part = compile_step(model, tmp_path / "part.bin", *words, *limit, "--offload", "auto", "--emit-plan", tmp_path / "part.json")
    plan, whole = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("part", "state"))
    assert 0 < len(plan["offload"]) < len(whole["offload"]) and set(plan["offload"]) < set(whole["offload"])
    weights = [name for name in whole["offload"] if not name.endswith(("/mean", "/square"))]
    assert weights and len(set(weights) & set(plan["offload"])) < len(weights) // 2
    device, host = memory(part)
    assert narrow < device <= int(limit[1]) and 0 < host < memory(state)[1]
    followed = compile_step(model, tmp_path / "followed.bin", *words, *limit[:2], "--plan", tmp_path / "part.json", "--emit-plan", tmp_path / "again.json")
    again = json.loads((tmp_path / "again.json").read_text())
    assert memory(followed) == (device, host) and again["offload"] == plan["offload"]
    assert again["believed"]["step_us"] == pytest.approx(plan["believed"]["step_us"]) and again["believed"]["kernels_us"] == plan["believed"]["kernels_us"]
    (tmp_path / "kept.json").write_text(json.dumps({key: value for key, value in plan.items() if key != "offload"}))
    kept = compile_step(model, tmp_path / "kept.bin", *words, "--plan", tmp_path / "kept.json")
    assert memory(kept)[1] == 0
    assert trained(part, 4, folder_in(tmp_path, "a")) == trained(kept, 4, folder_in(tmp_path, "b"))


def test_auto_keeps_what_fits_where_the_host_has_no_room(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cluster = json.loads(CLUSTER)
    del cluster["device_types"][0]["host_link"]
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    words = [*LARGE, "--cluster", tmp_path / "cluster.json"]
    run = subprocess.run([autopar.find_tool("autopar-compile"), model, *words, "--memory-limit", "2800000", "--offload", "auto", "--explain",
                          "--emit-mlir", tmp_path / "phases", "-o", tmp_path / "step"], capture_output=True, text=True, check=True, timeout=120)
    assert "stays on the devices, for in host memory: " in run.stderr and "device_types[0].host_link is not given" in run.stderr
    assert memory(tmp_path / "step")[1] == 0 and "autopar.on_host" not in (tmp_path / "phases" / "03-train.mlir").read_text()


def test_auto_tells_both_refusals(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    words = [*STEP, "--ranks", "2", "--offload", "auto"]
    said = refusal(model, tmp_path, *words, "--memory-limit", "300000")
    assert said.count("error: ") == 2 and len(set(re.findall(r"(\d+) bytes", said))) > 2
    plain = [word if word != "adamw(lr=1e-2)" else "sgd(lr=1e-2)" for word in words]
    said = refusal(model, tmp_path, *plain, "--memory-limit", "300000")
    assert said.count("error: ") == 2 and "offload: there is no state that only an update reads" in said
    cluster = json.loads(CLUSTER)
    del cluster["device_types"][0]["host_link"]
    cluster["device_types"][0]["memory_bytes"] = 300000
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    said = refusal(model, tmp_path, *STEP, "--cluster", tmp_path / "cluster.json", "--offload", "auto")
    assert said.count("error: ") == 2 and "device_types[0].host_link is not given" in said
    # What has another reason is said once.
    said = refusal(model, tmp_path, *words, "--constrain", "nobody: [-]")
    assert said.count("error: ") == 1 and "nobody" in said
    assert "offload=auto: expected --train" in refusal(model, tmp_path, "--bind", "batch=2,seq=16", "--offload", "auto")


def test_python_asks_for_it(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for offload, bytes_ in (("none", 0), ("auto", 0), ("state", 1)):
        train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-2), offload=offload)
        compiled = autopar.compile(model, tmp_path / f"{offload}.bin", bind={"batch": BATCH, "seq": SEQ}, train=train)
        assert min(memory(compiled.path)[1], 1) == bytes_


def test_it_is_refused_where_it_cannot_be(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "offload=state: expected --train" in refusal(model, tmp_path, "--bind", "batch=2,seq=16", "--offload", "state")
    plain = [word if word != "adamw(lr=1e-2)" else "sgd(lr=1e-2)" for word in STEP]
    assert plain != STEP and "offload: there is no state that only an update reads" in refusal(model, tmp_path, *plain, "--ranks", "1", "--offload", "state")
    assert 'offload: expected none, state, activations, all or auto, got "everything"' in refusal(model, tmp_path, *STEP, "--offload", "everything")
    for field in ("host_link", "host_memory_bytes"):
        cluster = json.loads(CLUSTER)
        del cluster["device_types"][0][field]
        (tmp_path / "cluster.json").write_text(json.dumps(cluster))
        assert f"device_types[0].{field} is not given" in refusal(model, tmp_path, *STEP, "--cluster", tmp_path / "cluster.json", "--offload", "state")
    cluster = json.loads(CLUSTER)
    cluster["device_types"][0]["host_memory_bytes"] = 1000
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    assert "bytes of host memory per rank" in refusal(model, tmp_path, *STEP, "--cluster", tmp_path / "cluster.json", "--offload", "state")
    plan = compile_step(model, tmp_path / "plan.json", "--ranks", "2", "--offload", "state", "--plan-only")
    edited = json.loads(plan.read_text())
    edited["offload"].append("nobody")
    plan.write_text(json.dumps(edited))
    assert 'offload: names "nobody", which is no state of @main' in refusal(model, tmp_path, *STEP, "--plan", plan)
    assert "demands offload=state" in refusal(model, tmp_path, *STEP, "--plan", plan, "--offload", "none")
