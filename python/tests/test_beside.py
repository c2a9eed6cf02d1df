# SPDX-License-Identifier: Apache-2.0
"""Programs of one model for several extents, in one process: what lasts is held once, and each computes what it computes alone."""

import contextlib
import gc
import json
import os
import pathlib
import subprocess
import sys
from typing import Dict, List, Optional, Tuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import autopar
import small_gpt2
from autopar import models
from emulated_cuda import LIBRARIES
from safetensors_files import write_safetensors

BATCH, ROOM, VOCAB = 8, 24, 61
SIZES = {"layers": 2, "hidden": 64, "heads": 4, "vocab": VOCAB, "positions": 64, "opset": 24, "cache": ROOM}
PROMPTS = [[5, 9, 2], [7], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]]
MATRICES = 16 * 64 * 64 * 4  # about what a layer's matrices take


@pytest.fixture(name="model", scope="module")
def fixture_model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("model") / "llama.onnx"
    models.save("llama3-8b", path, **SIZES)
    return path


def build(model: pathlib.Path, path: pathlib.Path, tokens: int, *options: str, ranks: Optional[int] = 1, beside: Optional[pathlib.Path] = None,
          batch: int = BATCH) -> pathlib.Path:
    # Scratch, of which more threads take more, is not what is looked at.
    carried = ["--quiet", "--threads", "1", "--carry", "present.*=past_key_values.*", *options]
    autopar.compile(model, path, bind={"batch": batch, "seq": tokens}, ranks=ranks, beside=beside, options=carried)
    return path


def prompt(tokens: int, batch: int = BATCH) -> Dict[str, np.ndarray]:
    return {"input_ids": np.random.default_rng(tokens).integers(0, VOCAB, (batch, tokens)), "cache_length": np.zeros(batch, np.int64)}


def caches(session: autopar.Session) -> List[np.ndarray]:
    return [session.state(port.name) for port in session.states]


def assert_computes_as_alone(path: pathlib.Path, step: autopar.Session, tokens: int, batch: int = BATCH) -> autopar.Session:
    """The session beside `step`."""
    session = autopar.Session(path, beside=step)
    with autopar.Session(path) as alone:
        expected, found = alone.run(prompt(tokens, batch))["logits"], session.run(prompt(tokens, batch))["logits"]
        np.testing.assert_array_equal(found, expected)
        for mine, other in zip(caches(session), caches(alone)):
            np.testing.assert_array_equal(mine, other)
        assert alone.shared_bytes == 0
        assert session.own_bytes + session.shared_bytes <= alone.own_bytes + 16 * 1024 * session.ranks  # parts of an arena end where they end
    return session


@pytest.mark.parametrize("ranks,options", [(1, []), (2, []), (2, ["--mesh", "tensor=2"]), (4, ["--constrain", "mesh=data=2xtensor=2, weight-axis=tensor"]),
                                           (2, ["--stages", "2"]), (1, ["--precision", "bf16"]), (1, ["--pack-weights=false"]), (2, ["--pack-weights=false"])])
