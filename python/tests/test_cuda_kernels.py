# SPDX-License-Identifier: Apache-2.0
"""Programs for GPUs, compiled without one: every kernel of the zoo assembles, and stays in its registers."""

import pathlib
import re
import subprocess

import pytest

import autopar
import ptxas
from autopar import models
from autopar.tools import find_tool

TEXT = dict(layers=2, hidden=64, heads=4, vocab=501)
STEP = ["--train", "loss=softmax_cross_entropy(logits, labels)", "--clip-norm", "1"]

#: Seconds that a compilation may take; one or two are usual.
LIMIT = 120

#: model, its sizes, its batch, how it is compiled
CASES = {
    "gpt2": ("gpt2-124m", TEXT, "batch=2,seq=16", []),
    "bert": ("bert-base", TEXT, "batch=2,seq=16", []),
    "resnet": ("resnet50", dict(blocks="1,1,2,1", channels=8, image=64, classes=10), "batch=2", []),
    "mixtral": ("mixtral-8x7b", TEXT, "batch=2,seq=16", ["--precision", "bf16"]),
    # Large enough for the odd vocabulary to be padded.
    "gpt2-training": ("gpt2-124m", dict(TEXT, layers=1, hidden=512), "batch=2,seq=256", [*STEP, "--optimizer", "adamw(lr=1e-3)", "--precision", "bf16"]),
    # As wide as the model itself: rows and tables of other sizes have kernels of other shapes.
    "gpt2-training-wide": ("gpt2-124m", dict(layers=1), "batch=16,seq=1024", [*STEP, "--optimizer", "adamw(lr=1e-3)", "--precision", "bf16"]),
    "llama-training-fp8": ("llama3-8b", dict(layers=1, weights=False), "batch=1,seq=4096", [*STEP, "--optimizer", "adamw(lr=1e-3)", "--precision", "fp8"]),
    # Tokens to 32 experts by position: listed updates, a scan, rows that are read by position.
    "qwen3-moe-training": ("qwen3-30b-a3b", dict(layers=1, hidden=256, heads=4, head_size=64, experts=32, top_k=4, vocab=501), "batch=2,seq=1024",
                           [*STEP, "--optimizer", "adamw(lr=1e-3)", "--precision", "bf16"]),
    "gpt2-training-fp16": ("gpt2-124m", TEXT, "batch=2,seq=16", [*STEP, "--optimizer", "sgd(lr=1e-3)", "--precision", "fp16"]),
}


def compile_for_gpu(folder: pathlib.Path, case: str, cluster: str = "presets:h100x1") -> pathlib.Path:
    name, sizes, bind, options = CASES[case]
    models.save(name, folder / "m.onnx", **sizes)
    artifact = folder / "m.bin"
    subprocess.run([find_tool("autopar-compile"), folder / "m.onnx", "--bind", bind, "--cluster", cluster, "--quiet", "-o", artifact, *options], check=True,
                   timeout=LIMIT)
    return artifact


def ptx_of(artifact: pathlib.Path) -> str:
    text = artifact.with_suffix(".ptx")
    subprocess.run([find_tool("autopar-translate"), "--extract-kernels", artifact, "-o", text], check=True)
    return text.read_text()


@pytest.mark.parametrize("case", CASES)
def test_kernels_assemble_for_all_chips(tmp_path, case):
    ptx = ptx_of(compile_for_gpu(tmp_path, case))
    assert ".target sm_80" in ptx and ".extern .func" not in ptx
    kernels = re.findall(r"\.visible \.entry (\w+)\(", ptx)
    for chip in ("sm_80", "sm_90", "sm_100"):
        resources = ptxas.assemble(ptx, chip)
        assert sorted(resources) == sorted(kernels)
        for kernel, used in resources.items():
            assert used.spilled == 0 and used.stack == 0 and used.registers <= 128, (chip, kernel, used)


