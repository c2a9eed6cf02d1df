# SPDX-License-Identifier: Apache-2.0
"""Plans in degrees, as users of Megatron write them, and demands on a plan: searched within, run, equal to one rank."""

import json
import pathlib
from typing import Any, Dict, List

import numpy as np
import pytest
import small_gpt2

import autopar
from autopar import models

STEPS, LAYERS = 5, 2
#: Matrices of a layer and the dimension that Megatron splits: columns of what goes into a nonlinearity, rows of what comes out of it.
SPLIT = {"attn.c_proj": 0, "mlp.c_fc": 1, "mlp.c_proj": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return small_gpt2.save(tmp_path_factory.mktemp("model"), layers=LAYERS)


@pytest.fixture(scope="module")
def alone(model: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> List[float]:
    return small_gpt2.losses(small_gpt2.compile_step(model, tmp_path_factory.mktemp("alone") / "1.bin", 1, 1), STEPS)


def degrees(folder: pathlib.Path, **keys: Any) -> str:
    path = folder / "megatron.json"
    path.write_text(json.dumps({"kind": "degrees", "version": 1, **keys}))
    return str(path)


def build(model: pathlib.Path, folder: pathlib.Path, ranks: int, *options: str) -> Dict[str, Any]:
    """Compiles; returns the plan."""
    small_gpt2.compile_step(model, folder / "c.bin", ranks, 1, "--emit-plan", str(folder / "plan.json"), *options)
    return json.loads((folder / "plan.json").read_text())


def check_roles(plan: Dict[str, Any]) -> None:
    """Samples over data alone, matrices over tensor alone and never gathered."""
    assert plan["shard"]["input_ids"][0] == ["data"]
    for layer in range(LAYERS):
        for part, dim in SPLIT.items():
            weight = f"transformer.h.{layer}.{part}.weight"
            expected = [["tensor"] if place == dim else [] for place in range(2)]
            assert plan["shard"][weight] == expected, weight
            for phase in ("forward", "backward"):  # read as it lies
                assert plan["ops"][f"{weight}/{phase}"] == expected, weight


@pytest.mark.parametrize("ranks, keys", [
    (4, {"data": 2, "tensor": 2}),
    (4, {"data": 2, "tensor": 2, "sequence": True, "zero": 1}),
    (4, {"data": 2, "pipeline": 2, "micro_batch": 1, "schedule": "1f1b"}),
    (4, {"tensor": 2, "pipeline": 2, "micro_batch": 2, "schedule": "zero-bubble"}),
    (2, {"pipeline": 2, "virtual_stages": 2, "micro_batch": 2}),
])
def test_degrees_train_like_one_rank(model, alone, tmp_path, ranks, keys):
    plan = build(model, tmp_path, ranks, "--plan", degrees(tmp_path, **keys))
    sizes = {axis["name"]: axis["size"] for axis in next(iter(plan["meshes"].values()))["axes"]}
    assert sizes == {axis: keys[axis] for axis in ("data", "tensor") if axis in keys} or sizes == {"data": 1}
    assert len(plan["stages"]) == keys.get("pipeline", 1) * keys.get("virtual_stages", 1)
    samples = small_gpt2.BATCH // keys.get("data", 1)
    assert plan["time"]["micro_batches"] == samples // keys.get("micro_batch", samples)
    if "tensor" in keys and "data" in keys:
        check_roles(plan)
    np.testing.assert_allclose(small_gpt2.losses(tmp_path / "c.bin", STEPS), alone, rtol=1e-5)
    # What came out is a full plan, which says everything.
    small_gpt2.compile_step(model, tmp_path / "again.bin", ranks, 1, "--plan", str(tmp_path / "plan.json"))
    assert small_gpt2.losses(tmp_path / "again.bin", STEPS) == small_gpt2.losses(tmp_path / "c.bin", STEPS)


@pytest.mark.parametrize("ranks, keys", [(2, {"context": 2}), (4, {"data": 2, "context": 2, "zero": 1}), (4, {"context": 2, "tensor": 2, "sequence": True})])
def test_context_splits_positions_everywhere(model, alone, tmp_path, ranks, keys):
    plan = build(model, tmp_path, ranks, "--plan", degrees(tmp_path, **keys))
    samples, positions = plan["shard"]["input_ids"]
    assert samples == (["data"] if "data" in keys else []) and positions[0] == "context"
    np.testing.assert_allclose(small_gpt2.losses(tmp_path / "c.bin", STEPS), alone, rtol=1e-5)


def test_zero_says_what_may_lie_on_the_data_ranks(tmp_path):
    # Updates of narrower layers are not worth a collective of their own.
    model = small_gpt2.save(tmp_path, layers=1, hidden=128)
    state = "transformer.h.0.mlp.c_fc.weight/mean"
    found = {zero: build(model, tmp_path, 4, "--plan", degrees(tmp_path, data=4, zero=zero))["shard"] for zero in (0, 1)}
    assert not any("data" in axes for name, dims in found[0].items() for axes in dims if name != "input_ids" and name != "labels")
    assert any("data" in axes for axes in found[1][state])
    assert not any(found[1]["transformer.h.0.mlp.c_fc.weight"])


def test_sequence_splits_positions_of_the_norms(model, tmp_path):
    def norms(sequence: bool) -> List[Any]:
        ops = build(model, tmp_path, 4, "--plan", degrees(tmp_path, data=2, tensor=2, sequence=sequence))["ops"]
        return [factors for name, factors in ops.items() if "/ln_1/" in name and "vjp" not in name and len(factors) > 2]

    assert all("tensor" not in axes for factors in norms(False) for axes in factors)
    assert any("tensor" in axes for factors in norms(True) for axes in factors)


def test_what_a_person_would_write_is_read(model, tmp_path):
    (tmp_path / "plan.json").write_text('{"kind":"degrees","data":2,"pipeline":2,"micro_batch":1,"schedule":"1f1b"}')
    assert len(build(model, tmp_path, 4, "--plan", str(tmp_path / "plan.json"))["stages"]) == 2


@pytest.mark.parametrize("keys, why", [
    ({"data": 2}, r"megatron.json: data, context, tensor, pipeline: 2 x 1 x 1 x 1 ranks, but there are 4"),
    ({"data": 4, "micro_batch": 3}, r"micro_batch: is 3, which does not divide the 2 samples"),
    ({"data": 4, "micro_batches": 3}, r"megatron.json: micro_batches: unknown key; known here: context, data"),
    ({"data": 4, "experts": 3}, r"experts: is 3, which does not divide the 4 \"data\" ranks"),
    ({"data": 2, "tensor": 2, "experts": 3, "expert_tensor": 1}, r"experts: is 3, which is no multiple of the 2 \"tensor\" ranks"),
    ({"data": 2, "tensor": 2, "experts": 4, "expert_tensor": 1}, r"no product with a parameter per expert can be split over axes \"expert\*tensor\""),
    ({"data": 4, "experts": 2}, r"at character 18: no product with a parameter per expert can be split over axis \"expert\""),
    ({"data": 4, "zero": 4}, r"zero: expected an integer in \[0, 3\], found 4"),
    ({"data": 4, "version": 2}, r"version: expected 1, found 2"),
    ({"data": "4"}, r"data: expected an integer, found string"),
    ({"context": 4, "data": 1, "tensor": 2}, r"data, context, tensor, pipeline: 1 x 4 x 2 x 1 ranks, but there are 4"),
    ({"data": 4, "sequence": True}, r"sequence: is true, which needs \"tensor\" ranks"),
    ({"pipeline": 4, "schedule": "zigzag"}, r"there is no schedule 'zigzag'"),
    ({"data": 4, "schedule": "zigzag"}, r"megatron.json: schedule: there is no schedule 'zigzag'"),
    ({"data": 4, "recompute": "some"}, r"megatron.json: recompute: expected none, auto or full, found \"some\""),
    ({"tensor": 2, "pipeline": 2, "virtual_stages": 2, "schedule": "1f1b", "micro_batch": 1}, r"takes one stage per mesh"),
])
def test_degrees_that_cannot_be_are_refused(model, tmp_path, keys, why):
    with pytest.raises(autopar.Error, match=why):
        build(model, tmp_path, 4, "--plan", degrees(tmp_path, **keys))
    assert not (tmp_path / "c.bin").exists()


def test_a_batch_that_does_not_divide_is_refused(model, tmp_path):
    with pytest.raises(autopar.Error, match=r"data: is 3, which does not divide the batch of 8 samples"):
        build(model, tmp_path, 3, "--plan", degrees(tmp_path, data=3))


@pytest.mark.parametrize("zero, told", [(0, '"zero" is 0, 1 splits the optimizer\'s state'), (3, None)])
def test_degrees_that_do_not_fit_are_told_of_zero(model, tmp_path, zero, told):
    with pytest.raises(autopar.Error, match=r"no plan fits 64.0 KiB \(65536 bytes\) per device: the leanest that was found needs .* KiB") as refused:
        build(model, tmp_path, 4, "--plan", degrees(tmp_path, data=4, zero=zero), "--memory-limit", "64K")
    assert told in str(refused.value) if told else "zero" not in str(refused.value)


def test_what_is_forbidden_is_not_chosen(model, tmp_path):
    free = build(model, tmp_path, 4, "--constrain", "mesh=tensor=4, weight-axis=tensor")["shard"]
    weight = "transformer.h.{}.mlp.c_fc.weight"
    assert free[weight.format(0)] == [[], ["tensor"]]
    other = build(model, tmp_path, 4, "--constrain", f"mesh=tensor=4, weight-axis=tensor, {weight.format('*')}: not [-, tensor]")["shard"]
    assert all(other[weight.format(layer)] == [["tensor"], []] for layer in range(LAYERS))


def test_demands_are_held(model, alone, tmp_path):
    weight = "transformer.h.0.mlp.c_fc.weight"
    plan = build(model, tmp_path, 4, "--constrain", f"stages=2, recompute=none, mesh=tensor=2, {weight}: [tensor, -]", "--pipeline-schedule", "gpipe")
    assert len(plan["stages"]) == 2 and plan["schedule"] == "gpipe"
    assert plan["shard"][weight] == [["tensor"], []]
    np.testing.assert_allclose(small_gpt2.losses(tmp_path / "c.bin", STEPS), alone, rtol=1e-5)


@pytest.mark.parametrize("text, more, why", [
    ("stages=2, depth=3", [], r'--constrain "stages=2, depth=3" at character 11: unknown key "depth"; known are stages, virtual-stages'),
    ("stages=some", [], r"at character 8: stages: expected a number from 1 to 16777216, or auto, got \"some\""),
    ("stages=2", ["--stages", "4"], r"--stages demands stages=4, but --constrain \"stages=2\" at character 1 demands 2"),
    ("mesh=data2", [], r"at character 6: mesh: expected axes such as data=2xtensor=4"),
    ("recompute=some", [], r"recompute: expected none, auto or full"),
    ("mesh=a=4, wte: [b, -]", [], r"\"wte: \[b, -\]\" at character 1: the mesh has no axis \"b\"; its axes are a"),
    ("mesh=a=4, nobody: [a]", [], r"there is no parameter, input or operation \"nobody\""),
    ("mesh=a=4, input_ids: [a]", [], r"\"input_ids\" has 2 dimensions or factors, the sharding has 1"),
    ("mesh=a=4, input_ids: a", [], r"expected '=' and a value, or ': \[' and a sharding"),
    ("mesh=a=4, batch-axis=b", [], r"the mesh has no axis \"b\""),
    ("stages=2, /transformer/wte/Gather: stage 2", [], r"at character \d+: \"/transformer/wte/Gather\" is on stage 2 of 2"),
    ("stages=2, fc: stage 1", [], r"at character 11: there is no operation \"fc\""),
    ("mesh=a=4, /transformer/wte/Gather: stage 0", [], r"at character 11: \"/transformer/wte/Gather\" is on stage 0, which needs --stages of at least 2"),
    ("stages=2, fc: stage x", [], r"at character 20: expected the number of a stage"),
    ("sequence=true", [], r"sequence.*needs a weight-axis"),
    (", stages=2", [], r"at character 1: expected key=value or name: \[sharding\]"),
    ("mesh=a=4, batch-axis=a, weight-axis=a", [], r"at character 15: is the batch axis too"),
    ("mesh=a=4, batch-axis=a, context-axis=a", [], r"context-axis=a.* at character 15: has another role too"),
    ("mesh=a=4, batch-axis=a, expert-axis=a", [], r"expert-axis=a.* at character 15: is the batch axis too"),
    ("mesh=a=4, weight-axis=a, expert-axis=a", [], r"no product with a parameter per expert can be split over axis \"a\""),
    ("mesh=a=2xb=2, expert-axis=a*b", [], r"has axes \"a\" and \"b\" of its own; expected one, and the weight-axis beside it"),
    ("mesh=a=4, weight-axis=a, transformer.wte.weight: [a, a]", [], r"\"transformer.wte.weight\" cannot be split like that"),
])
def test_demands_that_cannot_be_are_refused(model, tmp_path, text, more, why):
    with pytest.raises(autopar.Error, match=why):
        build(model, tmp_path, 4, "--constrain", text, *more)


def test_an_inference_step_computes_nothing_again(model, tmp_path):
    with pytest.raises(autopar.Error, match="recompute=full: expected --train"):
        autopar.compile(model, tmp_path / "c.bin", bind={"batch": 4, "seq": 8}, ranks=2, options=["--quiet", "--constrain", "recompute=full"])


def test_positions_are_split_where_there_are_some(tmp_path):
    models.save("resnet50", tmp_path / "m.onnx", blocks="1,1,1,1", image=32, classes=8)
    with pytest.raises(autopar.Error, match=r"sequence=true.* at character 1: no operation's positions can be split over axis \"t\""):
        autopar.compile(tmp_path / "m.onnx", tmp_path / "c.bin", bind={"batch": 4}, ranks=2, options=["--quiet", "--constrain", "mesh=t=2, weight-axis=t, sequence=true"])


def test_dropless_mixtral_fits_by_experts(tmp_path: pathlib.Path) -> None:
    """The degrees of Megatron's example for Mixtral, without capacity: each GPU of a node has an expert, what lies between products
    is computed again, and the programs fit."""
    models.save("mixtral-8x7b", tmp_path / "mixtral.onnx", weights=False, dispatch="dropless")
    words = ["--cluster", "presets:h100x8x4", "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-3)",
             "--precision", "bf16", "--stop-after=plan-memory", "--emit-plan", str(tmp_path / "plan.json"), "--plan",
             degrees(tmp_path, data=8, experts=8, pipeline=4, micro_batch=1, zero=1)]
    autopar.compile(tmp_path / "mixtral.onnx", tmp_path / "local.mlir", bind={"batch": 128, "seq": 4096}, options=words)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["expert_parts"] == 8 and max(plan["believed"]["peak_bytes"]) <= 76.1 * 2**30
    assert all(dims[0][0] == "expert" for name, dims in plan["shard"].items() if ".experts." in name)
    assert any("/experts/MatMul/grouped/" in name for name in plan["recompute"])
