# SPDX-License-Identifier: Apache-2.0
"""Generated kernels against the machine's stream rate, one core: bytes that must be moved over the time it took.

The stream rate is that of NumPy's copy on arrays of the same size, on the same core. A kernel reads its input once and
writes its output once; whatever it moves beyond that counts against it.
"""

import os
import pathlib
import tempfile
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import autopar

from . import measuring

RUNS = 10
ROWS, COLUMNS = 4096, 4096
BYTES_MOVED = 2 * ROWS * COLUMNS * 4


def single_op_models() -> Dict[str, onnx.ModelProto]:
    """softmax, layer norm and the erf and tanh forms of gelu on one large matrix."""
    shape = [ROWS, COLUMNS]
    scale, bias = np.linspace(0.5, 1.5, COLUMNS, dtype=np.float32), np.linspace(-1, 1, COLUMNS, dtype=np.float32)

    def model(nodes: List[onnx.NodeProto], tensors: Dict[str, np.ndarray]) -> onnx.ModelProto:
        graph = helper.make_graph(nodes, "kernel", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                                  [numpy_helper.from_array(array, name) for name, array in tensors.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    return {
        "softmax": model([helper.make_node("Softmax", ["x"], ["y"], "softmax", axis=-1)], {}),
        "layer norm": model([helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["y"], "norm")],
                            {"scale": scale, "bias": bias}),
        "gelu erf": model([helper.make_node("Gelu", ["x"], ["y"], "gelu")], {}),
        "gelu tanh": model([helper.make_node("Gelu", ["x"], ["y"], "gelu", approximate="tanh")], {}),
    }


def kernel_ms(artifact: str, core: int) -> float:
    """Milliseconds of one step on one thread and core; input and output stay where the runtime keeps them."""
    command = ["taskset", "--cpu-list", core, autopar.find_tool("autopar-run"), artifact, "--input", "x=random",
               "--threads", 1, "--benchmark", "--warmup", 2, "--steps", 3, "--quiet"]
    return float(measuring.last_json(measuring.run_measured(command).output)["median_ms"])


def prepare_copy() -> Callable[[], Any]:
    """A copy of the same number of bytes."""
    source, target = np.ones((ROWS, COLUMNS), np.float32), np.zeros((ROWS, COLUMNS), np.float32)
    return lambda: np.copyto(target, source)


def cases() -> Iterator[Dict[str, Any]]:
    """One case per kernel, in GB/s; the ratio is the share of the stream rate."""
    core = min(os.sched_getaffinity(0))
    copy = measuring.Side(prepare_copy, (), [core])
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for name, model in single_op_models().items():
            artifact = str(pathlib.Path(folder, name.replace(" ", "-") + ".bin"))
            autopar.compile(model, artifact, ranks=1)
            times: Dict[str, List[float]] = {"autopar": [], "copy": []}
            for _ in range(RUNS):
                times["autopar"].append(kernel_ms(artifact, core))
                times["copy"].append(copy.time_ms())
            rate = {side: BYTES_MOVED / measuring.median(values) / 1e6 for side, values in times.items()}
            yield measuring.case(name, rate["autopar"], "GB/s", rate["copy"], threads=1, raw=times)
    copy.close()
