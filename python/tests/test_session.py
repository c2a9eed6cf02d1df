# SPDX-License-Identifier: Apache-2.0
"""`autopar.Session`: arrays as they come, threads that share a session, and training from Python."""

import concurrent.futures
import json
import os
import pathlib
import threading
from typing import Dict, List

import numpy as np
import onnx
import pytest

import autopar
from autopar import models
from conftest import Example

SMALL = {"layers": 1, "hidden": 32, "heads": 2, "vocab": 31, "positions": 8}


@pytest.fixture(name="step", scope="module")
def fixture_step(tmp_path_factory: pytest.TempPathFactory) -> Dict[int, pathlib.Path]:
    """A training step for one rank and for two."""
    folder = tmp_path_factory.mktemp("step")
    models.save("gpt2-124m", folder / "gpt2.onnx", **SMALL)
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-2))
    return {ranks: autopar.compile(folder / "gpt2.onnx", folder / f"{ranks}.bin", bind={"batch": 4, "seq": 8}, ranks=ranks, train=train) for ranks in (1, 2)}


def shapes_of(model: pathlib.Path) -> Dict[str, List[int]]:
    return {tensor.name: list(tensor.dims) for tensor in onnx.load(model).graph.initializer}


def batch(seed: int) -> Dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.integers(0, SMALL["vocab"], (4, 8), dtype=np.int64) for name in ("input_ids", "labels")}


def losses(session: autopar.Session, first: int, count: int) -> List[float]:
    return [float(session.run(batch(step))["loss"]) for step in range(first, first + count)]


def test_arrays_of_another_byte_order_mean_the_same(gpt2: Example, tmp_path: pathlib.Path) -> None:
    with autopar.Session(autopar.compile(gpt2.path, tmp_path / "c.bin", bind=gpt2.bind)) as session:
        expected = session.run(gpt2.inputs)["logits"]
        swapped = {name: value.astype(value.dtype.newbyteorder()) for name, value in gpt2.inputs.items()}
        np.testing.assert_array_equal(session.run(swapped)["logits"], expected)


def test_threads_that_share_a_session_get_their_own_results(gpt2: Example, tmp_path: pathlib.Path) -> None:
    with autopar.Session(autopar.compile(gpt2.path, tmp_path / "c.bin", bind=gpt2.bind)) as session:
        feeds = [{name: np.roll(value, shift, axis=1) for name, value in gpt2.inputs.items()} for shift in range(4)]
        expected = [session.run(feed)["logits"] for feed in feeds]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for number, result in enumerate(pool.map(lambda turn: session.run(feeds[turn % 4])["logits"], range(24))):
                np.testing.assert_array_equal(result, expected[number % 4])


def test_a_session_is_closed_behind_what_runs_in_it(gpt2: Example, tmp_path: pathlib.Path) -> None:
    session = autopar.Session(autopar.compile(gpt2.path, tmp_path / "c.bin", bind=gpt2.bind))
    began, ended = threading.Event(), []

    def run() -> None:
        while True:
            try:
                session.run(gpt2.inputs)
            except autopar.Error as error:
                ended.append(error.code)
                return
            began.set()

    thread = threading.Thread(target=run)
    thread.start()
    began.wait(60)
    session.close()
    thread.join(60)
    assert ended == [2]


def test_a_forked_process_opens_its_own(step: Dict[int, pathlib.Path]) -> None:
    """Threads stay with the parent: what it opened would wait for them forever."""
    with autopar.Session(step[1]) as session:
        child = os.fork()
        if child == 0:
            try:
                session.evaluate({})
            except autopar.Error as error:
                os._exit(7 if f"opened by process {os.getppid()} before it forked" in str(error) else 1)
            os._exit(2)
        assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 7
        losses(session, 0, 1)


def test_checkpoints_go_on_with_the_same_losses_on_another_number_of_ranks(step: Dict[int, pathlib.Path], tmp_path: pathlib.Path) -> None:
    with autopar.Session(step[1]) as session:
        assert session.load_checkpoint(tmp_path / "kept") is None
        losses(session, 0, 3)
        session.save_checkpoint(tmp_path / "kept")
        expected = losses(session, 3, 3)
        session.export(tmp_path / "after.safetensors")
    assert (tmp_path / "after.safetensors").stat().st_size > 0
    for ranks, tolerance in ((1, 0), (2, 1e-6)):
        with autopar.Session(step[ranks]) as session:
            for folder, says in {tmp_path / "kept" / "step-00000003": "is a checkpoint itself", pathlib.Path(__file__): "it is a file"}.items():
                with pytest.raises(autopar.Error, match=says):
                    session.load_checkpoint(folder)
            assert session.load_checkpoint(tmp_path / "kept") == 3
            np.testing.assert_allclose(losses(session, 3, 3), expected, rtol=tolerance)


def test_exports_are_where_a_session_starts(step: Dict[int, pathlib.Path], tmp_path: pathlib.Path) -> None:
    with autopar.Session(step[1]) as session:
        losses(session, 0, 3)
        session.export(tmp_path / "w.safetensors")
        expected = session.evaluate(batch(9))
    with autopar.Session(step[1], initializer=str(tmp_path / "w.safetensors")) as session:
        assert session.evaluate(batch(9)) == expected


@pytest.mark.parametrize("ranks", [1, 2])
def test_parameters_have_the_shapes_of_the_model_outside(step: Dict[int, pathlib.Path], ranks: int, tmp_path: pathlib.Path) -> None:
    """The program knows some in another shape, as queries, keys and values apart."""
    model = shapes_of(step[ranks].path.parent / "gpt2.onnx")
    exported = tmp_path / "weights.safetensors"
    with autopar.Session(step[ranks]) as session:
        losses(session, 0, 2)
        session.export(exported)
        weights = {port.name: session.state(port.name) for port in session.states if port.name in model}
    with open(exported, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    written = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    assert written == {name: model[name] for name in written} and len(written) == len(weights) > 10
    assert {name: list(value.shape) for name, value in weights.items()} == written
    with autopar.Session(step[3 - ranks], initializer=str(exported)) as other:
        for name, value in weights.items():
            np.testing.assert_array_equal(other.state(name), value, err_msg=name)
            other.set_state(name, value + 1)
            np.testing.assert_array_equal(other.state(name), value + 1, err_msg=name)
