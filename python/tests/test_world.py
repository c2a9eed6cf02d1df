# SPDX-License-Identifier: Apache-2.0
"""Python as one process per rank, under the launchers that there are: the same numbers as with all ranks in one process."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import types
from typing import Dict, List, Optional

import numpy as np
import pytest

import autopar
import small_gpt2
from autopar import models

RANKS = 3
GENERATE = """
import autopar, json
with autopar.World() as world:
    with autopar.Generator("step.bin", "prefill.bin", world=world) as generator:
        answers = generator.generate([[5, 9, 2], [7], [1, 2, 3, 4, 5, 6, 7, 8, 9], [8, 8]], 6, temperature=1.5, seed=world.rank)
    print(json.dumps([world.rank, world.processes, answers]))
"""
TRAIN = """
import autopar, json, numpy as np, sys
random = np.random.default_rng(3)
def batch():
    tokens = random.integers(0, 101, (8, 17))
    return {"input_ids": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()}
with autopar.World() as world, autopar.Session("train.bin", world=world) as session:
    begin = session.load_checkpoint("ckpt")
    losses = [float(session.run(batch())["loss"]) for _ in range(3)]
    losses.append(session.evaluate(batch())["loss"])
    session.save_checkpoint("ckpt")
    session.export("weights.safetensors")
    print(json.dumps([world.rank, begin, losses]))
