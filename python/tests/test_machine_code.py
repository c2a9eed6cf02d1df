# SPDX-License-Identifier: Apache-2.0
"""What the kernels are made of: every kernel of gpt2 and resnet50, disassembled, calculates on whole vectors; large results
are written past the cache, and kernels with several passes over a row fetch the next one."""

import pathlib
import re
import shutil
import subprocess
from typing import Dict, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
from autopar import models

DISASSEMBLERS = ["llvm-objdump-22", "/usr/lib/llvm-22/bin/llvm-objdump"]
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*?)(?:\s+#.*)?$")
SYMBOL = re.compile(r"^([0-9a-f]+) <(.+)>:$")
#: Packed instructions that only move, copy or rearrange lanes.
MOVES = re.compile(r"mov|broadcast|extract|insert|shuf|perm|unpck|align|blend|gather|scatter|compress|expand")
PACKED_FLOAT = re.compile(r"^v?[a-z0-9]+p[sdh]$")
PACKED_INTEGER = re.compile(r"^v?p[a-z]+[0-9]?[a-z]*$")
VECTOR = re.compile(r"%[xyz]mm\d+")


def disassemble(artifact: pathlib.Path) -> Dict[str, List[str]]:
    """The instructions of each kernel of an artifact: of its body, which the exported symbol calls and precedes."""
    library = artifact.with_suffix(".so")
    subprocess.run([autopar.find_tool("autopar-translate"), "--extract-kernels", artifact, "-o", library], check=True)
    tool = next((found for found in map(shutil.which, DISASSEMBLERS) if found), None)
    if tool is None:
        pytest.fail("llvm-objdump of LLVM 22 is missing; run scripts/install-packages")
    text = subprocess.run([tool, "-d", "--no-show-raw-insn", library], check=True, capture_output=True, text=True).stdout
    code: Dict[int, str] = {}
    symbols: Dict[str, int] = {}
    for line in text.splitlines():
        if symbol := SYMBOL.match(line):
            symbols[symbol[2]] = int(symbol[1], 16)
        elif instruction := LINE.match(line):
            code[int(instruction[1], 16)] = f"{instruction[2]} {instruction[3]}"
    kernels = {}
    for name, start in symbols.items():
        if name.startswith("."):
            continue
        call = next(text for address, text in code.items() if address >= start and re.match(r"(jmp|callq?) ", text))
        body = int(re.search(r"0x([0-9a-f]+)", call)[1], 16)
        assert body < start, f"{name}: expected the body before the exported symbol, got {call}"
        kernels[name] = [text for address, text in code.items() if body <= address < start]
    return kernels


def calculates_on_vectors(instruction: str) -> bool:
    """A packed calculation; clearing a register by `xor` with itself is none."""
    mnemonic, operands = instruction.split(" ", 1)
    registers = VECTOR.findall(operands)
    if not registers or MOVES.search(mnemonic) or ("xor" in mnemonic and len(set(registers)) < len(registers)):
        return False
    return bool(PACKED_FLOAT.match(mnemonic) or PACKED_INTEGER.match(mnemonic))


def compiled(model: object, artifact: pathlib.Path, **options: object) -> pathlib.Path:
    """The artifact, for a CPU with AVX-512 whatever machine this is."""
    autopar.compile(model, artifact, ranks=1, options=["--target-cpu=x86-64-v4"], **options)
    return artifact


@pytest.mark.parametrize("name, bind, sizes", [("gpt2-124m", {"batch": 1, "seq": 128}, {"layers": 2}),
                                               ("resnet50", {"batch": 1}, {})])
def test_every_kernel_calculates_on_vectors(name: str, bind: Dict[str, int], sizes: Dict[str, int],
                                            tmp_path: pathlib.Path) -> None:
    models.save(name, tmp_path / "model.onnx", weights=False, **sizes)
    kernels = disassemble(compiled(tmp_path / "model.onnx", tmp_path / "compiled.bin", bind=bind))
    assert kernels
    scalar = [kernel for kernel, code in kernels.items() if not any(map(calculates_on_vectors, code))]
    assert not scalar, f"{len(scalar)} of {len(kernels)} kernels without packed vector instructions: {scalar}"


@pytest.mark.parametrize("rows, streams", [(4096, True), (64, False)])
def test_large_results_bypass_the_cache(rows: int, streams: bool, tmp_path: pathlib.Path) -> None:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 4096]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "kernel", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    code = disassemble(compiled(model, tmp_path / "compiled.bin"))["k0"]
    assert any(text.startswith("vmovnt") for text in code) == streams
    assert any(text.startswith("prefetch") for text in code) == streams
    assert any(text.startswith("sfence") for text in code) == streams


