# SPDX-License-Identifier: Apache-2.0
"""QMoE of com.microsoft, experts with weights of few bits, against onnxruntime, on one and two ranks."""

import json
import pathlib
import re
from typing import List, Optional, Sequence, Tuple

import numpy as np
import pytest
from contrib_cases import Case, FLOAT, Given, HALF, U8, assert_close, check, draw_anew, floats, reference, save, scales, whole

import autopar

draw_anew(3)


def experts(bits: int = 4, block: int = 0, points: bool = False, biases: bool = True, kind: type = FLOAT, per_row: bool = False,
            shares: Optional[np.ndarray] = None, sizes: Sequence[int] = (6, 4, 32, 64), k: int = 2, gated: bool = True, **attributes: object) -> Case:
    """Tokens, experts, channels of tokens and within experts. `gated`: swiglu, whose gates and values are next to each other;
    `per_row`: scales are per row although there is a block size."""
    tokens, number, outer, inner = sizes
    first = 2 * inner if gated else inner

    def layer(rows: int, columns: int) -> Tuple[object, object, object]:
        """Bytes, scales, zero points."""
        blocks = [-(-columns // block)] if block and not per_row else []
        packed = [number, rows, -(-blocks[0] * bits // 8)] if blocks else [number, -(-rows * bits // 8)]
        steps = (scales(number, rows, *blocks) * FLOAT(2 ** (4 - bits))).astype(kind)
        return whole(U8, number, rows, columns * bits // 8), steps, whole(U8, *packed) if points else None

    (w1, s1, z1), (w2, s2, z2) = layer(first, outer), layer(outer, inner)
    x = Given(floats(2, tokens // 2, outer, kind=kind) if k % 2 == 0 else floats(tokens, outer, kind=kind))
    bias = [floats(number, rows, kind=kind) if biases else None for rows in (first, outer)]
    inputs = [x, Given(floats(tokens, number, kind=kind)), w1, s1, bias[0], w2, s2, bias[1], None, None, None, z1, z2, None,
              None if shares is None else Given(shares)]
    form = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0} if gated else {}
    size = {"block_size": block} if block else {}
    return Case("QMoE", inputs, {"k": k, "expert_weight_bits": bits, **size, **form, **attributes})


#: Every format. Two bits in blocks of 32 and more are a matter of tables to onnxruntime, whose products round.
EXPERTS = [
    *(experts(bits, block, points, biases=points) for bits in (2, 4, 8) for block in (0, 16) for points in (False, True)),
    experts(4, 32), experts(4, 32, True), experts(8, 32, True), experts(4, 64, True), experts(4, 32, True, sizes=(6, 4, 128, 32)),
    experts(4, 32, True, per_row=True), experts(4, 64, True, sizes=(6, 4, 96, 160)), experts(2, 64, True, sizes=(6, 4, 32, 96)),
    experts(4, 0, True, sizes=(6, 4, 32, 6), gated=False, activation_type="silu"),
    *(experts(gated=False, k=1 + n % 3, activation_type=name) for n, name in enumerate(("relu", "silu", "gelu", "identity"))), experts(gated=False),
    experts(kind=HALF), experts(8, kind=HALF, points=True), experts(4, 16, True, kind=HALF), experts(4, 32, kind=HALF, biases=False),
    experts(swiglu_limit=0.7), experts(4, 32, swiglu_limit=7.0, normalize_routing_weights=1, sizes=(10, 8, 64, 96), k=4),
    experts(accuracy_level=1, weights_prepacked=0, quant_type="int", fc2_expert_weight_bits=4), experts(weights_prepacked=-1, k=4),
    experts(shares=np.abs(floats(6, 4))), experts(shares=floats(6, 4)), experts(shares=np.abs(floats(6, 4)), normalize_routing_weights=1, k=3),
    experts(shares=floats(6, 4), normalize_routing_weights=1), experts(shares=np.zeros((6, 4), FLOAT), normalize_routing_weights=1),
    experts(shares=np.abs(floats(6, 4, kind=HALF)), kind=HALF),
]


@pytest.mark.parametrize("ranks", [1, 2])
def test_packed_experts(tmp_path: pathlib.Path, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime rounds tokens to 8 bits by default where weights have 8 bits in blocks, here nothing is."""
    monkeypatch.setenv("ORT_QMOE_CPU_QNBIT_GEMM", "fp32")
    check(tmp_path, EXPERTS, ranks=ranks)


def test_packed_experts_in_other_orders(tmp_path: pathlib.Path) -> None:
    """Gates and values one behind the other, or as two layers, of which onnxruntime's CPU has neither."""
    cases: List[Case] = []
    for case in (experts(4, 16, True), experts(8)):
        fed = save(tmp_path / "joined.onnx", [case])
        (expected,) = reference(tmp_path / "joined.onnx", fed).values()
        inputs, first = list(case.inputs), [2, 3, 4, 11]
        halves = {i: [inputs[i][:, part::2] for part in range(2)] for i in first if inputs[i] is not None}
        behind = [np.concatenate(halves[i], 1) if i in halves else given for i, given in enumerate(inputs)]
        apart = [halves[i][0] if i in halves else given for i, given in enumerate(inputs)]
        for gate, value in zip(first, (8, 9, 10, 13)):
            apart[value] = halves[gate][1] if gate in halves else None
        cases += [case, case._replace(inputs=behind, attributes={**case.attributes, "swiglu_fusion": 2}, expected=expected),
                  case._replace(inputs=apart, attributes={**case.attributes, "swiglu_fusion": 0}, expected=expected)]
    check(tmp_path, cases)


@pytest.mark.parametrize("axes, part", [("", "8x64x32"), ("x, -, -", "4x64x32"), ("-, x, -", "8x32x32"), ("-, -, x", "8x64x16")])
def test_experts_stay_packed(tmp_path: pathlib.Path, axes: str, part: str) -> None:
    """The bytes are the parameter, of which each rank has experts, rows or blocks."""
    fed = save(tmp_path / "model.onnx", [experts(4, 32, True, sizes=(10, 8, 64, 64))])
    options = ["--constrain", f"mesh=x=2, QMoE_0_5: [{axes}]"] if axes else []
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", ranks=2 if axes else 1,
                               options=[*options, "--emit-mlir", str(tmp_path / "phases")])
    lowered = next((tmp_path / "phases").glob("*-lower.mlir")).read_text()
    assert re.search(rf"exec.buffer \"QMoE_0_5\" .* : tensor<{part}xui8>", lowered)
    with autopar.Session(compiled) as session:
        actual = session.run(fed)
    for name, expected in reference(tmp_path / "model.onnx", fed).items():
        assert_close(actual[name], expected, name)


@pytest.mark.parametrize("ranks", [1, 2])
def test_experts_of_many_tokens_are_made_part_by_part(tmp_path: pathlib.Path, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are floats for no more than some columns of a matrix, in scratch."""
    monkeypatch.setenv("ORT_QMOE_CPU_QNBIT_GEMM", "fp32")
    many = (120, 3, 64, 96)
    check(tmp_path, [experts(4, 32, True, sizes=many), experts(8, 16, sizes=many, k=1), experts(2, 32, sizes=many), experts(4, 0, sizes=many),
                     experts(4, 32, sizes=many, kind=HALF)], ranks=ranks)
    save(tmp_path / "model.onnx", [experts(4, 32, True, sizes=(300, 4, 512, 512), gated=False)])
    lowered = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", options=["--emit-mlir", str(tmp_path / "phases")])
    text = next((tmp_path / "phases").glob("*-lower.mlir")).read_text()
    assert len(re.findall(r"exec.grouped_product .* made by @k\d+\(", text)) == 2
    assert not re.search(r"exec.buffer .* : tensor<4x512x512xf32>", text)
    assert lowered


def test_experts_fit_where_their_floats_would_not(tmp_path: pathlib.Path) -> None:
    """16 experts of 512 x 512 numbers are 2 MiB a layer, 16 as floats; both layers and the rows have room, half of the floats has none."""
    fed = save(tmp_path / "model.onnx", [experts(4, 32, sizes=(200, 16, 512, 512), gated=False)])
    device = {"name": "small", "peak_flops_per_s": {"f32": 1e11}, "memory_bytes_per_s": 1e10, "memory_bytes": 7 << 20, "communicates_while_idle": True}
    cluster = {"kind": "autopar.cluster", "version": 1, "device_types": [device],
               "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "small"}], "levels": [{"name": "inside", "latency_us": 5, "bytes_per_s": 1e10}]}
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", cluster=str(tmp_path / "cluster.json"))
    with autopar.Session(compiled) as session:
        actual = session.run(fed)
    for name, expected in reference(tmp_path / "model.onnx", fed).items():
        assert_close(actual[name], expected, name)
