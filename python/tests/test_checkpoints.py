# SPDX-License-Identifier: Apache-2.0
"""Training runs that stop and go on: the same plan to the bit, another plan from the same state, damaged checkpoints."""

import json
import pathlib
import shutil
import signal
import struct
import subprocess
import time
from typing import Dict, List, NamedTuple

import numpy as np
import pytest

import autopar
from autopar import models

BATCH, SEQ, VOCAB, STEPS = 8, 16, 101, 24


class Job(NamedTuple):
    """A training program for four and for two ranks, and its data."""

    programs: Dict[int, pathlib.Path]
    data: List[str]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A small gpt2 that learns to count."""
    folder = tmp_path_factory.mktemp("job")
    models.save("gpt2-124m", folder / "gpt2.onnx", layers=1, hidden=32, heads=2, vocab=VOCAB)
    programs = {}
    for ranks in (4, 2):
        programs[ranks] = folder / f"train{ranks}.bin"
        subprocess.run([autopar.find_tool("autopar-compile"), folder / "gpt2.onnx", "--bind", f"batch={BATCH},seq={SEQ}",
                        "--ranks", str(ranks), "-o", programs[ranks], "--train", "loss=softmax_cross_entropy(logits, labels)",
                        "--optimizer", "adamw(lr=3e-3)", "--quiet"], check=True, timeout=300)
    np.tile(np.arange(VOCAB), 100).astype(np.uint16).tofile(folder / "tokens.bin")
    return Job(programs, ["--data", str(folder / "tokens.bin"), "--fields", "input_ids=tokens[:-1], labels=tokens[1:]"])


def words(job: Job, ranks: int, *more: object) -> List[str]:
    """The command line of a run."""
    return [str(word) for word in (autopar.find_tool("autopar-run"), job.programs[ranks], *job.data, *more)]


def run(job: Job, ranks: int, *more: object) -> str:
    """Runs to the end and gives what it said."""
    return subprocess.run(words(job, ranks, *more), check=True, capture_output=True, text=True, timeout=120).stderr


def tensors(folder: pathlib.Path) -> Dict[str, bytes]:
    """The files of a checkpoint."""
    return {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}


@pytest.fixture(scope="module")
def straight(job: Job, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The checkpoints of a run without a break."""
    folder = tmp_path_factory.mktemp("straight")
    run(job, 4, "--steps", STEPS, "--checkpoint-dir", folder, "--checkpoint-every", 8, "--metrics", folder / "metrics.jsonl")
    return folder