"""


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A training step and a decoder with a program for prompts beside it."""
    folder = tmp_path_factory.mktemp("world")
    small_gpt2.compile_step(small_gpt2.save(folder, layers=1), folder / "train.bin", RANKS, 1)
    models.save("llama3-8b", folder / "llama.onnx", layers=1, hidden=32, heads=4, vocab=61, positions=64, opset=24, cache=24)
    for name, tokens, beside in (("step", 1, None), ("prefill", 4, folder / "step.bin")):
        autopar.compile(folder / "llama.onnx", folder / f"{name}.bin", bind={"batch": 3, "seq": tokens}, ranks=RANKS, beside=beside,
                        options=["--quiet", "--mesh", "data=3", "--carry", "present.*=past_key_values.*"])
    return folder


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start(script: str, folder: pathlib.Path, environment: Optional[Dict[str, str]] = None, launcher: Optional[List[str]] = None) -> "subprocess.Popen[str]":
    own = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK")}
    return subprocess.Popen([*(launcher or []), sys.executable, "-c", script], cwd=folder, env={**own, **(environment or {})},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def as_by_torchrun(script: str, folder: pathlib.Path, processes: int = RANKS) -> "List[subprocess.Popen[str]]":
    port = str(free_port())
    return [start(script, folder, {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes),
                                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for rank in range(processes)]


def said(process: "subprocess.Popen[str]") -> List[list]:
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    return [json.loads(line) for line in out.splitlines()]


def alone(script: str, folder: pathlib.Path) -> list:
    return said(start(script, folder))[0]


def test_every_process_gets_the_tokens_that_the_first_chooses(folder: pathlib.Path) -> None:
    """Each has a seed of its own, as it does not choose."""
    expected = alone(GENERATE, folder)
    assert expected[:2] == [0, 1]
    results = [said(process)[0] for process in as_by_torchrun(GENERATE, folder)]
    assert results == [[rank, RANKS, expected[2]] for rank in range(RANKS)]


def test_mpirun_gives_the_same(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if not shutil.which("mpirun"):
        pytest.fail("mpirun is missing; run scripts/install-packages")
    # What ranks print at once mpirun may mix on its own output.
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(RANKS), "--output-filename", str(tmp_path)]
    process = start(GENERATE, folder, launcher=launcher)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 0, error
    results = [json.loads(next(tmp_path.glob(f"*/rank.{rank}/stdout")).read_text()) for rank in range(RANKS)]
    assert results == [[rank, RANKS, alone(GENERATE, folder)[2]] for rank in range(RANKS)]


def test_training_goes_on_where_another_number_of_processes_stopped(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for place in ("one", "many"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "train.bin").symlink_to(folder / "train.bin")
        (tmp_path / place / "gpt2.onnx").symlink_to(folder / "gpt2.onnx")
    first = alone(TRAIN, tmp_path / "one")
    assert first[:2] == [0, None]
    results = [said(process)[0] for process in as_by_torchrun(TRAIN, tmp_path / "many")]
    assert results == [[rank, None, first[2]] for rank in range(RANKS)]
    second = alone(TRAIN, tmp_path / "many")
    assert second[:2] == [0, 3]
    assert [said(process)[0] for process in as_by_torchrun(TRAIN, tmp_path / "one")] == [[rank, 3, second[2]] for rank in range(RANKS)]
    assert (tmp_path / "one" / "weights.safetensors").read_bytes() == (tmp_path / "many" / "weights.safetensors").read_bytes()


def test_a_process_that_leaves_with_an_exception_ends_the_others(folder: pathlib.Path) -> None:
    script = """
import autopar, numpy as np
with autopar.World() as world, autopar.Session("step.bin", world=world) as session:
    inputs = {"input_ids": np.zeros((3, 1), np.int64), "cache_length": np.zeros(3, np.int64)}
    session.run(inputs)
    if world.rank == 1:
        raise ValueError("my data is gone")
    session.run(inputs)
"""
    processes = as_by_torchrun(script, folder)
    errors = [process.communicate(timeout=30)[1] for process in processes]
    assert all(process.returncode == 1 for process in processes)
    assert "ValueError: my data is gone" in errors[1]
    for rank in (0, 2):
        assert "autopar.errors.Error: " in errors[rank] and "rank 1" in errors[rank] and "my data is gone" in errors[rank], errors[rank]


@pytest.mark.parametrize("error, why", [(SystemExit(0), b""), (SystemExit(), b""), (SystemExit(3), b"SystemExit: 3"), (ValueError("no data"), b"ValueError: no data")])
def test_a_process_that_exits_with_0_does_not_fail(monkeypatch: pytest.MonkeyPatch, error: BaseException, why: bytes) -> None:
    said_why = []
    with pytest.raises(type(error)):
        with autopar.World() as world:
            leave = world._library.autoparLeave
            monkeypatch.setattr(world, "_library", types.SimpleNamespace(autoparLeave=lambda own, text: (said_why.append(text), leave(own, b""))))
            raise error
    assert said_why == [why]


def test_a_reason_of_any_characters_is_told(folder: pathlib.Path) -> None:
    script = """
import autopar, time
with autopar.World() as world:
    if world.rank == 1:
        raise ValueError("no file \\udcff.npy")
    autopar.Session("step.bin", world=world)
"""
    errors = [process.communicate(timeout=30)[1] for process in as_by_torchrun(script, folder)]
    assert "surrogates not allowed" not in errors[1] and "no file \\udcff.npy" in errors[0], errors


def test_a_forked_process_leaves_the_world_to_its_parent(folder: pathlib.Path) -> None:
    script = """
import autopar, json, os, signal, sys
with autopar.World() as world:
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            autopar.Session("step.bin", world=world)
        except autopar.Error as error:
            sys.exit(7 if "before it forked" in str(error) else 1)
    ended = os.waitpid(child, 0)[1]
    with autopar.Session("step.bin", world=world):
        print(json.dumps([world.rank, ended]))
"""
    assert [said(process) for process in as_by_torchrun(script, folder)] == [[[rank, 7 << 8]] for rank in range(RANKS)]


def test_another_number_of_processes_is_refused_by_all(folder: pathlib.Path) -> None:
    script = """
import autopar
try:
    with autopar.World() as world:
        autopar.Session("step.bin", world=world)
except autopar.Error as error:
    print([error.code, str(error)[-200:]])
"""
    for process in as_by_torchrun(script, folder, processes=2):
        out, error = process.communicate(timeout=30)
        assert "78" in out and "was compiled for 3 ranks, this job has 2" in out, (out, error)


def test_what_is_whole_nowhere_is_not_read(folder: pathlib.Path) -> None:
    script = """
import autopar, json, numpy as np
with autopar.World() as world, autopar.Session("step.bin", world=world) as session:
    said = []
    try:
        session.state(session.states[0].name)
    except autopar.Error as error:
        said.append(str(error))
    first = session.run({"input_ids": np.ones((3, 1), np.int64), "cache_length": np.zeros(3, np.int64)}, everywhere=False)
    said.append(sorted(first))
    array = np.full(3, world.rank)
    session.broadcast(array)
    said.append(array.tolist())
    print(json.dumps([world.rank, *said]))
"""
    refused = "a state is read and written whole where all ranks are in one process"
    for rank, process in enumerate(as_by_torchrun(script, folder)):
        number, error, outputs, array = said(process)[0]
        assert (number, outputs, array) == (rank, ["logits"] if rank == 0 else [], [0, 0, 0])
        assert refused in error


def test_a_closed_world_takes_no_sessions(folder: pathlib.Path) -> None:
    with autopar.World() as world:
        assert (world.rank, world.processes) == (0, 1)
        with autopar.Session(folder / "step.bin", world=world) as session:
            assert session.ranks == RANKS, "all of them are here"
            array = np.arange(3)
            session.broadcast(array)
            with pytest.raises(autopar.Error, match="contiguous"):
                session.broadcast(np.arange(6)[::2])
    world.close()
    with pytest.raises(autopar.Error, match="the world is closed"):
        autopar.Session(folder / "step.bin", world=world)