def test_what_lasts_is_held_once(model: pathlib.Path, tmp_path: pathlib.Path, ranks: int, options: List[str]) -> None:
    first = build(model, tmp_path / "step.bin", 1, *options, ranks=ranks)
    kept = [option for option in options if option.startswith("--p") or option == "bf16"]  # the plan's part is said by --beside
    second = build(model, tmp_path / "prefill.bin", 8, *kept, ranks=ranks, beside=first)
    with autopar.Session(first) as step, assert_computes_as_alone(second, step, 8) as prefill:
        assert prefill.shared_bytes > step.own_bytes * 0.6
        assert prefill.own_bytes < prefill.shared_bytes
        assert all(prefill.shares_state(port.name) for port in prefill.states)
        assert not prefill.shares_state("no such state")
        held = caches(prefill)
        with autopar.Session(second, beside=step):  # what is opened later takes nothing back
            for mine, other in zip(caches(step), held):
                np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("tokens", [(1, 8), (8, 1)], ids=["rows-first", "packed-first"])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_what_few_rows_read_is_read_by_many_as_well(tmp_path: pathlib.Path, tokens: Tuple[int, int], precision: str, ranks: int) -> None:
    """CPUs read weights in another order for one row than for eight: the second program reads them as the first does."""
    path = tmp_path / "gpt2.onnx"
    models.save("gpt2-124m", path, **{**SIZES, "dtype": {"f32": "float32", "bf16": "bfloat16"}[precision]})
    first = build(path, tmp_path / "first.bin", tokens[0], ranks=ranks, batch=1)
    second = build(path, tmp_path / "second.bin", tokens[1], ranks=ranks, batch=1, beside=first)
    apart = build(path, tmp_path / "apart.bin", tokens[1], ranks=ranks, batch=1)
    with autopar.Session(first) as one, assert_computes_as_alone(second, one, tokens[1], batch=1) as two, autopar.Session(apart) as other:
        assert two.shared_bytes > 0.9 * one.own_bytes - ranks * 256 * 1024
        expected = other.run(prompt(tokens[1], 1))["logits"].astype(np.float32)
        np.testing.assert_allclose(two.run(prompt(tokens[1], 1))["logits"].astype(np.float32), expected, rtol=0, atol=2e-2 if precision == "bf16" else 1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_random_plans_beside_each_other_compute_what_they_compute_alone(model: pathlib.Path, tmp_path: pathlib.Path, seed: int) -> None:
    """Whatever of them is alike, and whatever is not: without --beside plans have parameters anywhere."""
    random = ["--engine", "random", "--seed"]
    first = build(model, tmp_path / "a.bin", 1, *random, str(seed), ranks=4)
    like = build(model, tmp_path / "b.bin", 8, *random, str(seed + 100), ranks=4, beside=first)
    other = build(model, tmp_path / "c.bin", 8, *random, str(seed + 200), ranks=4)
    with autopar.Session(first) as step:
        alone = step.run(prompt(1))["logits"]
        with assert_computes_as_alone(like, step, 8) as session:
            assert session.shared_bytes > 0
        assert_computes_as_alone(other, step, 8).close()
        np.testing.assert_array_equal(step.run(prompt(1))["logits"], alone)


def test_a_generator_reads_prompts_into_the_caches_of_its_step(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    step = build(model, tmp_path / "step.bin", 1, ranks=2)
    prefill = build(model, tmp_path / "prefill.bin", 8, ranks=2, beside=step)
    with autopar.Generator(step) as slow, autopar.Generator(step, prefill) as fast:
        assert fast.generate(PROMPTS, tokens=6) == slow.generate(PROMPTS, tokens=6)


def test_memory_stays_until_the_last_session_is_closed(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """In a chain of three, of which the first two are closed, collected or both."""
    paths = [build(model, tmp_path / f"{tokens}.bin", tokens) for tokens in (1, 4, 8)]
    with autopar.Session(paths[2]) as alone:
        expected = alone.run(prompt(8))["logits"]
    first = autopar.Session(paths[0])
    second = autopar.Session(paths[1], beside=first)
    third = autopar.Session(paths[2], beside=second)
    assert third.shared_bytes > 0.9 * second.shared_bytes
    first.close()
    del first, second
    gc.collect()
    np.testing.assert_array_equal(third.run(prompt(8))["logits"], expected)
    third.close()


def test_what_lasts_for_a_step_is_memory_of_all(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Behind the largest program the others take next to none of their own."""
    first = build(model, tmp_path / "16.bin", 16, ranks=2)
    for tokens in (8, 1):
        second = build(model, tmp_path / f"{tokens}.bin", tokens, ranks=2, beside=first)
        with autopar.Session(first) as large, assert_computes_as_alone(second, large, tokens) as session:
            assert session.own_bytes < 0.05 * large.own_bytes, (session.own_bytes, large.own_bytes)
            expected = session.run(prompt(tokens))["logits"]
            large.run(prompt(16))
            np.testing.assert_array_equal(session.run(prompt(tokens))["logits"], expected)


def test_both_fit_into_one_limit_of_memory(tmp_path: pathlib.Path) -> None:
    """What only the first holds is not there for the second, whether the limit is given or is the cluster's."""
    path = tmp_path / "wide.onnx"
    models.save("llama3-8b", path, **{**SIZES, "vocab": 4096})
    first = build(path, tmp_path / "first.bin", 2)
    second = build(path, tmp_path / "second.bin", 8, beside=first)
    with autopar.Session(first) as one, autopar.Session(second, beside=one) as two:
        together, alone = one.own_bytes + two.own_bytes, one.own_bytes
        assert two.own_bytes > 0.3 * alone
    slack = 64 * 1024
    build(path, tmp_path / "fits.bin", 8, "--memory-limit", str(together + slack), beside=first)
    build(path, tmp_path / "as-large.bin", 2, "--memory-limit", str(alone + slack), beside=first)
    for tokens, limit in ((8, together - 8 * slack), (2, alone // 2)):
        with pytest.raises(autopar.Error, match="over the limit of"):
            build(path, tmp_path / "not.bin", tokens, "--memory-limit", str(limit), beside=first)
    for name, memory, fits in (("a", together + slack, True), ("b", together - 8 * slack, False)):
        device = {"name": "device", "peak_flops_per_s": {"f32": 1e11}, "memory_bytes_per_s": 1e11, "memory_bytes": memory}
        cluster = {"kind": "autopar.cluster", "version": 1, "name": "small", "device_types": [device], "levels": [{"latency_us": 1, "bytes_per_s": 1e10}],
                   "nodes": [{"count": 1, "devices_per_node": 1, "device_type": "device"}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(cluster))
        with contextlib.nullcontext() if fits else pytest.raises(autopar.Error, match="no plan fits"):
            build(path, tmp_path / "on-cluster.bin", 8, "--cluster", str(tmp_path / f"{name}.json"), ranks=None, beside=first)


def test_other_weights_are_not_shared(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.onnx"
    models.save("llama3-8b", other, seed=9, **SIZES)
    first, second = build(model, tmp_path / "a.bin", 1), build(other, tmp_path / "b.bin", 8)
    with autopar.Session(first) as step, assert_computes_as_alone(second, step, 8) as session:
        assert session.shared_bytes < MATRICES


def test_drawn_weights_are_shared_if_they_are_drawn_alike(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "llama.onnx"
    models.save("llama3-8b", path, weights=False, **SIZES)
    first, second = build(path, tmp_path / "a.bin", 1), build(path, tmp_path / "b.bin", 8)
    drawn = "normal(0.02), seed=1"
    with autopar.Session(first, initializer=drawn) as step:
        for initializer, isShared in ((drawn, True), ("normal(0.02), seed=2", False)):
            with autopar.Session(second, initializer=initializer, beside=step) as session, autopar.Session(second, initializer=initializer) as alone:
                assert (session.shared_bytes > MATRICES) == isShared
                np.testing.assert_array_equal(session.run(prompt(8))["logits"], alone.run(prompt(8))["logits"])


def test_a_shape_that_one_batch_leaves_and_another_does_not_parts_nothing(tmp_path: pathlib.Path) -> None:
    """The batch of one gives a bias dimensions of one element."""
    path = tmp_path / "bert.onnx"
    models.save("bert-base", path, layers=1, hidden=64, heads=4, vocab=VOCAB, positions=64)
    for ranks in (1, 4):
        one, many = tmp_path / f"one{ranks}.bin", tmp_path / f"many{ranks}.bin"
        autopar.compile(path, one, bind={"batch": 1, "seq": 16}, ranks=ranks, options=["--quiet"])
        autopar.compile(path, many, bind={"batch": 8, "seq": 8}, ranks=ranks, beside=one, options=["--quiet"])
        with autopar.Session(one) as first, autopar.Session(many, beside=first) as second:
            assert second.shared_bytes > 0.8 * first.own_bytes - 8 * 64 * 1024


def test_what_has_nothing_in_common_shares_nothing(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    one, two = build(model, tmp_path / "one.bin", 1), build(model, tmp_path / "two.bin", 1, ranks=2)
    with autopar.Session(one) as session, assert_computes_as_alone(two, session, 1) as other:
        assert other.shared_bytes == 0  # parts are none of the whole
    with pytest.raises(autopar.Error, match="the session is closed"):
        autopar.Session(one, beside=session)
    with pytest.raises(autopar.Error, match="--beside .*two.bin is for 2 ranks, this one for 1"):
        build(model, tmp_path / "three.bin", 8, beside=two)
    with pytest.raises(autopar.Error, match="demands mesh=data=2, but --mesh demands"):
        build(model, tmp_path / "three.bin", 8, "--mesh", "tensor=2", ranks=2, beside=build(model, tmp_path / "d.bin", 1, "--mesh", "data=2", ranks=2))


def test_programs_are_chosen_by_the_shapes_of_their_inputs(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    first = build(model, tmp_path / "1.bin", 1)
    second = build(model, tmp_path / "8.bin", 8, beside=first)
    with autopar.Programs(first, second) as programs:
        for tokens, path in ((8, second), (1, first)):
            with autopar.Session(path) as alone:
                for port in alone.states:
                    alone.set_state(port.name, programs.sessions[0].state(port.name))
                np.testing.assert_array_equal(programs.run(prompt(tokens))["logits"], alone.run(prompt(tokens))["logits"])
        with pytest.raises(autopar.Error, match=r"no program takes cache_length \[8\], input_ids \[8, 5\]; the programs take cache_length \[8\], input_ids \[8, 1\]; ") as refused:
            programs.run(prompt(5))
        assert refused.value.code == 65
    for paths, message in (((), "at least one artifact"), ((first, first), "takes the same shapes as an artifact before it")):
        with pytest.raises(autopar.Error, match=message) as refused:
            autopar.Programs(*paths)
        assert refused.value.code == 2


def weights_of(model: pathlib.Path, path: pathlib.Path) -> pathlib.Path:
    names = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(model).graph.initializer}
    write_safetensors(path, {name: value for name, value in names.items() if value.dtype == np.float32 and value.ndim > 0})
    return path


def test_other_weights_are_loaded_into_sessions_that_are_open(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Those that both hold once and the others; caches stay, what was packed is packed anew."""
    other = tmp_path / "other.onnx"
    models.save("llama3-8b", other, seed=9, **SIZES)
    weights = weights_of(other, tmp_path / "other.safetensors")
    paths = [build(model, tmp_path / "1.bin", 1, ranks=2)]
    paths.append(build(model, tmp_path / "8.bin", 8, ranks=2, beside=paths[0]))
    with autopar.Session(paths[1], initializer=weights) as session:
        expected = session.run(prompt(8))["logits"]
    with autopar.Session(build(other, tmp_path / "other.bin", 8)) as session:
        np.testing.assert_allclose(session.run(prompt(8))["logits"], expected, rtol=1e-4, atol=1e-5)
    with autopar.Programs(*paths) as programs:
        before = programs.run(prompt(8))["logits"]
        held = caches(programs.sessions[0])
        programs.load_weights(weights)
        for mine, kept in zip(caches(programs.sessions[0]), held):
            np.testing.assert_array_equal(mine, kept)
        np.testing.assert_array_equal(programs.run(prompt(8))["logits"], expected)
        assert not np.allclose(before, expected, rtol=1e-2)
        with pytest.raises(autopar.Error, match="no-such.safetensors"):
            programs.load_weights(tmp_path / "no-such.safetensors")
        np.testing.assert_array_equal(programs.run(prompt(8))["logits"], expected, "a refusal changes nothing")
        with autopar.Session(paths[1], initializer=weights, beside=programs.sessions[0]) as late:
            assert late.shared_bytes > MATRICES, "it has the same weights"
            np.testing.assert_array_equal(late.run(prompt(8))["logits"], expected)
        weights_of(model, weights)
        with autopar.Session(paths[1], initializer=weights, beside=programs.sessions[0]) as later:
            assert later.shared_bytes < MATRICES, "the file has others now"
            np.testing.assert_array_equal(later.run(prompt(8))["logits"], before)


def test_a_third_session_takes_no_weights_that_the_first_has_replaced(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """What the second has of the first is what was loaded there since; what it has of its own is not."""
    models.save("llama3-8b", tmp_path / "other.onnx", seed=9, **SIZES)
    weights = weights_of(tmp_path / "other.onnx", tmp_path / "other.safetensors")
    paths = [build(model, tmp_path / "1.bin", 1)]
    paths += [build(model, tmp_path / f"{tokens}.bin", tokens, beside=paths[0]) for tokens in (4, 8)]
    expected = []
    for initializer in ("", weights):
        with autopar.Session(paths[2], initializer=initializer) as alone:
            expected.append(alone.run(prompt(8))["logits"])
    with autopar.Session(paths[0]) as first, autopar.Session(paths[1], beside=first) as second:
        first.load_weights(weights)
        for initializer, logits in zip(("", weights), expected):
            with autopar.Session(paths[2], initializer=initializer, beside=second) as third:
                np.testing.assert_array_equal(third.run(prompt(8))["logits"], logits)
                assert (third.shared_bytes > MATRICES) == (initializer != "")


@pytest.mark.parametrize("ranks, options", [(1, []), (2, ["--mesh", "data=2"]), (2, ["--stages", "2"])])
def test_a_training_goes_on_at_another_length(tmp_path: pathlib.Path, ranks: int, options: List[str]) -> None:
    """Two programs share parameters, moments and the count of steps: as if each had gone on from the other's checkpoint."""
    model = small_gpt2.save(tmp_path, layers=2)
    random, paths, batches = np.random.default_rng(1), [], []
    for name, batch, seq in (("short", 8, 8), ("long", 4, 16)):
        train = autopar.Train(small_gpt2.LOSS, autopar.AdamW(lr=1e-2), clip_norm=1.0, schedule="cosine(warmup=2, steps=10)")
        autopar.compile(model, tmp_path / name, bind={"batch": batch, "seq": seq}, ranks=ranks, train=train, beside=paths[0] if paths else None,
                        options=["--quiet", *(options if not paths else [])])
        paths.append(tmp_path / name)
        tokens = random.integers(0, small_gpt2.VOCAB, (batch, seq + 1))
        batches.append({"input_ids": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()})
    turns = (0, 1, 1, 0)
    with autopar.Session(paths[0]) as short, autopar.Session(paths[1], beside=short) as long:
        assert all(long.shares_state(port.name) for port in long.states)
        together = [float((short, long)[turn].run(batches[turn])["loss"]) for turn in turns]
        together.append(long.evaluate(batches[1])["loss"])
        long.save_checkpoint(tmp_path / "together")
        state = long.state(long.states[0].name)
        with autopar.Session(paths[1], beside=short) as late:
            np.testing.assert_array_equal(late.state(late.states[0].name), state, "what is opened later takes nothing back")
    apart = []
    for turn in turns:
        with autopar.Session(paths[turn]) as session:
            session.load_checkpoint(tmp_path / "apart")
            apart.append(float(session.run(batches[turn])["loss"]))
            session.save_checkpoint(tmp_path / "apart")
    with autopar.Session(paths[1]) as session:
        assert session.load_checkpoint(tmp_path / "together") == session.load_checkpoint(tmp_path / "apart") == len(turns)
        apart.append(session.evaluate(batches[1])["loss"])
    assert together == apart


def test_a_program_that_trains_takes_no_weights_once_it_is_open(tmp_path: pathlib.Path) -> None:
    path = small_gpt2.compile_step(small_gpt2.save(tmp_path, layers=1), tmp_path / "train.bin", 1, 1)
    with autopar.Session(path) as session:
        with pytest.raises(autopar.Error, match="trains its parameters .*: load a checkpoint, or open the session with the weights"):
            session.load_weights("normal(0.1)")


def test_a_gpu_holds_it_once_too(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """On an emulated GPU, whose later steps are graphs. Other weights are loaded there as well."""
    other = tmp_path / "other.onnx"
    models.save("llama3-8b", other, seed=9, **SIZES)
    weights = weights_of(other, tmp_path / "other.safetensors")
    paths = [build(model, tmp_path / f"{tokens}.bin", tokens, "--target", "cuda", "--precision", "bf16", ranks=2) for tokens in (1,)]
    paths.append(build(model, tmp_path / "8.bin", 8, "--target", "cuda", "--precision", "bf16", ranks=2, beside=paths[0]))
    script = f"""
import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import autopar, pathlib, test_beside as t
with autopar.Session({str(paths[1])!r}, initializer={str(weights)!r}) as session:
    expected = session.run(t.prompt(8))["logits"]
with autopar.Session({str(paths[0])!r}) as step, t.assert_computes_as_alone(pathlib.Path({str(paths[1])!r}), step, 8) as prefill:
    assert prefill.shared_bytes > step.own_bytes * 0.5, (prefill.shared_bytes, step.own_bytes)
    assert all(prefill.shares_state(port.name) for port in prefill.states)
    for _ in range(3):
        prefill.run(t.prompt(8))  # the later ones as a graph
    for session in (step, prefill):
        session.load_weights({str(weights)!r})
    for _ in range(3):
        t.np.testing.assert_array_equal(prefill.run(t.prompt(8))["logits"], expected)
"""
    done = subprocess.run([sys.executable, "-c", script], env=dict(os.environ, AUTOPAR_CUDA_LIBRARIES=str(LIBRARIES)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
