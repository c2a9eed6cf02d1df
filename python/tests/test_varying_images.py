# SPDX-License-Identifier: Apache-2.0
"""Heights, widths and lengths that windows slide along, bound to ranges with a step: one program takes any of them, and computes what
onnxruntime does for that one."""

import pathlib
from typing import Dict, List, Tuple

import numpy as np
import onnx
import pytest

import autopar

from emulated_cuda import assert_alike, on_both
from varying import assert_as_onnxruntime, graph, node, values

RANDOM = np.random.default_rng(0)


def filters(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)


WEIGHTS = {"w3": filters(5, 4, 3, 3), "w1": filters(5, 4, 1, 1), "w5": filters(5, 4, 5, 5), "depth": filters(4, 1, 3, 3), "up": filters(4, 5, 2, 2), "wide": filters(4, 5, 4, 4),
           "scales": np.array([1, 1, 2, 2], np.float32), "roi": np.array([], np.float32), "one": np.ones(4, np.float32), "zero": np.zeros(4, np.float32),
           "begin": np.array([0, 0], np.int64), "second": np.array([1, 1], np.int64), "end": np.array([1 << 40, 1 << 40], np.int64),
           "axes": np.array([2, 3], np.int64), "steps": np.array([2, 2], np.int64), "blocks": np.array([0, 4, -1, 2, 0], np.int64), "back": np.array([0, 4, -1, 8], np.int64)}