def sorts_and_scans() -> str:
    """A program with a kernel for each way in which threads share rows, wide elements and rows of odd length, which take most registers, among them."""
    lines, results, types = [], [], []
    for name, rows, length, k in [("f32", 64, 50257, 8), ("f32", 64, 50256, 32), ("bf16", 64, 50257, 50), ("f64", 64, 50257, 32), ("i8", 64, 50256, 1),
                                  ("f64", 64, 50257, 50257), ("f32", 16384, 8, 2), ("bf16", 16384, 64, 4)]:
        x, n = f"tensor<{rows}x{length}x{name}>", len(types)
        best, places = f"tensor<{rows}x{k}x{name}>", f"tensor<{rows}x{k}xi64>"
        lines.append(f'%t{n}, %i{n} = autopar.top_k %x{n} dim 1 {{autopar.id = "t{n}"}} : ({x}) -> ({best}, {places})')
        lines.append(f'%s{n} = autopar.cumulative sum %x{n} dim 1 exclusive {{autopar.id = "s{n}"}} : {x}')
        results.append([(f"%t{n}", best), (f"%i{n}", places), (f"%s{n}", x)])
        types.append(x)
    all_results = sum(results, [])
    arguments = ", ".join(f'%x{n}: {x} {{autopar.name = "x{n}"}}' for n, x in enumerate(types))
    named = ", ".join(f'{kind} {{autopar.name = "y{n}"}}' for n, (_, kind) in enumerate(all_results))
    body = "\n  ".join([*lines, f"return {', '.join(value for value, _ in all_results)} : {', '.join(kind for _, kind in all_results)}"])
    return f"func.func @main({arguments}) -> ({named}) {{\n  {body}\n}}\n"


def test_sorts_and_scans_stay_in_their_registers(tmp_path):
    (tmp_path / "m.mlir").write_text(sorts_and_scans())
    subprocess.run([find_tool("autopar-compile"), tmp_path / "m.mlir", "--target", "cuda", "--quiet", "-o", tmp_path / "m.bin"], check=True, timeout=LIMIT)
    ptx = ptx_of(tmp_path / "m.bin")
    for chip in ("sm_80", "sm_90", "sm_100"):
        for kernel, used in ptxas.assemble(ptx, chip).items():
            assert used.spilled == 0 and used.stack == 0, (chip, kernel, used)


def test_an_artifact_holds_machine_code_of_the_cluster_s_chip(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(pathlib.Path(ptxas.find()).parents[1]))
    artifact = compile_for_gpu(tmp_path, "bert")
    dump = subprocess.run([find_tool("autopar-translate"), "--dump", artifact], check=True, capture_output=True, text=True).stdout
    assert "for cuda ptx8.0+sm_80+sm_90" in dump and "section CUBIN class 0" in dump and "section KERNELS" not in dump
    assert "pack " not in dump, "the library of a GPU takes weights as they are"


@pytest.mark.parametrize("options, code, why", [
    (["--cluster", "presets:v100x1"], 65, "kernels need GPUs from sm_80 on; the cluster's v100 is sm_70"),
    (["--target", "tpu"], 2, "--target: expected cpu or cuda"),
])
def test_what_no_kernel_runs_on_is_refused(tmp_path, options, code, why):
    models.save("gpt2-124m", tmp_path / "m.onnx", **TEXT)
    done = subprocess.run([find_tool("autopar-compile"), tmp_path / "m.onnx", "--bind", "batch=2,seq=16", "-o", tmp_path / "m.bin", *options],
                          capture_output=True, text=True)
    assert (done.returncode, why in done.stderr) == (code, True), done.stderr


def test_the_target_may_differ_from_the_cluster(tmp_path):
    """Planned for GPUs, run here."""
    models.save("gpt2-124m", tmp_path / "m.onnx", **TEXT)
    artifact = tmp_path / "m.bin"
    subprocess.run([find_tool("autopar-compile"), tmp_path / "m.onnx", "--bind", "batch=2,seq=16", "--cluster", "presets:h100x1", "--target", "cpu", "--quiet",
                    "-o", artifact], check=True)
    with autopar.Session(artifact):
        pass


@pytest.mark.parametrize("chip, in_products", [("a100", False), ("h100", True)])
def test_gelus_are_in_products_from_sm_90_on(tmp_path, chip, in_products):
    """With their gradients; gradients of biases are on all chips."""
    models.save("gpt2-124m", tmp_path / "m.onnx", layers=1, hidden=64, heads=2, vocab=64, positions=32)
    subprocess.run([find_tool("autopar-compile"), tmp_path / "m.onnx", "--bind", "batch=4,seq=32", "--cluster", f"presets:{chip}x1", "--precision", "bf16", "--quiet",
                    "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "sgd(lr=0.1)", "--stop-after", "lower", "-o", tmp_path / "m.mlir"], check=True)
    program = (tmp_path / "m.mlir").read_text()
    assert ("epilogue = gelu_tanh_grad" in program, "epilogue = gelu_tanh_aux" in program, "epilogue = sums_of_b" in program) == (in_products, in_products, True)
