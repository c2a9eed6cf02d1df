# SPDX-License-Identifier: Apache-2.0
"""Training from random numbers or from weights in safetensors files, where the model has none of its own or others."""

import json
import pathlib
import re
import subprocess
from typing import Dict, List

import numpy as np
import pytest

import autopar
from autopar import models

from safetensors_files import read_safetensors, write_safetensors

BATCH, SEQ, VOCAB = 8, 16, 101
SMALL = {"layers": 1, "hidden": 32, "heads": 2, "vocab": VOCAB}
INIT = "*ln_*.weight=ones, *.bias=zeros, *=normal(0.02), seed=7"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Dict[object, pathlib.Path]:
    """Training steps of a gpt2 without weights, for 1 and 4 ranks, and of the same one with weights."""
    folder = tmp_path_factory.mktemp("absent")
    models.save("gpt2-124m", folder / "absent.onnx", weights=False, **SMALL)
    models.save("gpt2-124m", folder / "whole.onnx", **SMALL)
    step = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=3e-3))
    return {ranks: autopar.compile(folder / f"{model}.onnx", folder / f"{ranks}.bin", bind={"batch": BATCH, "seq": SEQ},
                                   ranks=int(ranks == 4) * 3 + 1, train=step).path
            for ranks, model in ((1, "absent"), (4, "absent"), ("whole", "whole"))}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> List[str]:
    """Counting."""
    file = tmp_path_factory.mktemp("data") / "tokens.bin"
    np.tile(np.arange(VOCAB), 30).astype(np.uint16).tofile(file)
    return ["--data", str(file), "--fields", "input_ids=tokens[:-1], labels=tokens[1:]"]


def run(program: pathlib.Path, *words: object) -> "subprocess.CompletedProcess[str]":
    """autopar-run, whatever comes of it."""
    return subprocess.run([autopar.find_tool("autopar-run"), program, *map(str, words)], capture_output=True, text=True,
                          timeout=120, check=False)


def export(program: pathlib.Path, file: pathlib.Path, *words: object) -> Dict[str, np.ndarray]:
    """The parameters that a run starts with."""
    done = run(program, "--steps", 0, "--export", file, *words)
    assert done.returncode == 0, done.stderr
    return read_safetensors(file)


def losses(program: pathlib.Path, data: List[str], folder: pathlib.Path, *words: object, steps: int = 10) -> List[float]:
    """Of each step."""
    done = run(program, *data, "--steps", steps, "--metrics", folder / "metrics.jsonl", *words)
    assert done.returncode == 0, done.stderr
    values = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (folder / "metrics.jsonl").unlink()
    return values


def test_a_model_without_weights_trains_alike_on_any_number_of_ranks(programs, data: List[str], tmp_path: pathlib.Path) -> None:
    refused = run(programs[1], *data)
    assert refused.returncode == 66 and "give --init" in refused.stderr
    alone, together = (losses(programs[ranks], data, tmp_path, "--init", INIT) for ranks in (1, 4))
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    assert alone[0] == pytest.approx(np.log(VOCAB), rel=0.02) and alone[-1] < alone[0] - 0.1
    first, second = (export(programs[ranks], tmp_path / f"{ranks}.safetensors", "--init", INIT) for ranks in (1, 4))
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value)
    assert np.all(first["transformer.ln_f.weight"] == 1) and np.all(first["transformer.ln_f.bias"] == 0)
    assert np.std(first["transformer.wte.weight"]) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("bf16", [False, True])
