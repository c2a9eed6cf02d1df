# SPDX-License-Identifier: Apache-2.0
"""What cannot be trained is refused before the first step, with what was expected."""

import json
import os
import pathlib
import subprocess
from typing import List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autopar
from autopar import models
from conftest import BATCH, SEQ, VOCAB, Example

FIELDS = "input_ids=tokens[:-1], labels=tokens[1:]"


@pytest.fixture(scope="module")
def program(gpt2: Example, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A training step on two ranks whose labels may be -100."""
    step = autopar.Train("softmax_cross_entropy(logits, labels, ignore_index=-100)", autopar.SGD(lr=0.1))
    return autopar.compile(gpt2.path, tmp_path_factory.mktemp("bad") / "train.bin", bind=gpt2.bind, ranks=2, train=step).path


def refusal(program: pathlib.Path, folder: pathlib.Path, *words: object) -> str:
    """What autopar-run says; no step ran."""
    metrics = folder / "metrics.jsonl"
    done = subprocess.run([autopar.find_tool("autopar-run"), program, "--metrics", metrics, *map(str, words)], capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode in (2, 65, 66, 73), done.stderr
    assert not metrics.exists() or not metrics.read_text()
    return done.stderr


def tokens(file: pathlib.Path, values: np.ndarray) -> List[object]:
    """The words that train on a file of tokens."""
    values.astype(np.uint16).tofile(file)
    return ["--data", file, "--fields", FIELDS, "--steps", 5]


def test_a_token_of_no_class_is_named(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    values = np.arange(40 * SEQ + 1) % VOCAB
    values[5 * SEQ + 3] = VOCAB
    said = refusal(program, tmp_path, *tokens(tmp_path / "tokens.bin", values))
    assert f"field input_ids, sample 5 at [3]: {VOCAB} is out of range: expected -{VOCAB} to {VOCAB - 1}" in said
    # Out of reach of two steps in order.
    words = tokens(tmp_path / "tokens.bin", np.r_[np.arange(8 * SEQ + 1) % VOCAB, np.full(40 * SEQ, VOCAB)])
    subprocess.run([autopar.find_tool("autopar-run"), program, *map(str, words[:-1]), "2", "--in-order"], check=True, timeout=120)
    # In the evaluation data.
    good = tokens(tmp_path / "good.bin", np.arange(40 * SEQ + 1) % VOCAB)
    said = refusal(program, tmp_path, *good, "--eval-data", tmp_path / "tokens.bin")
    assert f"tokens.bin: field labels, sample 7 at [{SEQ - 1}]" in said or "tokens.bin: field input_ids, sample 8" in said


def test_labels_outside_of_the_classes_are_named(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    good = {"input_ids": np.zeros((BATCH, SEQ), np.int64), "labels": np.full((BATCH, SEQ), -100)}
    for value in (-1, VOCAB):
        bad = dict(good, labels=np.where(np.arange(BATCH * SEQ).reshape(BATCH, SEQ) == SEQ + 2, value, -100))
        with autopar.Session(program) as session:
            session.run(good)
            with pytest.raises(autopar.Error, match=rf"input labels at \[1,2\]: {value} is out of range: expected 0 to {VOCAB - 1}, "
                                                    "or -100"):
                session.run(bad)
        rows = {name: np.tile(value, (3, 1)) for name, value in bad.items()}
        np.savez(tmp_path / "rows.npz", **rows)
        said = refusal(program, tmp_path, "--data", tmp_path / "rows.npz", "--in-order")
        assert f"field labels, sample 1 at [2]: {value} is out of range" in said
        np.save(tmp_path / "labels.npy", bad["labels"])
        said = refusal(program, tmp_path, "--input", "input_ids=random", "--input", f"labels={tmp_path / 'labels.npy'}")
        assert f"input labels at [1,2]: {value} is out of range" in said


def test_data_that_does_not_fit_is_refused(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tokens.bin"
    words = tokens(file, np.zeros(SEQ))
    assert f"too short: {SEQ} tokens, one sample takes {SEQ + 1}" in refusal(program, tmp_path, *words)
    file.write_bytes(b"\0" * 1001)
    assert "1001 bytes end in the middle of a u16" in refusal(program, tmp_path, *words)
    np.savez(tmp_path / "rows.npz", input_ids=np.zeros((8, SEQ), np.int64), labels=np.zeros((8, SEQ), np.float32))
    said = refusal(program, tmp_path, "--data", tmp_path / "rows.npz")
    assert "field labels: array 'labels' holds f32, the input wants i64" in said
    np.savez(tmp_path / "rows.npz", input_ids=np.zeros((8, SEQ), np.int64))
    assert "inputs without a value: labels: i64" in refusal(program, tmp_path, "--data", tmp_path / "rows.npz")
    np.savez(tmp_path / "rows.npz", input_ids=np.zeros((8, SEQ), np.int64), labels=np.zeros((8, SEQ - 1), np.int64))
    assert f"has shape [8,{SEQ - 1}], expected [samples,{SEQ}]" in refusal(program, tmp_path, "--data", tmp_path / "rows.npz")
    np.savez(tmp_path / "rows.npz", input_ids=np.zeros((8, SEQ), np.int64), labels=np.zeros((7, SEQ), np.int64))
    assert "input_ids has 8 samples, labels has 7" in refusal(program, tmp_path, "--data", tmp_path / "rows.npz")
    assert "cannot open" in refusal(program, tmp_path, "--data", tmp_path / "none.npz")
    np.savez(tmp_path / "rows.npz", input_ids=np.zeros((1, SEQ), np.int64), labels=np.zeros((1, SEQ), np.int64))
    assert f"too short: 1 sample, one batch takes {BATCH}" in refusal(program, tmp_path, "--data", tmp_path / "rows.npz")


@pytest.mark.parametrize("flag", ["--checkpoint-dir", "--output-dir", "--export", "--trace"])
def test_places_that_cannot_be_written_are_refused_before_the_first_step(program: pathlib.Path, tmp_path: pathlib.Path, flag: str) -> None:
    (tmp_path / "file").write_text("")
    said = refusal(program, tmp_path, "--data", "synthetic", flag, tmp_path / "file" / "x")
    assert f"{flag}: cannot make the folder" in said and "step" not in said
    if flag in ("--export", "--trace"):
        assert f"{flag}: {tmp_path} is a folder" in refusal(program, tmp_path, "--data", "synthetic", flag, tmp_path)


def test_arrays_that_cannot_be_read_are_refused(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "input_ids.npy"
    np.save(file, np.zeros((4, SEQ), np.int64))
    whole = file.read_bytes()
    void = "holds bytes of a type that NumPy does not have ('|V1'); save what they are, such as array.view(numpy.uint8)"
    faults = {"element type '<c8' is not known": np.zeros((4, SEQ), np.complex64), f"input input_ids: the file {void}": np.zeros((4, SEQ), "V1"), "arrays in Fortran order": np.asfortranarray(np.zeros((4, SEQ), np.int64))}
    for says, array in faults.items():
        np.save(file, array)
        assert says in refusal(program, tmp_path, "--input", f"input_ids={file}")
    for says, size in {"the header is cut off": 40, "the data does not have the size that the header says": len(whole) - 8}.items():
        file.write_bytes(whole[:size])
        assert says in refusal(program, tmp_path, "--input", f"input_ids={file}")
    os.mkfifo(tmp_path / "pipe.npy")
    assert "pipe.npy: not a regular file" in refusal(program, tmp_path, "--input", f"input_ids={tmp_path / 'pipe.npy'}")
    np.savez(tmp_path / "rows.npz", input_ids=np.zeros((8, SEQ), "V1"), labels=np.zeros((8, SEQ), np.int64))
    assert f"array 'input_ids' {void}" in refusal(program, tmp_path, "--data", tmp_path / "rows.npz")
    np.savez(tmp_path / "rows.npz", input_ids=np.zeros((8, SEQ), np.int64))
    archive = bytearray((tmp_path / "rows.npz").read_bytes())
    archive[0] = 0
    (tmp_path / "rows.npz").write_bytes(archive)
    assert "its header is damaged" in refusal(program, tmp_path, "--data", tmp_path / "rows.npz")


@pytest.mark.parametrize("words, says", [
    (["--input", "input_ids"], "--input 'input_ids' is not name=file.npy"),
    (["--input", "input_ids=."], ".: not a regular file"),
    (["--in-order"], "--in-order and --token-type say how --data is read; give it, or leave them out"),
    (["--patience", "2"], "--best-by and --patience speak of the evaluations of --export-best: give it a file, too"),
    (["--best-by", "max:loss"], "--best-by and --patience speak of the evaluations of --export-best: give it a file, too"),
    (["--epochs", "2"], "--epochs counts how often --data is read; give it, or say --steps"),
    (["--epochs", "2", "--data", "synthetic"], "--epochs: made-up data has no end; say --steps"),
    (["--epochs", "2", "--steps", "2", "--data", "synthetic"], "--steps excludes --epochs"),
    (["--keep-checkpoints", "2"], "--keep-checkpoints needs --checkpoint-dir"),
    (["--input", "input_ids=zeros", "--input", "input_ids=random"], "--input gives 'input_ids' twice"),
    (["--input", "ids=zeros"], "there is no input 'ids'; the inputs are"),
    (["--fields", FIELDS], "--fields speaks of the arrays of --data, which is missing"),
    (["--eval-every", "2"], "--eval-every and --eval-steps need --eval-data"),
    (["--eval-data", "t.bin"], "--eval-data goes with --data"),
    (["--checkpoint-every", "2"], "--checkpoint-every needs --checkpoint-dir"),
    (["--steps", "0"], "--steps 0 runs no step; it goes with --eval-data, --export and --export-ema"),
    (["--steps", "0", "--export", "w.safetensors", "--output-dir", "out"],
     "--steps 0 runs no step: there is nothing for --output-dir, --trace, --benchmark and --profile"),
    (["--seed", "3"], "--seed is of the order in which samples of --data come; give --data, or leave it out"),
    (["--data", "synthetic", "--input", "labels=zeros"], "--input gives 'labels', which --data feeds in every step; leave one of them out"),
    (["--data", "synthetic", "--data", "t.bin"], "made-up data stands alone: \"synthetic\" is one of 2 files"),
    (["--data", "synthetic(words=3)"], "data 'synthetic(words=3)': expected synthetic or synthetic(vocab=N)"),
])
def test_words_that_do_not_go_together_are_refused(program: pathlib.Path, tmp_path: pathlib.Path, words: List[str], says: str) -> None:
    assert says in refusal(program, tmp_path, *words)


def test_a_program_that_does_not_train_has_no_checkpoints_and_no_loss(gpt2: Example, tmp_path: pathlib.Path) -> None:
    forward = autopar.compile(gpt2.path, tmp_path / "forward.bin", bind=gpt2.bind).path
    for option in ("--checkpoint-dir", "--export"):
        said = refusal(forward, tmp_path, option, tmp_path / "kept")
        assert "this program keeps nothing from step to step, so there is nothing to checkpoint or export; compile it with --train" in said
    for words in (["--on-nan", "skip"], ["--resume", "none"]):
        assert "--on-nan and --resume are for programs that were compiled with --train" in refusal(forward, tmp_path, "--data", "synthetic", *words)
    said = refusal(forward, tmp_path, "--data", "synthetic", "--eval-data", "synthetic")
    assert "--eval-data: this program has no loss that it can evaluate without changing its state; compile the model with --train" in said


def test_weights_that_were_moved_are_missed(tmp_path: pathlib.Path) -> None:
    models.save("gpt2-124m", tmp_path / "m.onnx", layers=1, hidden=32, heads=2, vocab=VOCAB)
    forward = autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", bind={"batch": BATCH, "seq": SEQ}).path
    (tmp_path / "m.onnx").rename(tmp_path / "moved.onnx")
    said = refusal(forward, tmp_path, "--data", "synthetic")
    advice = "the artifact reads its weights from there: move it together with the model's files, or compile it with --copy-weights"
    assert f"cannot open {tmp_path}/m.onnx: No such file or directory; {advice}" in said
    (tmp_path / "m.onnx").mkdir()
    assert f"cannot open {tmp_path}/m.onnx: not a regular file; {advice}" in refusal(forward, tmp_path, "--data", "synthetic")


def test_evaluation_data_must_feed_the_same_inputs(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = np.zeros((8, SEQ), np.int64)
    np.savez(tmp_path / "both.npz", input_ids=rows, labels=rows)
    np.savez(tmp_path / "one.npz", labels=rows)
    said = refusal(program, tmp_path, "--data", tmp_path / "both.npz", "--eval-data", tmp_path / "one.npz")
    assert f"{tmp_path}/one.npz does not feed the inputs that {tmp_path}/both.npz feeds; give both the same arrays, or --fields" in said
    np.savez(tmp_path / "few.npz", input_ids=rows[:1], labels=rows[:1])
    said = refusal(program, tmp_path, "--data", tmp_path / "both.npz", "--eval-data", tmp_path / "few.npz", "--eval-steps", "1")
    assert f"few.npz has 1 samples, one batch takes {BATCH}, --eval-steps 1 wants more" in said
    assert "--eval-data synthetic has no end: say how many batches by --eval-steps" in refusal(program, tmp_path, "--data", "synthetic",
                                                                                             "--eval-data", "synthetic")


def test_archives_that_cannot_be_read_in_place_are_refused(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.npz"
    np.savez_compressed(file, input_ids=np.zeros((8, SEQ), np.int64))
    said = refusal(program, tmp_path, "--data", file)
    assert f"{file}: input_ids.npy: compressed; save it with numpy.savez, whose arrays can be read in place" in said
    np.savez(file, input_ids=np.zeros((8, SEQ), np.int64))
    archive = bytearray(file.read_bytes())
    central = archive.rindex(b"PK\x01\x02")
    archive[central + 20:central + 28] = b"\xff\xff\xff\x0f" * 2
    file.write_bytes(archive)
    assert f"{file}: input_ids.npy: it reaches past the end of the file" in refusal(program, tmp_path, "--data", file)
    file.write_bytes(archive[:-30])
    assert f"{file}: not a .npz file, or cut off" in refusal(program, tmp_path, "--data", file)


@pytest.mark.parametrize("preset, says", [
    ("cpux2x2", "cpu ranks live on one machine; use cpux2 or a cluster file"),
    ("z80x4", "unknown cluster preset"),
])
def test_machines_that_nobody_knows_are_refused(gpt2: Example, tmp_path: pathlib.Path, preset: str, says: str) -> None:
    with pytest.raises(autopar.Error) as raised:
        autopar.compile(gpt2.path, tmp_path / "x.bin", bind=gpt2.bind, options=["--cluster", f"presets:{preset}"])
    assert says in str(raised.value)


@pytest.mark.parametrize("words, says", [
    (["loss=softmax_cross_entropy(scores, labels)", "sgd(lr=0.1)"], 'the model has no output "scores"; its outputs are logits'),
    (["loss=softmax_cross_entropy(logits labels)", "sgd(lr=0.1)"], "at character"),
    (["loss=softmax_cross_entropy(logits, labels)", "adamw(lr=0.1, beta=2)"], "at character 15"),
    (["loss=softmax_cross_entropy(logits, labels)", "adamw(lr=)"], "at character 10"),
])
def test_words_that_do_not_parse_point_at_the_character(gpt2: Example, tmp_path: pathlib.Path, words: List[str], says: str) -> None:
    with pytest.raises(autopar.Error) as raised:
        autopar.compile(gpt2.path, tmp_path / "x.bin", bind=gpt2.bind, options=["--train", words[0], "--optimizer", words[1]])
    assert says in str(raised.value)


def test_an_empty_batch_is_answered_emptily_and_trains_nothing(gpt2: Example, tmp_path: pathlib.Path) -> None:
    bind = {**gpt2.bind, "batch": 0}
    with pytest.raises(autopar.Error, match="a batch of no samples has no loss"):
        autopar.compile(gpt2.path, tmp_path / "train.bin", bind=bind, train=autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.1)))
    program = autopar.compile(gpt2.path, tmp_path / "serve.bin", bind=bind).path
    with autopar.Session(program) as session:
        result = session.run({"input_ids": np.zeros((0, SEQ), np.int64)})
    assert result["logits"].shape == (0, SEQ, VOCAB)


def test_paths_that_are_not_utf8_are_written_with_escapes(gpt2: Example, tmp_path: pathlib.Path) -> None:
    folder = pathlib.Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    step = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.1))
    artifact = autopar.compile(gpt2.path, folder / "train.bin", bind=gpt2.bind, train=step).path
    words = tokens(folder / "tokens.bin", np.arange(40 * SEQ + 1) % VOCAB)
    for steps in ("2", "3"):
        done = subprocess.run([autopar.find_tool("autopar-run"), artifact, *words[:-1], steps, "--checkpoint-dir", folder / "ckpt",
                               "--json"], capture_output=True, timeout=120, check=True)
        assert json.loads(done.stdout)["artifact"] == f"{tmp_path}/\\xff/train.bin"
    assert b"goes on with the samples that" not in done.stderr
    index = json.loads((folder / "ckpt/step-00000003/index.json").read_text())
    assert index["notes"]["data"] == f"{tmp_path}/\\xff/tokens.bin"


def test_devices_are_written_to_and_not_replaced(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said = refusal(program, tmp_path, "--data", "synthetic", "--export", pipe)
    assert f"--export: {pipe} is no file; name another one" in said
    with autopar.Session(program) as session:
        with pytest.raises(autopar.Error, match="stands there and is no file; name another one"):
            session.export(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    subprocess.run([autopar.find_tool("autopar-run"), program, "--data", "synthetic", "--steps", "1", "--trace", pipe], check=True, timeout=120)
    trace, _ = reader.communicate(timeout=60)
    assert json.loads(trace)["traceEvents"] and pipe.is_fifo()


def test_what_cannot_be_printed_is_an_error(program: pathlib.Path, gpt2: Example, tmp_path: pathlib.Path) -> None:
    bind = ",".join(f"{name}={extent}" for name, extent in gpt2.bind.items())
    compiles = ["autopar-compile", gpt2.path, "--bind", bind, "--ranks", "2", "-o", tmp_path / "x.bin", "--explain"]
    for words in (["autopar-run", "--dry-run", program], ["autopar-translate", "--dump", program], compiles):
        with open("/dev/full", "w", encoding="utf-8") as device:
            done = subprocess.run([autopar.find_tool(words[0]), *words[1:]], stdout=device, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        assert done.returncode == 74 and "cannot write to standard output" in done.stderr, words


def test_made_up_data_needs_inputs_with_samples(tmp_path: pathlib.Path) -> None:
    scalar, vector = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("s", []), ("x", [2])))
    graph = helper.make_graph([helper.make_node("Mul", ["x", "s"], ["y"])], "g", [scalar, vector], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin")
    assert "input s is a scalar and has no samples: give it with --input" in refusal(tmp_path / "m.bin", tmp_path, "--data", "synthetic")
    autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", fix_inputs={"s": 1, "x": 2})
    assert "feeds nothing: the program takes no inputs; leave --data out" in refusal(tmp_path / "m.bin", tmp_path, "--data", "synthetic")