def test_the_loss_falls_and_stands_in_the_metrics(straight: pathlib.Path) -> None:
    lines = [json.loads(line) for line in (straight / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(STEPS))
    assert lines[-1]["loss"] < lines[0]["loss"] - 0.3


def test_the_same_plan_goes_on_to_the_bit(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run(job, 4, "--steps", 10, "--checkpoint-dir", tmp_path)
    assert "going on from" in run(job, 4, "--steps", STEPS, "--checkpoint-dir", tmp_path)
    assert tensors(tmp_path / f"step-{STEPS:08}") == tensors(straight / f"step-{STEPS:08}")


def test_another_plan_goes_on_from_the_same_state(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.copytree(straight / "step-00000016", tmp_path / "step-00000016")
    run(job, 2, "--steps", STEPS, "--checkpoint-dir", tmp_path, "--metrics", tmp_path / "metrics.jsonl")
    ours = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    theirs = [json.loads(line) for line in (straight / "metrics.jsonl").read_text().splitlines()][16:]
    np.testing.assert_allclose([line["loss"] for line in ours], [line["loss"] for line in theirs], rtol=1e-5)
    # What was loaded is what was saved.
    for ranks, source in ((2, straight / "step-00000016"), (4, tmp_path / "step-00000016")):
        run(job, ranks, "--steps", 0, "--resume", source, "--export", tmp_path / f"{ranks}.safetensors")
    assert (tmp_path / "2.safetensors").read_bytes() == (tmp_path / "4.safetensors").read_bytes()


def test_a_run_that_has_all_its_steps_says_so(job: Job, straight: pathlib.Path) -> None:
    assert f"it has all {STEPS} steps already" in run(job, 4, "--steps", STEPS, "--checkpoint-dir", straight)


def test_a_run_without_a_step_reports_that_it_has_none(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for more in (["--steps", STEPS, "--checkpoint-dir", straight, "--benchmark"], ["--steps", 0, "--json", "--export", tmp_path / "w.safetensors"]):
        done = subprocess.run(words(job, 4, *more), check=True, capture_output=True, text=True, timeout=120)
        line = json.loads(done.stdout)
        assert (line["steps"], line["step_ms"], "median_ms" in line) == (0, [], False)


def test_an_export_holds_the_trained_parameters(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "weights.safetensors"
    assert "steps already" not in run(job, 2, "--checkpoint-dir", straight, "--export", file)
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    assert header["transformer.wte.weight"]["shape"] == [VOCAB, 32]
    assert not any(name.endswith(("/mean", "/square")) for name in header)
    assert [file.name for file in tmp_path.iterdir()] == ["weights.safetensors"]
    (tmp_path / "link.safetensors").symlink_to(file)
    file.write_bytes(b"")
    run(job, 2, "--checkpoint-dir", straight, "--export", tmp_path / "link.safetensors")
    assert (tmp_path / "link.safetensors").is_symlink() and file.read_bytes() == data, "what a link leads to is replaced"


@pytest.mark.parametrize("damage", ["cut", "flipped", "index", "gone"])
def test_a_damaged_checkpoint_is_passed_over(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path, damage: str) -> None:
    folder = tmp_path / "ck"
    shutil.copytree(straight, folder)
    newest = folder / f"step-{STEPS:08}"
    victim = newest / ("index.json" if damage == "index" else "rank-1.safetensors")
    data = bytearray(victim.read_bytes())
    if damage == "gone":
        victim.unlink()
    elif damage == "cut":
        victim.write_bytes(data[:-100])
    else:
        data[len(data) // 2] ^= 1
        victim.write_bytes(data)
    said = run(job, 4, "--steps", STEPS, "--checkpoint-dir", folder)
    assert f"passed over {newest}" in said and "going on from" in said and "step-00000016" in said


def test_only_damaged_ones_or_those_of_another_model_are_refused(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path) -> None:
    only = tmp_path / "only" / "step-00000008"
    shutil.copytree(straight / "step-00000008", only)
    (only / "index.json").write_text("{}")
    answer = subprocess.run(words(job, 4, "--steps", STEPS, "--checkpoint-dir", only.parent), capture_output=True, text=True,
                            timeout=120)
    assert answer.returncode == 65 and "no whole checkpoint" in answer.stderr
    answer = subprocess.run(words(job, 4, "--steps", STEPS, "--seed", "5", "--checkpoint-dir", straight), capture_output=True,
                            text=True, timeout=120)
    assert answer.returncode == 65 and "was written with --seed 0" in answer.stderr


def test_a_checkpoint_of_another_model_is_refused(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path) -> None:
    models.save("gpt2-124m", tmp_path / "other.onnx", layers=1, hidden=16, heads=2, vocab=VOCAB)
    other = autopar.compile(tmp_path / "other.onnx", tmp_path / "other.bin", bind={"batch": BATCH, "seq": SEQ},
                            train=autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW()))
    answer = subprocess.run([autopar.find_tool("autopar-run"), other.path, *job.data, "--checkpoint-dir", straight],
                            capture_output=True, text=True, timeout=120)
    assert answer.returncode == 65
    assert (f"{straight}/step-{STEPS:08} is a checkpoint of another model or optimizer: tensor transformer.wte.weight is f32 [{VOCAB},32], the "
            f"program's is f32 [{VOCAB},16]") in answer.stderr, answer.stderr


def test_a_checkpoint_of_another_optimizer_is_refused(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path) -> None:
    subprocess.run([autopar.find_tool("autopar-compile"), job.programs[4].parent / "gpt2.onnx", "--bind", f"batch={BATCH},seq={SEQ}",
                    "-o", tmp_path / "sgd.bin", "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "sgd(lr=0.1)",
                    "--quiet"], check=True, timeout=300)
    sgd = Job({4: tmp_path / "sgd.bin"}, job.data)
    run(sgd, 4, "--steps", 1, "--checkpoint-dir", tmp_path)
    for one, folder, says in ((sgd, straight / "step-00000008", "it has a tensor transformer."),
                              (job, tmp_path / "step-00000001", "it has no tensor transformer.")):
        answer = subprocess.run(words(one, 4, "--resume", folder), capture_output=True, text=True, timeout=120)
        assert answer.returncode == 65 and f"{folder} is a checkpoint of another model or optimizer: {says}" in answer.stderr, answer.stderr


def test_a_checkpoint_of_the_same_step_is_replaced(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run(job, 2, "--steps", 8, "--checkpoint-dir", tmp_path)
    run(job, 4, "--steps", 8, "--checkpoint-dir", tmp_path, "--resume", "none")
    assert [folder.name for folder in tmp_path.iterdir()] == ["step-00000008"]
    assert tensors(tmp_path / "step-00000008") == tensors(straight / "step-00000008")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_loses_nothing_that_was_committed(job: Job, tmp_path: pathlib.Path, number: signal.Signals) -> None:
    child = subprocess.Popen(words(job, 4, "--steps", 10**6, "--checkpoint-dir", tmp_path, "--checkpoint-every", 3, "--quiet"))
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("step-*[0-9]"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(number)
    status = child.wait(60)
    assert status == (128 + signal.SIGTERM if number == signal.SIGTERM else -signal.SIGKILL)
    newest = max(int(folder.name[5:]) for folder in tmp_path.glob("step-*") if "." not in folder.name)
    said = run(job, 4, "--steps", newest + 2, "--checkpoint-dir", tmp_path)
    assert f"going on from {tmp_path / f'step-{newest:08}'}" in said and "passed over" not in said


def begin(job: Job, folder: pathlib.Path, *more: object) -> "subprocess.Popen[str]":
    """A run without an end whose first steps are done."""
    metrics = folder / "begun.jsonl"
    child = subprocess.Popen(words(job, 2, "--steps", 10**6, "--metrics", metrics, *more), stderr=subprocess.PIPE, text=True)
    await_steps(metrics, child)
    return child


def await_steps(metrics: pathlib.Path, child: "subprocess.Popen[str]") -> None:
    """Returns when the first steps of a run are done, or it has ended."""
    deadline = time.monotonic() + 60
    while (not metrics.exists() or metrics.read_text().count("\n") < 2) and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.01)


def test_a_run_that_is_stopped_says_so_and_exports_nothing(job: Job, tmp_path: pathlib.Path) -> None:
    child = begin(job, tmp_path, "--checkpoint-dir", tmp_path / "kept", "--export", tmp_path / "w.safetensors")
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=60)[1]
    assert child.returncode == 128 + signal.SIGINT and "stopped by SIGINT after step " in said, said
    assert not (tmp_path / "w.safetensors").exists() and len(list((tmp_path / "kept").iterdir())) == 1


def test_a_signal_to_any_process_stops_all_behind_a_checkpoint(job: Job, tmp_path: pathlib.Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    ranks = [subprocess.Popen(words(job, 2, "--steps", 10**6, "--metrics", metrics, "--checkpoint-dir", tmp_path / "kept", "--rank", rank,
                                    "--world-size", 2, "--rendezvous", f"file://{tmp_path}/meet"), stderr=subprocess.PIPE, text=True)
             for rank in (0, 1)]
    await_steps(metrics, ranks[0])
    ranks[1].send_signal(signal.SIGTERM)
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [128 + signal.SIGTERM] * 2 and "stopped by SIGTERM after step " in said[0], said
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_two_runs_do_not_share_a_folder(job: Job, tmp_path: pathlib.Path) -> None:
    child = begin(job, tmp_path, "--checkpoint-dir", tmp_path / "kept")
    other = subprocess.run(words(job, 2, "--steps", 5, "--checkpoint-dir", tmp_path / "kept"), capture_output=True, text=True, timeout=120, check=False)
    child.kill()
    child.communicate(timeout=60)
    assert other.returncode == 73 and f"--checkpoint-dir: another run keeps its checkpoints in {tmp_path / 'kept'}; end it" in other.stderr, other.stderr
    run(job, 2, "--steps", 1, "--checkpoint-dir", tmp_path / "kept")


def test_only_the_newest_are_kept(job: Job, tmp_path: pathlib.Path) -> None:
    run(job, 2, "--steps", 7, "--checkpoint-dir", tmp_path, "--checkpoint-every", 2, "--keep-checkpoints", 2)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["step-00000006", "step-00000007"]


def test_what_there_is_no_checkpoint_of_is_not_exported(job: Job, straight: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def refused(*more: object) -> "tuple[int, str]":
        done = subprocess.run(words(job, 2, "--steps", 0, "--export", tmp_path / "w.safetensors", *more), capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stderr.strip()

    assert refused("--checkpoint-dir", tmp_path / "typo") == (66, f"autopar-run: there is no checkpoint in {tmp_path / 'typo'} to evaluate or export; --checkpoint-dir names the "
                                                                  "folder of step-<N> folders")
    assert not list(tmp_path.iterdir())
    assert refused("--checkpoint-dir", straight, "--resume", "step-00000008")[0] == 0
    assert (tmp_path / "w.safetensors").exists()


def test_a_torn_line_of_metrics_makes_room(job: Job, tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"step": 7}\n{"step": 8, "lo')
    run(job, 2, "--steps", 2, "--metrics", tmp_path / "m.jsonl")
    assert [json.loads(line)["step"] for line in (tmp_path / "m.jsonl").read_text().splitlines()] == [7, 0, 1]


def test_another_data_file_is_remarked(job: Job, tmp_path: pathlib.Path) -> None:
    run(job, 2, "--steps", 2, "--checkpoint-dir", tmp_path / "kept")
    other = tmp_path / "other.bin"
    np.tile(np.arange(VOCAB)[::-1], 100).astype(np.uint16).tofile(other)
    said = run(Job(job.programs, ["--data", str(other), *job.data[2:]]), 2, "--steps", 3, "--checkpoint-dir", tmp_path / "kept")
    assert f"it was written with --data {job.data[1]}; step 2 goes on with the samples that {other} has there" in said


def newest_step(folder: pathlib.Path) -> int:
    """Of the checkpoints that are whole by name."""
    return max((int(found.name[5:]) for found in folder.glob("step-*") if "." not in found.name), default=0)


def kill_within(job: Job, folder: pathlib.Path, seconds: float, inside_write: bool) -> bool:
    """Starts or goes on, and kills: after some time, or that much after a checkpoint began. Whether it hit a write."""
    partial = f"step-{'?' * 8}.partial"
    for left in folder.glob(partial):
        shutil.rmtree(left)
    child = subprocess.Popen(words(job, 4, "--steps", 10**6, "--checkpoint-dir", folder, "--checkpoint-every", 3, "--quiet"))
    deadline = time.monotonic() + (60 if inside_write else seconds)
    while time.monotonic() < deadline and not (inside_write and list(folder.glob(partial))):
        pass
    if inside_write:
        time.sleep(seconds / 100)
    child.kill()
    assert child.wait(60) == -signal.SIGKILL
    return bool(list(folder.glob(partial)))


def test_twenty_kills_lose_nothing_that_was_committed(job: Job, tmp_path: pathlib.Path) -> None:
    rng, hits, reached = np.random.default_rng(20), 0, 0
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    for kill in range(20):
        hits += kill_within(job, killed, rng.uniform(0, 0.4), inside_write=kill % 2 == 0)
        assert newest_step(killed) >= reached
        reached = newest_step(killed)
    assert hits >= 3 and reached > 0
    steps = reached + 5
    said = run(job, 4, "--steps", steps, "--checkpoint-dir", killed)
    assert f"going on from {killed / f'step-{reached:08}'}" in said and "passed over" not in said
    run(job, 4, "--steps", steps, "--checkpoint-dir", undisturbed)
    last = f"step-{steps:08}"
    assert tensors(killed / last) == tensors(undisturbed / last)
    # Another plan starts from the same bits and gives the same losses.
    for ranks in (2, 4):
        run(job, ranks, "--steps", 0, "--resume", killed / last, "--export", tmp_path / f"{ranks}.safetensors")
        run(job, ranks, "--steps", steps + 10, "--resume", killed / last, "--metrics", tmp_path / f"{ranks}.jsonl")
    assert (tmp_path / "2.safetensors").read_bytes() == (tmp_path / "4.safetensors").read_bytes()
    losses = [[json.loads(line)["loss"] for line in (tmp_path / f"{ranks}.jsonl").read_text().splitlines()] for ranks in (2, 4)]
    assert len(losses[0]) == 10
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
