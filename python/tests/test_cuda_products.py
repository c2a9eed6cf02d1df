# SPDX-License-Identifier: Apache-2.0
"""On an emulated GPU: products that share what they multiply are one, and attention without a library sees no more keys than it has to."""

import re

import numpy as np
import pytest

import autopar
from autopar import models
from emulated_cuda import on_both

SIZES = dict(layers=2, hidden=64, heads=4, vocab=61)


def words(batch, positions):
    return np.random.default_rng(1).integers(0, SIZES["vocab"], (batch, positions)).astype(np.int64)


def program_in(folder) -> str:
    """The program for a GPU before its memory is planned."""
    (path,) = folder.glob("*-lower.mlir")
    return path.read_text()


def assert_alike(results, tolerance):
    for key, expected in results["cpu"].items():
        np.testing.assert_allclose(results["cuda"][key], expected, atol=tolerance * np.abs(expected).max(), rtol=tolerance, err_msg=key)


@pytest.mark.parametrize("precision, tolerance", [("f32", 2e-4), ("bf16", 5e-2)])
@pytest.mark.parametrize("name, sizes, joined", [
    ("bert-base", SIZES, 2),                      # query, key and value, with biases
    ("llama3-8b", dict(SIZES, kv_heads=2), 4),    # the same of unequal widths, and the gate of an MLP and what it gates
])
@pytest.mark.parametrize("compiling", [{}, dict(ranks=2, options=["--mesh", "tensor=2"]), dict(ranks=2, options=["--stages", "2", "--micro-batches", "2"])],
                         ids=["whole", "sharded", "stages"])
def test_products_of_one_value_are_one(tmp_path, name, sizes, joined, precision, tolerance, compiling):
    models.save(name, tmp_path / "m.onnx", **sizes)
    tokens = words(2, 8)
    inputs = {"input_ids": tokens}
    if name == "bert-base":
        inputs |= {"attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
    compiling = dict(compiling, options=[*compiling.get("options", []), "--precision", precision, "--emit-mlir", str(tmp_path / "ir")])
    results = on_both(tmp_path / "m.onnx", tmp_path, inputs, bind={"batch": 2, "seq": 8}, **compiling)
    assert_alike(results, tolerance)
    program = program_in(tmp_path / "ir")
    products = set(re.findall(r'exec\.matmul .*id = "([^"]*)/joined[@0-9]*"', program))
    assert len(products) == joined, products
    # Weights are put together at load.
    for entry in program.split("exec.entry @")[1:]:
        made = re.findall(r'exec\.launch .*id = "[^"]*weight[^"]*"', entry)
        assert bool(made) == entry.startswith("load"), made


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_long_causal_attention_is_blocks_of_rows(tmp_path, trains):
    """512 positions: four blocks of rows, with 128, 256, 384 and 512 keys. In f32, for which cuDNN has no attention."""
    models.save("gpt2-124m", tmp_path / "m.onnx", layers=1, hidden=64, heads=16, vocab=61, positions=512)
    inputs = {"input_ids": words(8, 512)}
    compiling = dict(bind={"batch": 8, "seq": 512}, options=["--emit-mlir", str(tmp_path / "ir")])
    if trains:
        inputs["labels"] = words(8, 512)
        compiling["train"] = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.5))
    results = on_both(tmp_path / "m.onnx", tmp_path, inputs, steps=2 if trains else 1, **compiling)
    assert_alike(results, 2e-4)
    program = program_in(tmp_path / "ir")
    products = re.findall(r"exec\.matmul .*", program)
    for keys in (128, 256, 384, 512):
        assert any(re.search(rf"c = <f32\[(8, 16|128), 128, {keys}\]", product) for product in products), keys
    assert not any("512, 512]" in product for product in products)
