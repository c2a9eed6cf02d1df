# SPDX-License-Identifier: Apache-2.0
"""Models as torch's exporters write them: by a torch that is installed, and the zoo's with what the exporters do to weights."""

import pathlib
import subprocess
from typing import Dict, List

import numpy as np
import onnx
from onnx import helper, numpy_helper

from autopar import models

EXPORTER = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "checks" / "export_with_torch.py"


def export(folder: pathlib.Path, *mode: str) -> pathlib.Path:
    """torch's exports."""
    folder.mkdir()
    done = subprocess.run(["/usr/bin/python3", EXPORTER, folder, *mode], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def stored_twice(path: pathlib.Path) -> None:
    """A gpt2 as torch's exporter writes it: the transpose of the tied output matrix computed ahead, under a name made up."""
    model = models.build("gpt2-124m", layers=1, hidden=16, heads=2, vocab=20)
    (transpose,) = [node for node in model.graph.node if node.name == "/lm_head/Transpose"]
    (embedding,) = [tensor for tensor in model.graph.initializer if tensor.name == transpose.input[0]]
    model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(embedding).T.copy(), "onnx::MatMul_120"))
    (head,) = [node for node in model.graph.node if node.name == "/lm_head/MatMul"]
    head.input[1] = "onnx::MatMul_120"
    model.graph.node.remove(transpose)
    model.producer_name = "pytorch"
    onnx.save(model, path)


def stored_once(whole: pathlib.Path, path: pathlib.Path) -> int:
    """The model as torch's newer exporter writes it: equal initializers joined, and by each node what its source read. How many are gone."""
    model = onnx.load(whole)
    first: Dict[str, str] = {}
    joined = {tensor.name: first.setdefault(f"{list(tensor.dims)} {tensor.raw_data!r}", tensor.name) for tensor in model.graph.initializer}
    for node in model.graph.node:
        modules = {name.rsplit(".", 1)[0] for name in node.input if name in joined and "." in name}
        read = [name for name in joined if name.rsplit(".", 1)[0] in modules]
        if read:
            places = ", ".join("%p_" + name.replace(".", "_") for name in read)
            node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"%op : [num_users=1] = call_function[target=op](args = (%x, {places}), kwargs = {{}})")
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(["", *modules, "op"]))
        for i, name in enumerate(node.input):
            node.input[i] = joined.get(name, name)
    for tensor in [tensor for tensor in model.graph.initializer if joined[tensor.name] != tensor.name]:
        model.graph.initializer.remove(tensor)
    model.producer_name = "pytorch"
    onnx.save(model, path)
    return sum(kept != name for name, kept in joined.items())


def adapted(exported: bool) -> onnx.ModelProto:
    """Two layers with LoRA, and a matrix of the whole model that takes it too. Exported: as torch's newer exporter writes it, with transposes
    computed ahead under names that it made up, equal matrices (each B starts as zeros) stored once, and the tensors that they were."""
    random = np.random.default_rng(3)
    nodes: List[onnx.NodeProto] = []
    tensors: Dict[str, np.ndarray] = {}
    sources: Dict[str, List[str]] = {}

    def product(x: str, name: str, value: np.ndarray, source: str = "") -> str:
        """x @ value: `name` is transposed in torch, where nodes read `source`: it, or what the source itself transposed."""
        stored = name
        if exported:
            stored = next((known for known, other in tensors.items() if other.shape == value.shape and np.array_equal(other, value)), f"val_{len(nodes)}")
            sources.setdefault(stored, [name] if not source else [name, source])
        tensors[stored] = value
        node = helper.make_node("MatMul", [x, stored], [f"y{len(nodes)}"], f"n{len(nodes)}")
        if exported:
            place = source or "p_" + name.replace(".", "_").lower()
            node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%{x}, %{place}), kwargs = {{}})")
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(["", name.rpartition(".")[0], "linear"]))
        nodes.append(node)
        return node.output[0]

    def matrix(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / 3).astype(np.float32)

    def added(x: str, y: str) -> str:
        nodes.append(helper.make_node("Add", [x, y], [f"y{len(nodes)}"], f"n{len(nodes)}"))
        return nodes[-1].output[0]

    x = "x"
    for layer in ("layers.0", "layers.1"):
        down = product(x, f"{layer}.q.lora_A.weight", matrix(8, 2))
        x = added(product(x, f"{layer}.q.weight", matrix(8, 8)), product(down, f"{layer}.q.lora_B.weight", np.zeros((2, 8), np.float32)))
    down = product(x, "lora_A", matrix(8, 2), "permute")
    x = added(product(x, "head.weight", matrix(8, 8)), product(down, "lora_B", matrix(2, 8), "permute_1"))
    nodes[-1].output[0] = "output"
    shape = ["batch", 8]
    graph = helper.make_graph(nodes, "adapted", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, shape)],
                              [numpy_helper.from_array(value, name) for name, value in tensors.items()])
    for name, source in sources.items():
        value = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, tensors[name].shape)
        value.metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value=str(source))
        graph.value_info.append(value)
    return helper.make_model(graph, producer_name="pytorch" if exported else "", opset_imports=[helper.make_opsetid("", 18)])


def copied_layers(**sizes: int) -> onnx.ModelProto:
    """A gpt2 of two layers that are copies of each other, with norms at their start."""
    model = models.build("gpt2-124m", layers=2, **sizes)
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, tensor in values.items():
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        if ".ln_" in name or name.endswith(".bias"):
            tensor.raw_data = np.full(list(tensor.dims), float(name.endswith("weight")), np.float32).tobytes()
        elif ".h.1." in name:
            tensor.raw_data = values[name.replace(".h.1.", ".h.0.")].raw_data
    return model
