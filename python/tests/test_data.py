# SPDX-License-Identifier: Apache-2.0
"""`autopar-run --data`: batches from files, on any number of ranks."""

import json
import pathlib
import subprocess

import numpy as np
import pytest

import autopar


def run(compiled: pathlib.Path, output: pathlib.Path, *words: object) -> np.ndarray:
    """The logits: of the last step, or, with --data, of all."""
    subprocess.run([autopar.find_tool("autopar-run"), compiled, "--output-dir", output, "--quiet", *map(str, words)], check=True,
                   timeout=120)
    return np.load(output / "logits.npy")


@pytest.mark.parametrize("ranks", [1, 3])
def test_steps_read_their_own_batches(gpt2, tmp_path: pathlib.Path, ranks: int) -> None:
    compiled = autopar.compile(gpt2.path, tmp_path / "compiled.bin", bind=gpt2.bind, ranks=ranks)
    batch, seq = gpt2.inputs["input_ids"].shape
    steps = [np.random.default_rng(step).integers(0, 500, (batch, seq)) for step in range(3)]
    stream = np.concatenate([step.reshape(-1) for step in steps])
    np.save(tmp_path / "ids.npy", steps[2].astype(np.int64))
    expected = run(compiled, tmp_path / "out", "--input", f"input_ids={tmp_path / 'ids.npy'}")
    stream.astype(np.uint16).tofile(tmp_path / "tokens.bin")
    stream.astype(np.uint32).tofile(tmp_path / "tokens32.bin")
    np.savez(tmp_path / "rows.npz", input_ids=stream.reshape(-1, seq).astype(np.int32), other=np.zeros(3))
    sources = (["tokens.bin", "--fields", "input_ids=tokens[:]"],
               ["tokens32.bin", "--fields", "input_ids=tokens[:]", "--token-type", "u32"], ["rows.npz"])
    for file, *fields in sources:
        actual = run(compiled, tmp_path / "out", "--data", tmp_path / file, *fields, "--steps", 3)
        np.testing.assert_array_equal(actual[-batch:], expected, err_msg=file)


@pytest.mark.parametrize("ranks", [1, 3])
def test_samples_of_several_files_follow_each_other(gpt2, tmp_path: pathlib.Path, ranks: int) -> None:
    """By a pattern or one by one, batches across their bounds, tokens behind the header that llm.c writes, in any order of a seed."""
    compiled = autopar.compile(gpt2.path, tmp_path / "compiled.bin", bind=gpt2.bind, ranks=ranks)
    train = autopar.compile(gpt2.path, tmp_path / "train.bin", bind=gpt2.bind, ranks=ranks,
                            train=autopar.Train("softmax_cross_entropy(logits, labels)", "sgd(lr=0.1)"))
    seq = gpt2.bind["seq"]
    rows = np.random.default_rng(0).integers(0, 500, (15, seq))
    np.savez(tmp_path / "all.npz", input_ids=rows, labels=rows)
    (tmp_path / "shards").mkdir()
    for number, part in enumerate((rows[:1], rows[1:9], rows[9:])):
        header = np.zeros(256, np.int32)
        header[:3] = 20240520, 1, part.size
        (tmp_path / "shards" / f"train_{number}.bin").write_bytes(header.tobytes() + part.astype(np.uint16).tobytes())
    files = sorted((tmp_path / "shards").iterdir())
    fields = "input_ids=tokens[:], labels=tokens[:]"
    sources = (["--data", tmp_path / "all.npz"], ["--data", tmp_path / "shards" / "train_*.bin", "--fields", fields],
               [*(word for file in files for word in ("--data", file)), "--fields", fields])

    def losses(source: list, order: list) -> list:
        metrics = tmp_path / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        words = [autopar.find_tool("autopar-run"), train.path, *source, "--steps", 4, *order, "--metrics", metrics, "--quiet"]
        subprocess.run([*map(str, words)], check=True, timeout=120)
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]

    orders = (["--in-order"], ["--seed", 3])
    told = [[losses(source, order) for source in sources] for order in orders]
    assert all(one == of_order[0] for of_order in told for one in of_order) and told[0][0] != told[1][0]
    whole = run(compiled, tmp_path / "out", *sources[0], "--fields", "input_ids=input_ids", "--epochs", 1)
    assert whole.shape[0] == len(rows)
    for source in sources[1:]:
        np.testing.assert_array_equal(run(compiled, tmp_path / "out", *source[:-1], "input_ids=tokens[:]", "--epochs", 1), whole)


def test_epochs_are_as_many_steps_as_read_every_sample(gpt2, tmp_path: pathlib.Path) -> None:
    """11 samples, one and a half times, in batches of the model's: the last step begins another time."""
    train = autopar.Train("softmax_cross_entropy(logits, labels)", "sgd(lr=0.1)")
    compiled = autopar.compile(gpt2.path, tmp_path / "train.bin", bind={**gpt2.bind, "batch": 4}, train=train)
    rows = np.random.default_rng(0).integers(0, 40, (2, 11, gpt2.bind["seq"]))
    np.savez(tmp_path / "rows.npz", input_ids=rows[0], labels=rows[1])
    told = {}
    for words in (["--epochs", "1.5"], ["--steps", "5"]):
        metrics = tmp_path / f"{words[0]}.jsonl"
        done = subprocess.run([autopar.find_tool("autopar-run"), compiled, "--data", tmp_path / "rows.npz", *words, "--metrics", metrics],
                              capture_output=True, text=True, timeout=120, check=True)
        told[words[0]] = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
        assert ("these epochs of 11 samples are 5 steps of 4" in done.stderr) == (words[0] == "--epochs")
    assert told["--epochs"] == told["--steps"] and len(told["--steps"]) == 5


def test_a_compressed_archive_is_refused_by_name(gpt2, tmp_path: pathlib.Path) -> None:
    compiled = autopar.compile(gpt2.path, tmp_path / "compiled.bin", bind=gpt2.bind, ranks=1)
    np.savez_compressed(tmp_path / "rows.npz", input_ids=np.zeros((8, gpt2.bind["seq"]), np.int32))
    answer = subprocess.run([autopar.find_tool("autopar-run"), compiled, "--data", tmp_path / "rows.npz"], capture_output=True,
                            text=True, timeout=120)
    assert answer.returncode == 65
    assert "input_ids.npy: compressed; save it with numpy.savez" in answer.stderr
