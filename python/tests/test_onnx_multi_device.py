# SPDX-License-Identifier: Apache-2.0
"""ONNX's own fields for several devices, written from a plan and read as demands on one."""

import json
import pathlib
from typing import Any, Dict, List, Tuple

import numpy as np
import onnx
import pytest
import small_gpt2
from onnx import TensorProto, helper, numpy_helper

import autopar

BIND = {"batch": small_gpt2.BATCH, "seq": small_gpt2.SEQ}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return small_gpt2.save(tmp_path_factory.mktemp("model"), layers=2)


def plan_of(model: pathlib.Path, path: pathlib.Path, ranks: int, *options: str, bind=BIND) -> Dict[str, Any]:
    autopar.compile(model, path.with_suffix(".bin"), bind=bind, ranks=ranks, options=["--quiet", "--emit-plan", str(path), *options])
    return json.loads(path.read_text())


@pytest.mark.parametrize("demands", ["mesh=data=2xtensor=2, batch-axis=data, weight-axis=tensor", "mesh=tensor=4, weight-axis=tensor", "stages=2, mesh=data=2, batch-axis=data",
                                     "stages=2, micro-batches=4, mesh=tensor=2, weight-axis=tensor", "stages=2, mesh=data=1/data=3"])
def test_a_plan_survives_the_way_through_onnx(model, tmp_path, demands):
    written = model.parent / "written.onnx"
    plan = plan_of(model, tmp_path / "a.json", 4, "--constrain", demands, "--emit-onnx-plan", str(written))
    proto = onnx.load(written)
    onnx.checker.check_model(str(written))
    assert proto.ir_version >= 11 and len(proto.configuration) == 1 and proto.configuration[0].num_devices == 4
    more = ["--micro-batches", "4"] if "micro-batches" in demands else []
    again = plan_of(written, tmp_path / "b.json", 4, "--use-onnx-shardings", *more)
    assert again["meshes"] == plan["meshes"]
    assert [stage["ops"] for stage in again["stages"]] == [stage["ops"] for stage in plan["stages"]]
    stages = {spec.tensor_name: own.pipeline_stage for node in proto.graph.node for own in node.device_configurations for spec in own.sharding_spec}
    assert {"transformer.h.0.mlp.c_fc.weight", "transformer.wte.weight", "input_ids"} <= set(stages)
    for name, stage in stages.items():
        split = {axis["name"] for axis in plan["meshes"][plan["stages"][stage]["mesh"]]["axes"] if axis["size"] > 1}
        assert again["shard"][name] == [[axis for axis in axes if axis in split] for axes in plan["shard"][name]]
    with autopar.Session(tmp_path / "b.bin") as one, autopar.Session(tmp_path / "a.bin") as other:
        ids = np.random.default_rng(0).integers(0, small_gpt2.VOCAB, (small_gpt2.BATCH, small_gpt2.SEQ), dtype=np.int64)
        np.testing.assert_allclose(one.run({"input_ids": ids})["logits"], other.run({"input_ids": ids})["logits"], rtol=1e-4, atol=1e-5)


def test_stages_are_numbers_of_nodes(model, tmp_path):
    written = model.parent / "stages.onnx"
    plan = plan_of(model, tmp_path / "a.json", 2, "--constrain", "stages=2", "--emit-onnx-plan", str(written))
    stages = {node.name: own.pipeline_stage for node in onnx.load(written).graph.node for own in node.device_configurations}
    assert set(stages.values()) == {0, 1}
    assert all(name in plan["stages"][stage]["ops"] for name, stage in stages.items())


#: tensor -> shards per axis, devices of the shards
Specs = Dict[str, Tuple[List[int], List[Any]]]


def two_layers(path: pathlib.Path, specs: Specs, stages: Tuple[int, ...] = (), devices: int = 4, name: str = "cluster of mine", configurations: int = 1) -> pathlib.Path:
    """x w1 -> relu -> w2, with fields as another program might write them."""
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"], name="fc1"), helper.make_node("Relu", ["h"], ["a"], name="act"),
             helper.make_node("MatMul", ["a", "w2"], ["y"], name="fc2")]
    random = np.random.default_rng(1)
    weights = [helper.make_tensor(f"w{i}", TensorProto.FLOAT, shape, random.standard_normal(shape).astype(np.float32)) for i, shape in ((1, (16, 32)), (2, (32, 16)))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 16])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 16])], weights)
    proto = helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 21)])
    for number in range(configurations):
        proto.configuration.add(name=name + "*" * number, num_devices=devices)
    for place, node in enumerate(proto.graph.node):
        own = node.device_configurations.add(configuration_id=name)
        if stages:
            own.pipeline_stage = stages[place]
        for tensor in [*node.input, *node.output]:
            if tensor not in specs:
                continue
            shards, holders = specs[tensor]
            spec = own.sharding_spec.add(tensor_name=tensor)
            for axis, count in enumerate(shards):
                spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=count)
            for number, holder in enumerate(holders):
                spec.device.append(holder if isinstance(holder, int) else -1 - number)
                if not isinstance(holder, int):
                    spec.index_to_device_group_map.add(key=-1 - number, value=holder)
    onnx.save(proto, path)
    return path


def test_a_mesh_is_found_for_foreign_shardings(tmp_path):
    """Rows of the batch over pairs, columns of the weights within pairs: two axes follow."""
    specs: Specs = {"x": ([2, 1], [[0, 1], [2, 3]]), "w1": ([1, 2], [[0, 2], [1, 3]]), "w2": ([2, 1], [[0, 2], [1, 3]]), "h": ([2, 2], [0, 1, 2, 3])}
    plan = plan_of(two_layers(tmp_path / "m.onnx", specs), tmp_path / "p.json", 4, "--use-onnx-shardings", bind={})
    assert next(iter(plan["meshes"].values()))["axes"] == [{"name": "x", "size": 2}, {"name": "y", "size": 2}]
    assert (plan["shard"]["x"], plan["shard"]["w1"], plan["shard"]["w2"]) == ([["x"], []], [[], ["y"]], [["y"], []])


