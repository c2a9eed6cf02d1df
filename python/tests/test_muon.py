# SPDX-License-Identifier: Apache-2.0
"""Muon learns the same under any plan; products of its iteration are sharded, put on stages and computed on GPUs like any others."""

import pathlib
from typing import Dict, List

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
import emulated_cuda
from autopar import models

STEPS, BATCH, SEQ, VOCAB = 3, 8, 16, 120


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, pathlib.Path]:
    folder = tmp_path_factory.mktemp("networks")
    models.save("gpt2-124m", folder / "gpt2.onnx", layers=2, hidden=32, heads=4, vocab=VOCAB)
    models.save("mixtral-8x7b", folder / "mixtral.onnx", layers=2, hidden=32, heads=4, kv_heads=2, inner=48, experts=4, vocab=VOCAB, dispatch="dropless")
    return {"gpt2": folder / "gpt2.onnx", "mixtral": folder / "mixtral.onnx"}


def losses(path: pathlib.Path, folder: pathlib.Path, options: List[str], precision: str = "f32") -> np.ndarray:
    """Of steps on one batch, and what they made of the matrices, as one number each."""
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.Muon(lr=0.01), clip_norm=1.0, precision=precision)
    step = autopar.compile(path, folder / "step.bin", bind={"batch": BATCH, "seq": SEQ}, train=train, options=options)
    random = np.random.default_rng(0)
    batch = {"input_ids": random.integers(0, VOCAB, (BATCH, SEQ)), "labels": random.integers(0, VOCAB, (BATCH, SEQ))}
    with autopar.Session(step) as session:
        given = {port.name: batch[port.name] for port in session.inputs}
        values = [float(session.run(given)["loss"]) for _ in range(STEPS)]
        return np.array(values + [np.abs(session.state(port.name)).mean() for port in session.states if port.name.endswith("weight")])


@pytest.mark.parametrize("name, options", [
    ("gpt2", ["--ranks", "4", "--mesh", "data=4"]), ("gpt2", ["--ranks", "4", "--mesh", "tensor=4"]), ("gpt2", ["--ranks", "2", "--stages", "2", "--micro-batches", "4"]),
    ("gpt2", ["--micro-batches", "4", "--rounds", "always"]), ("gpt2", ["--offload", "all"]), ("gpt2", ["--recompute", "full"]), ("gpt2", ["--target", "cuda"]),
    ("gpt2", ["--target", "cuda", "--ranks", "2"]), ("mixtral", ["--ranks", "4"]), ("mixtral", ["--ranks", "2", "--mesh", "expert=2"])],
    ids=["data", "tensor", "stages", "rounds", "offload", "recompute", "cuda", "cuda-ranks", "experts", "expert-parallel"])
def test_plans_learn_alike(network: Dict[str, pathlib.Path], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, options: List[str]) -> None:
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(emulated_cuda.LIBRARIES))
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "2")
    np.testing.assert_allclose(losses(network[name], tmp_path, options), losses(network[name], tmp_path, []), rtol=1e-4)


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp8"])
def test_narrow_types_learn_as_well(network: Dict[str, pathlib.Path], tmp_path: pathlib.Path, precision: str) -> None:
    np.testing.assert_allclose(losses(network["gpt2"], tmp_path, [], precision), losses(network["gpt2"], tmp_path, []), rtol=0.02)


def test_the_update_of_an_inner_matrix_is_orthogonal(network: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    """Its singular values lie around 1, times rate and scale; experts one by one, the output matrix not at all."""
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.Muon(lr=0.5, rms=0.1, weight_decay=0, adamw_lr=0.25))
    step = autopar.compile(network["mixtral"], tmp_path / "step.bin", bind={"batch": BATCH, "seq": SEQ}, train=train)
    random = np.random.default_rng(0)
    batch = {"input_ids": random.integers(0, VOCAB, (BATCH, SEQ)), "labels": random.integers(0, VOCAB, (BATCH, SEQ))}
    with autopar.Session(step) as session:
        kept = {port.name for port in session.states}
        weights = sorted(name for name in kept if f"{name}/momentum" in kept)
        assert len(weights) == 2 * 7 and not any("gate.weight" in name or "lm_head" in name or "embed" in name for name in weights)
        before = {name: session.state(name) for name in kept}
        session.run({port.name: batch[port.name] for port in session.inputs})
        for name in weights:
            change = (before[name] - session.state(name)) / 0.5 / 0.1
            matrices = change.reshape(-1, *change.shape[-2:])
            values = np.linalg.svd(matrices / max(change.shape[-2:]) ** 0.5, compute_uv=False)
            assert 0.5 < np.median(values) < 1.3 and values.max() < 1.3, name
        # AdamW's first step goes by the sign of the gradient.
        change = np.abs(before["lm_head.weight"] - session.state("lm_head.weight"))
        np.testing.assert_allclose(np.median(change), 0.25, rtol=1e-3)


def test_matrices_of_16_bits_without_a_gradient_stay_numbers(tmp_path: pathlib.Path) -> None:
    """The squares of what is small vanish in f16."""
    random = np.random.default_rng(0)
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"], "fc1"), helper.make_node("Tanh", ["a"], ["b"], "act"), helper.make_node("MatMul", ["b", "w2"], ["y"], "fc2")]
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [4, 8])], [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [4, 2])],
                              [numpy_helper.from_array(random.standard_normal(shape).astype(np.float16), name) for name, shape in (("w1", (8, 8)), ("w2", (8, 2)))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    step = autopar.compile(model, tmp_path / "step.bin", train=autopar.Train("mse(y, t)", autopar.Muon(lr=0.01, eps=1e-3)))
    for scale in (0, 1e-6, 1):
        with autopar.Session(step) as session:
            session.run({"x": (scale * random.standard_normal((4, 8))).astype(np.float16), "t": np.zeros((4, 2), np.float16)})
            assert np.isfinite(session.state("w1")).all()