IMAGES = {
    "convolution": [node("Conv", ["x", "w3"], "y", pads=[1, 1, 1, 1])],
    "convolution without pads": [node("Conv", ["x", "w3"], "y")],
    "with strides": [node("Conv", ["x", "w3"], "y", pads=[1, 1, 1, 1], strides=[2, 2])],
    "of one position": [node("Conv", ["x", "w1"], "y", strides=[2, 2])],
    "dilated": [node("Conv", ["x", "w3"], "y", pads=[2, 2, 2, 2], dilations=[2, 2])],
    "padded unevenly": [node("Conv", ["x", "w5"], "y", pads=[1, 2, 3, 2], strides=[4, 2])],
    "as the exporter of TensorFlow pads": [node("Conv", ["x", "w3"], "y", auto_pad="SAME_UPPER", strides=[2, 2])],
    "depthwise": [node("Conv", ["x", "depth"], "y", pads=[1, 1, 1, 1], group=4)],
    "transposed": [node("ConvTranspose", ["x", "up"], "y", strides=[2, 2])],
    "transposed and cropped": [node("ConvTranspose", ["x", "wide"], "y", strides=[2, 2], pads=[1, 1, 1, 1])],
    "transposed with more behind": [node("ConvTranspose", ["x", "wide"], "y", strides=[2, 2], pads=[2, 2, 1, 1], output_padding=[1, 1])],
    "largest of windows": [node("MaxPool", ["x"], "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])],
    "largest of halves of windows": [node("MaxPool", ["x"], "y", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)],
    "means of windows": [node("AveragePool", ["x"], "y", kernel_shape=[2, 2], strides=[2, 2])],
    "means of windows with pads": [node("AveragePool", ["x"], "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)],
    "means of what is inside of windows": [node("AveragePool", ["x"], "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
    "means of what is inside of wide windows": [node("AveragePool", ["x"], "y", kernel_shape=[5, 4], pads=[2, 1, 2, 1], strides=[2, 1])],
    "reflected at the borders": [node("Pad", ["x", "pads"], "p", mode="reflect"), node("Conv", ["p", "w3"], "y")],
    "repeated at the borders": [node("Pad", ["x", "pads"], "p", mode="edge"), node("Conv", ["p", "w3"], "y")],
    "mean of all": [node("GlobalAveragePool", ["x"], "y")],
    "largest of all": [node("GlobalMaxPool", ["x"], "y")],
    "normalized by instance": [node("InstanceNormalization", ["x", "one", "zero"], "y")],
    "twice as large": [node("Resize", ["x", "roi", "scales"], "y", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
    "twice as large, linearly": [node("Resize", ["x", "roi", "scales"], "y", mode="linear")],
    "twice as large, by cubes": [node("Resize", ["x", "roi", "scales"], "y", mode="cubic")],
    "every other": [node("Slice", ["x", "second", "end", "axes", "steps"], "y")],
    "blocks into channels": [node("SpaceToDepth", ["x"], "y", blocksize=4)],
    "channels into blocks": [node("DepthToSpace", ["x"], "y", blocksize=2)],
    "up and down": [node("Conv", ["x", "w3"], "a", pads=[1, 1, 1, 1], strides=[2, 2]), node("ConvTranspose", ["a", "back4"], "b", strides=[2, 2]), node("Add", ["x", "b"], "y")],
    "what is no number behind the end": [node("Reciprocal", ["x"], "l"), node("Conv", ["l", "w3"], "y", pads=[1, 1, 1, 1])],
}
WEIGHTS["pads"] = np.array([0, 0, 2, 1, 0, 0, 1, 3], np.int64)
WEIGHTS["back4"] = filters(5, 4, 2, 2)


def image(tmp_path: pathlib.Path, name: str) -> pathlib.Path:
    nodes = IMAGES[name]
    used = {given for each in nodes for given in each.input}
    return graph(tmp_path, nodes, {"x": [2, 4, "height", "width"]}, ["y"], {key: array for key, array in WEIGHTS.items() if key in used})


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_windows_stop_at_the_end(tmp_path: pathlib.Path, name: str, ranks: int) -> None:
    model = image(tmp_path, name)
    autopar.compile(model, tmp_path / "g.bin", bind={"height": (8, 24, 4), "width": (8, 32, 8)}, ranks=ranks, options=["--quiet"])
    with autopar.Session(tmp_path / "g.bin") as session:
        assert (session.inputs[0].least, session.inputs[0].shape, session.inputs[0].step) == ((2, 4, 8, 8), (2, 4, 24, 32), (1, 1, 4, 8))
        assert_as_onnxruntime(model, session, sizes((24, 32), (8, 8), (12, 24), (20, 8)), 1e-4)


def sizes(*extents: Tuple[int, int]) -> List[Dict[str, int]]:
    return [{"height": height, "width": width} for height, width in extents]


HEIGHT = [node("Shape", ["x"], "shape"), node("Gather", ["shape", "two"], "height")]
NUMBERS = {"two": np.array(2), "three": np.array(3), "one": np.array(1), "ten": np.array(10), "zero": np.array(0), "rows": np.array([-1, 1]), "axis": np.array([2]),
           "none": np.array([0]), "far": np.array([1 << 40]), "flat": np.array([2, 4, -1])}


def number(kind: str, *given: str) -> List[onnx.NodeProto]:
    """x times a number that an operator makes of the height."""
    return [*HEIGHT, node(kind, given, "n"), node("Cast", ["n"], "f", to=1), node("Mul", ["x", "f"], "y")]


#: What is linear between two heights and not elsewhere, or has no end.
NOT_LINEAR = {
    "a third": (number("Div", "height", "three"), (4, 17, 1)),
    "a remainder": (number("Mod", "height", "two"), (4, 16, 1)),
    "at most ten": (number("Min", "height", "ten"), (4, 16, 1)),
    "at least ten": (number("Max", "height", "ten"), (4, 16, 1)),
    "a square": (number("Mul", "height", "height"), (4, 16, 4)),
    "half as large": ([node("Resize", ["x", "", "halves"], "y", mode="linear")], (4, 16, 1)),
    "half of it": ([*HEIGHT, node("Div", ["height", "two"], "half"), node("Unsqueeze", ["half", "none"], "end"), node("Slice", ["x", "none", "end", "axis"], "y")], (4, 16, 1)),
    "positions in front of the middle": ([*HEIGHT, node("Div", ["height", "two"], "half"), node("Range", ["zero", "height", "one"], "places"), node("Less", ["places", "half"], "in"),
                                          node("Reshape", ["in", "rows"], "column"), node("Cast", ["column"], "f", to=1), node("Mul", ["x", "f"], "y")], (6, 8, 1)),
    "a sum of what is flattened": ([node("Reshape", ["x", "flat"], "f"), node("CumSum", ["f", "two"], "y")], (4, 16, 4)),
    "a position in what is flattened": ([node("Reshape", ["x", "flat"], "f"), node("ArgMax", ["f"], "at", axis=2), node("Cast", ["at"], "y", to=1)], (4, 16, 4)),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_what_two_heights_do_not_tell_is_refused(tmp_path: pathlib.Path, name: str) -> None:
    nodes, extents = NOT_LINEAR[name]
    used = {given for each in nodes for given in each.input}
    constants = {key: array.astype(np.int64) for key, array in NUMBERS.items() if key in used}
    if "halves" in used:
        constants["halves"] = np.array([1, 1, 0.5, 1], np.float32)
    flattens = "flat" in used
    model = graph(tmp_path, nodes, {"x": [2, 4, 8, "height"] if flattens else [2, 4, "height", 8]}, ["y"], constants)
    with pytest.raises(autopar.Error, match="cannot vary"):
        autopar.compile(model, tmp_path / "g.bin", bind={"height": extents}, options=["--quiet"])
    assert not (tmp_path / "g.bin").exists()


def test_each_of_two_ranges_keeps_its_numbers(tmp_path: pathlib.Path) -> None:
    """Also where import folds what is repeated at one extent, and not at another."""
    nodes = [*HEIGHT, node("Cast", ["height"], "f", to=1), node("Mul", ["x", "f"], "y")]
    model = graph(tmp_path, nodes, {"x": [2, 4, "height", "width"]}, ["y"], {"two": np.array(2)})
    for width in ((4, 12, 4), (8, 16, 8)):
        autopar.compile(model, tmp_path / "g.bin", bind={"height": (4, 16, 4), "width": width}, options=["--quiet"])
        with autopar.Session(tmp_path / "g.bin") as session:
            assert_as_onnxruntime(model, session, sizes((16, 8), (4, 8), (8, width[1])))


def test_what_two_ranges_make_together_has_no_end_as_an_output(tmp_path: pathlib.Path) -> None:
    nodes = [node("Shape", ["x"], "shape", start=2), node("ReduceProd", ["shape"], "area", keepdims=1), node("ConstantOfShape", ["area"], "y")]
    model = graph(tmp_path, nodes, {"x": [2, 4, "height", "width"]}, ["y"])
    with pytest.raises(autopar.Error, match="cannot vary"):
        autopar.compile(model, tmp_path / "g.bin", bind={"height": (4, 16, 4), "width": (4, 16, 4)}, options=["--quiet"])


def test_groups_are_normalized_as_torch_exports_them(tmp_path: pathlib.Path) -> None:
    nodes = [node("Shape", ["x"], "shape"), node("Reshape", ["x", "groups"], "g"), node("InstanceNormalization", ["g", "one", "zero"], "n"), node("Reshape", ["n", "shape"], "y")]
    model = graph(tmp_path, nodes, {"x": [2, 8, "height", "width"]}, ["y"], {"groups": np.array([0, 4, -1]), "one": np.ones(4, np.float32), "zero": np.zeros(4, np.float32)})
    autopar.compile(model, tmp_path / "g.bin", bind={"height": (4, 12, 4), "width": (4, 16, 4)}, options=["--quiet"])
    with autopar.Session(tmp_path / "g.bin") as session:
        assert_as_onnxruntime(model, session, sizes((12, 16), (4, 4), (8, 12)), 1e-4)


def test_a_step_that_no_stride_divides_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(autopar.Error, match="'height' cannot vary: autopar.convolution strides by 4 along dimension 2, which varies by 2; bind a range with a step"):
        autopar.compile(image(tmp_path, "padded unevenly"), tmp_path / "g.bin", bind={"height": (8, 24, 2), "width": (8, 32, 8)}, options=["--quiet"])


def test_extents_between_the_steps_are_refused(tmp_path: pathlib.Path) -> None:
    autopar.compile(image(tmp_path, "convolution"), tmp_path / "g.bin", bind={"height": (8, 24, 4), "width": (8, 32, 8)}, options=["--quiet"])
    with autopar.Session(tmp_path / "g.bin") as session:
        assert str(session.inputs[0]) == "x [2, 4, 8..24:4, 8..32:8]"
        assert session.inputs[0].takes((2, 4, 12, 16)) and not session.inputs[0].takes((2, 4, 10, 16))
        with pytest.raises(autopar.Error, match=r"expected x: f32 \[2,4,8..24:4,8..32:8\], got x: f32 \[2,4,10,16\]"):
            session.run({"x": np.zeros((2, 4, 10, 16), np.float32)})


def network(tmp_path: pathlib.Path, seed: int) -> pathlib.Path:
    """Random stages of convolutions, down to a quarter and up again, beside what is mixed in of their own size."""
    random = np.random.default_rng(seed)
    nodes: List[onnx.NodeProto] = []
    weights: Dict[str, np.ndarray] = {"scales": np.array([1, 1, 2, 2], np.float32), "roi": np.array([], np.float32)}

    def add(kind: str, given: List[str], **attributes: object) -> str:
        nodes.append(node(kind, given, f"v{len(nodes)}", **attributes))
        return nodes[-1].output[0]

    def weight(*shape: int) -> str:
        weights[f"w{len(weights)}"] = (random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)
        return f"w{len(weights) - 1}"

    def block(x: str, channels: int, out: int, stride: int) -> str:
        size = int(random.choice([1, 3, 5] if stride == 1 else [2, 3]))
        before = (size - 1) // 2
        x = add("Conv", [x, weight(out, channels, size, size)], pads=[before, before, size - stride - before, size - stride - before] if size >= stride else None, strides=[stride, stride])
        x = add(str(random.choice(["Relu", "HardSwish", "Sigmoid", "Exp"])), [x])
        if random.integers(2):
            gate = add("Sigmoid", [add("Conv", [add("GlobalAveragePool", [x]), weight(out, out, 1, 1)])])
            x = add("Mul", [x, gate])
        return add("InstanceNormalization", [x, weight(out), weight(out)]) if random.integers(2) else x

    channels = [int(random.integers(3, 20)) for _ in range(3)]
    full = block("x", 4, channels[0], 1)
    half = block(full, channels[0], channels[1], 2)
    quarter = block(half, channels[1], channels[2], 2)
    pooled = add("MaxPool", [quarter], kernel_shape=[3, 3], pads=[1, 1, 1, 1]) if random.integers(2) else quarter
    wide = add("Resize", [pooled, "roi", "scales"], mode=str(random.choice(["linear", "nearest"])))
    wide = add("Concat", [wide, half], axis=1)
    wide = block(wide, channels[1] + channels[2], channels[1], 1)
    wide = add("ConvTranspose", [wide, weight(channels[1], channels[0], 2, 2)], strides=[2, 2])
    add("Add", [wide, full])
    nodes[-1].output[0] = "y"
    return graph(tmp_path, nodes, {"x": ["batch", 4, "height", "width"]}, ["y"], weights)


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_plans_and_ranges(tmp_path: pathlib.Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    model = network(tmp_path, seed)
    step = int(random.choice([4, 8]))
    height, width = (step * int(random.integers(3, 7)) for _ in range(2))
    mesh = ["data=1", "data=2", "tensor=2", "data=2,tensor=2"][int(random.integers(4))]
    ranks = int(np.prod([int(axis.split("=")[1]) for axis in mesh.split(",")]))
    autopar.compile(model, tmp_path / "g.bin", bind={"batch": (1, 4), "height": (step, height, step), "width": (2 * step, width, step)}, ranks=ranks,
                    options=["--quiet", *(["--mesh", mesh] if ranks > 1 else [])])
    with autopar.Session(tmp_path / "g.bin") as session:
        extents = [{"batch": int(random.integers(1, 5)), "height": step * int(random.integers(1, height // step + 1)), "width": step * int(random.integers(2, width // step + 1))}
                   for _ in range(3)]
        assert_as_onnxruntime(model, session, extents, 2e-3)


def test_an_emulated_gpu_takes_any_size(tmp_path: pathlib.Path) -> None:
    model = network(tmp_path, 1)
    inputs = values(model, {"batch": 2, "height": 8, "width": 16})
    results = on_both(model, tmp_path, inputs, steps=2, bind={"batch": (1, 2), "height": (8, 16, 8), "width": (8, 24, 8)})
    assert_alike(results, 1e-3)