def test_foreign_stages_are_kept(tmp_path):
    plan = plan_of(two_layers(tmp_path / "m.onnx", {}, (0, 1, 1), devices=2), tmp_path / "p.json", 2, "--use-onnx-shardings", bind={})
    assert "fc1" in plan["stages"][0]["ops"] and {"act", "fc2"} <= set(plan["stages"][1]["ops"])


@pytest.mark.parametrize("more, why", [
    ({"configurations": 2}, r"m.onnx: has 2 configurations for several devices; expected one"),
    ({"configurations": 0}, r"has 0 configurations"),
    ({"devices": 8}, r"configuration \"cluster of mine\" is for 8 devices, there are 4"),
    ({"specs": {"w1": ([1, 3], [0, 1, 2])}}, r"\"w1\" is not on all 4 devices"),
    ({"specs": {"w1": ([1, 4], [0, 1, 2])}}, r"node \"fc1\": the sharding of \"w1\" has 4 shards on 3 devices or groups"),
    ({"specs": {"w1": ([1, 4], [0, 1, 2, 7])}}, r"names device 7 of 4"),
    ({"specs": {"w1": ([1, 4], [0, 1, 2, 2])}}, r"has device 2 hold two shards"),
    ({"specs": {"w1": ([1, 4], [3, 1, 2, 0])}}, r"no mesh of 4 devices with up to three axes fits"),
    ({"specs": {"w1": ([3], [0, 1, 2])}}, r"\"w1\" is not on all 4 devices"),
    ({"specs": {"w1": ([4], [0, 1, 2, 3])}}, r"\"w1\" has 2 dimensions or factors, the sharding has 1"),
    ({"stages": (0, 1, 2)}, r"has 3 pipeline stages, which do not share 4 devices: 4 are left for 3 of them"),
    ({"stages": (0, 1, 1), "specs": {"w1": ([1, 2], [0, 1]), "w2": ([1, 2], [1, 2])}}, r"has device 1 in stage 0 and in stage 1"),
    ({"stages": (0, 1, 1), "specs": {"w1": ([1, 2], [0, 1]), "w2": ([1, 1], [2])}}, r"which do not share 4 devices: 1 are left for 0 of them"),
    ({"stages": (0, 1, 1), "specs": {"w1": ([1, 3], [2, 1, 0]), "w2": ([1, 1], [3])}}, r"node \"fc1\": the sharding of \"w1\" does not fit the mesh x=3 of the others"),
    ({"stages": (1, 0, 0)}, r"is planned on stage 0, but reads"),
    ({"stages": (0, 1, -1)}, r"node \"fc2\": a pipeline stage wants a name and a number that is not negative"),
])
def test_fields_that_say_nothing_possible_are_refused(tmp_path, more, why):
    path = two_layers(tmp_path / "m.onnx", **{"specs": {}, **more})
    with pytest.raises(autopar.Error, match=why):
        plan_of(path, tmp_path / "p.json", 4, "--use-onnx-shardings", bind={})


def disagree(proto: onnx.ModelProto) -> None:
    """The relu has the weights before it split by rows, not by columns."""
    spec = proto.graph.node[1].device_configurations[0].sharding_spec.add()
    spec.CopyFrom(proto.graph.node[0].device_configurations[0].sharding_spec[0])
    for dim, shards in zip(spec.sharded_dim, (4, 1)):
        dim.simple_sharding[0].num_shards = shards


@pytest.mark.parametrize("change, why", [
    (lambda proto: proto.graph.node[0].device_configurations[0].__setattr__("configuration_id", "theirs"),
     r"node \"fc1\" names configuration \"theirs\", which the model does not have"),
    (lambda proto: proto.graph.node[0].device_configurations[0].sharding_spec[0].sharded_dim[0].__setattr__("axis", -2),
     r"node \"fc1\": the sharding of \"w1\" leaves axes out or counts them from the back; expected one entry for each axis, in order"),
    (disagree, r"node \"act\" has \"w1\" lie differently than another node has it"),
])
def test_fields_that_were_damaged_are_refused(tmp_path, change, why):
    path = two_layers(tmp_path / "m.onnx", {"w1": ([1, 4], [0, 1, 2, 3])})
    proto = onnx.load(path)
    change(proto)
    onnx.save(proto, path)
    with pytest.raises(autopar.Error, match=why):
        plan_of(path, tmp_path / "p.json", 4, "--use-onnx-shardings", bind={})


def test_flags_want_an_onnx_model_and_ranks(model, tmp_path):
    with pytest.raises(autopar.Error, match="expected --ranks or --cluster"):
        autopar.compile(model, tmp_path / "c.bin", bind=BIND, options=["--emit-onnx-plan", str(tmp_path / "o.onnx")])


def test_a_model_beside_its_weights_is_written_beside_them(tmp_path):
    path = two_layers(tmp_path / "m.onnx", {})
    proto = onnx.load(path)
    for weight in proto.graph.initializer:
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight), weight.name))
    onnx.save(proto, path, save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(autopar.Error, match="names files with its weights by their place beside it; expected a file in the folder of"):
        plan_of(path, tmp_path / "p.json", 4, "--emit-onnx-plan", str(tmp_path / "elsewhere" / "o.onnx"), bind={})
    plan_of(path, tmp_path / "p.json", 4, "--emit-onnx-plan", str(tmp_path / "o.onnx"), bind={})
    onnx.checker.check_model(str(tmp_path / "o.onnx"))