def test_weights_come_from_safetensors_files(programs, data: List[str], tmp_path: pathlib.Path, bf16: bool) -> None:
    weights = export(programs["whole"], tmp_path / "own.safetensors")
    names = sorted(weights)
    write_safetensors(tmp_path / "a.safetensors", {name: weights[name] for name in names[::2]}, bf16)
    write_safetensors(tmp_path / "b.safetensors", {name: weights[name] for name in names[1::2]}, bf16)
    places = {name: "ab"[i % 2] + ".safetensors" for i, name in enumerate(names)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    read = export(programs[4], tmp_path / "out.safetensors", "--init", tmp_path / "model.safetensors.index.json")
    for name, value in weights.items():
        expected = (value.view(np.uint32) >> 16 << 16).view(np.float32) if bf16 else value
        np.testing.assert_array_equal(read[name], expected)
    missing = run(programs[4], *data, "--init", tmp_path / "a.safetensors")
    assert missing.returncode == 65 and "a.safetensors has" in missing.stderr and "has no weights" in missing.stderr
    weights[names[0]] = weights[names[0]][:1]
    write_safetensors(tmp_path / "bad.safetensors", weights)
    wrong = run(programs[4], *data, "--init", tmp_path / "bad.safetensors")
    assert wrong.returncode == 65 and "expected f32 [" in wrong.stderr and "the file has f32 [1" in wrong.stderr


def test_what_a_file_gives_in_vain_and_what_it_leaves_is_said(programs, data: List[str], tmp_path: pathlib.Path) -> None:
    weights = export(programs["whole"], tmp_path / "own.safetensors")
    exact = run(programs["whole"], *data, "--init", tmp_path / "own.safetensors")
    assert exact.returncode == 0 and "remark: --init" not in exact.stderr
    head = weights.pop("transformer.wpe.weight")
    file = tmp_path / "other.safetensors"
    write_safetensors(file, {**weights, "lm_head.weight": head, **{f"h.{i}.rotary.inv_freq": head for i in range(6)}})
    said = run(programs["whole"], *data, "--init", file)
    assert said.returncode == 0
    assert (f"autopar-run: remark: --init: 7 tensors of {file} are no parameters of this program: h.0.rotary.inv_freq, h.1.rotary.inv_freq, "
            "h.2.rotary.inv_freq, h.3.rotary.inv_freq, h.4.rotary.inv_freq, ...\n") in said.stderr
    assert f"autopar-run: remark: --init: 1 parameter not in {file} starts from the model's weights: transformer.wpe.weight\n" in said.stderr
    assert "remark" not in run(programs["whole"], *data, "--init", file, "--quiet").stderr
    with pytest.warns(UserWarning) as warned, autopar.Session(programs["whole"], initializer=str(file)):
        pass
    assert [str(warning.message).split(" of ")[0].split(" not in ")[0] for warning in warned] == ["initializer: 7 tensors", "initializer: 1 parameter"]
    assert all(warning.filename == __file__ for warning in warned)
    write_safetensors(tmp_path / "foreign.safetensors", {"encoder.weight": head})
    foreign = run(programs["whole"], *data, "--init", tmp_path / "foreign.safetensors")
    assert foreign.returncode == 65
    assert f"no parameter is in the file: {tmp_path / 'foreign.safetensors'} has 1 tensor: encoder.weight" in foreign.stderr


def test_an_index_says_which_file_holds_a_tensor(programs, tmp_path: pathlib.Path) -> None:
    """What else lies in the files is of no matter; what does not lie where it says is refused."""
    weights = export(programs["whole"], tmp_path / "own.safetensors")
    bias = "transformer.ln_f.bias"
    write_safetensors(tmp_path / "a.safetensors", weights)
    write_safetensors(tmp_path / "b.safetensors", {bias: weights[bias] + 1})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: "a.safetensors" for name in weights} | {"x": "b.safetensors"}}))
    refused = run(programs["whole"], "--steps", 0, "--export", tmp_path / "out.safetensors", "--init", index)
    assert refused.returncode == 65
    assert f"{index} says that x is in b.safetensors, which has no tensor of that name; give the files that belong to the index" in refused.stderr
    for file, more in (("a", 0), ("b", 1)):
        index.write_text(json.dumps({"weight_map": {**{name: "a.safetensors" for name in weights}, bias: f"{file}.safetensors"}}))
        read = export(programs["whole"], tmp_path / "out.safetensors", "--init", index)
        np.testing.assert_array_equal(read[bias], weights[bias] + more)


def test_own_weights_are_replaced_and_a_checkpoint_wins(programs, data: List[str], tmp_path: pathlib.Path) -> None:
    own = export(programs["whole"], tmp_path / "own.safetensors")
    drawn = export(programs["whole"], tmp_path / "drawn.safetensors", "--init", "*wte*=normal(1)")
    assert np.std(drawn["transformer.wte.weight"]) == pytest.approx(1, rel=0.05)
    np.testing.assert_array_equal(drawn["transformer.wpe.weight"], own["transformer.wpe.weight"])
    straight = losses(programs[1], data, tmp_path, "--init", INIT)
    parts = [losses(programs[1], data, tmp_path, "--init", init, "--checkpoint-dir", tmp_path / "ckpt", steps=steps)
             for init, steps in ((INIT, 4), ("normal(9)", 10))]
    assert parts[0] + parts[1] == straight
    again = run(programs[1], *data, "--init", "normal(9)", "--checkpoint-dir", tmp_path / "ckpt", "--steps", 11)
    assert "step-00000010; --init is for a start without a checkpoint" in again.stderr


def test_a_rule_with_a_fan_wants_a_matrix(programs, data: List[str]) -> None:
    refused = run(programs[1], *data, "--init", "*=xavier_uniform")
    assert refused.returncode == 65 and re.search(r"parameter \S+: xavier_uniform needs a weight of at least two dimensions, it is f32 \[32\]",
                                                  refused.stderr), refused.stderr


def test_python_takes_the_same_words(programs) -> None:
    draw = np.random.default_rng(0).integers
    batch = {name: draw(0, VOCAB, (BATCH, SEQ)) for name in ("input_ids", "labels")}
    with autopar.Session(programs[4], initializer=INIT) as session:
        assert float(session.run(batch)["loss"]) == pytest.approx(np.log(VOCAB), rel=0.05)
    with pytest.raises(autopar.Error, match="at character 3"):
        autopar.Session(programs[4], initializer="*=gauss(1)")