def test_transposed_results_bypass_the_cache_sooner(tmp_path: pathlib.Path) -> None:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2048, 2048]) for name in "xy"]
    for op, streams in {"Transpose": True, "Exp": False}.items():
        graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "kernel", value[:1], value[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        code = disassemble(compiled(model, tmp_path / f"{op}.bin"))["k0"]
        assert any(text.startswith("vmovnt") for text in code) == streams
        assert not any(text.startswith("vpscatter") or text.startswith("vscatter") for text in code)


@pytest.mark.parametrize("reduction, nothing", [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_masked_maxima_calculate_on_vectors(reduction: str, nothing: float, tmp_path: pathlib.Path) -> None:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 4096]),
              helper.make_tensor_value_info("mask", TensorProto.BOOL, [4096])]
    constants = [helper.make_tensor("nothing", TensorProto.FLOAT, [], [nothing]), helper.make_tensor("axes", TensorProto.INT64, [1], [1])]
    nodes = [helper.make_node("Where", ["mask", "x", "nothing"], ["masked"]),
             helper.make_node(reduction, ["masked", "axes"], ["y"], keepdims=0)]
    graph = helper.make_graph(nodes, "kernel", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    artifact = compiled(model, tmp_path / "compiled.bin")
    assert any(map(calculates_on_vectors, disassemble(artifact)["k0"]))
    autopar.compile(model, artifact, ranks=1)  # for this machine
    x = np.random.default_rng(0).standard_normal((64, 4096)).astype(np.float32)
    x[3, 5], mask = np.nan, np.arange(4096) % 3 > 0
    x[4, 6] = np.nan  # masked: 6 is a multiple of 3
    with autopar.Session(artifact) as session:
        y = session.run({"x": x, "mask": mask})["y"]
    np.testing.assert_array_equal(y, getattr(np, reduction[6:].lower())(np.where(mask, x, np.float32(nothing)), axis=1))


def test_the_check_can_fail() -> None:
    code = ["vaddss %xmm0, %xmm1, %xmm1", "vmovups %zmm0, (%rdi)", "vbroadcastss %xmm0, %zmm1", "vxorps %xmm0, %xmm0, %xmm0",
            "addq $1, %rax", "popq %rbx", "vpermps %zmm0, %zmm1, %zmm2", "pushq %rbp"]
    assert not any(map(calculates_on_vectors, code))
    assert all(map(calculates_on_vectors, ["vaddps (%rdi), %zmm1, %zmm1", "vfmadd213ps %ymm0, %ymm1, %ymm2", "vpaddd %ymm0, %ymm1, %ymm2",
                                           "vxorps %zmm0, %zmm1, %zmm2", "vpminsd %xmm0, %xmm1, %xmm2"]))


def test_a_row_by_a_matrix_is_summed_in_the_order_of_memory(tmp_path: pathlib.Path) -> None:
    """In four vectors, of which an iteration adds two each; nothing that all columns share is written to the stack."""
    weight = numpy_helper.from_array(np.zeros((768, 4096), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "kernel",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 768])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4096])], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    kernels = disassemble(compiled(model, tmp_path / "compiled.bin"))
    product, = ([text for text in code if "zmm" in text] for code in kernels.values() if any("vfmadd" in text for text in code))
    sums = [text for text in product if text.startswith("vfmadd")]
    assert len(sums) == 8 and not [text for text in product if "%rsp" in text]
    read = [int(re.search(r"(-?0x[0-9a-f]+)?\(", text)[1] or "0", 16) for text in sums]
    assert read == sorted(read) and read[-1] - read[0] == 7 * 64
