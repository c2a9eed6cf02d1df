# SPDX-License-Identifier: Apache-2.0
"""Models of one product by weights in blocks of 32, in which both sides may round to 8 bits, against onnxruntime on the same
cores and threads: `scripts/run-check block_products --rows 5 128 --sizes 2048x2048`. Prints a line for each case: the time of a
product, several being timed at once where they are short, and the largest difference in shares of the largest result."""

import argparse
import os
import pathlib
import tempfile
from typing import Any, Callable, Dict

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import autopar

from . import block_weights, measuring, reference

#: Multiplications and additions that are timed at once, at least.
TIMED = 4e8


def save(path: str, k: int, n: int, bits: int, symmetric: bool, level: int) -> None:
    """y = x w, w of `bits` bits."""
    weight = np.random.default_rng(1).standard_normal((k, n), dtype=np.float32)
    inputs, outputs = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", extent])] for name, extent in (("x", k), ("y", n)))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", inputs, outputs, [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(block_weights.quantize(model, bits, symmetric, accuracy_level=level), path)


def _input(rows: int, k: int) -> Dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).standard_normal((rows, k), dtype=np.float32)}


def prepare_autopar(artifact: str, rows: int, k: int, threads: int, repeats: int) -> Callable[[], Any]:
    session, fed = autopar.Session(artifact, threads=threads), _input(rows, k)
    return lambda: [session.run(fed)["y"] for _ in range(repeats)]


def prepare_onnxruntime(model: str, rows: int, k: int, threads: int, repeats: int) -> Callable[[], Any]:
    session, fed = reference.session(pathlib.Path(model), threads), _input(rows, k)
    return lambda: [session.run(None, fed)[0] for _ in range(repeats)]


def measure(model: str, artifact: str, rows: int, k: int, n: int, threads: int, runs: int) -> str:
    repeats = max(1, round(TIMED / (rows * k * n)))
    sides = {"autopar": (prepare_autopar, (artifact, rows, k, threads, repeats)),
             "onnxruntime": (prepare_onnxruntime, (model, rows, k, threads, repeats))}
    ours, theirs = (prepare(*arguments)()[0] for prepare, arguments in sides.values())
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    cores = sorted(os.sched_getaffinity(0))[:threads]
    processes = {name: measuring.Side(*side, cores) for name, side in sides.items()}
    times = measuring.alternate(processes, runs)
    for process in processes.values():
        process.close()
    ours_ms, theirs_ms = (measuring.median(times[name]) / repeats for name in sides)
    return f"{ours_ms:9.3f} ms  onnxruntime {theirs_ms:9.3f} ms  ratio {ours_ms / theirs_ms:6.3f}  differ by {difference:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["2048x2048", "4096x14336"], help="summed extent x columns")
    parser.add_argument("--rows", nargs="+", type=int, default=[5, 8, 16, 32, 128, 512])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--bits", type=int, default=4, choices=[2, 4, 8])
    parser.add_argument("--level", type=int, default=4, choices=[1, 4], help="accuracy_level of the products: 1 rounds nothing")
    parser.add_argument("--weights", nargs="+", default=["symmetric", "points"], choices=["symmetric", "points"])
    parser.add_argument("--target-cpu", default="native", help="what ours is compiled for")
    parser.add_argument("--runs", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="products-") as folder:
        for size in given.sizes:
            k, n = map(int, size.split("x"))
            for weights in given.weights:
                model, artifact = os.path.join(folder, "model.onnx"), os.path.join(folder, "model.bin")
                save(model, k, n, given.bits, weights == "symmetric", given.level)
                for rows in given.rows:
                    autopar.compile(model, artifact, bind={"rows": rows}, threads=max(given.threads), options=["--target-cpu", given.target_cpu])
                    for threads in given.threads:
                        line = measure(model, artifact, rows, k, n, threads, given.runs)
                        print(f"{size:>10} {weights:9} {rows:4} rows {threads} threads {line}", flush=True)


if __name__ == "__main__":
    main()
