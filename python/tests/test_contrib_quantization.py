# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft that onnxruntime's quantizers and its optimizer write, against onnxruntime, on two ranks under
a random plan."""

import pathlib
import re
import sys
from typing import Dict, List, Optional, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from contrib_cases import (DRAW, FLOAT, HALF, I8, U8, VNNI, Case, Given, Reference, assert_close, check, draw_anew, factors, floats, reference,
                           rounded_before, run, save, scales, unrounded, whole)
from onnx import helper
from onnxruntime import quantization
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model

import autopar
from autopar import models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from checks import block_weights  # noqa: E402
from checks import reference as zoo  # noqa: E402

draw_anew(3)


def blocked(n: int, k: int, block: int, bits: int, kind: type = FLOAT, points: str = "", rank: int = 2, bias: bool = False,
            groups: bool = False, level: int = 0) -> Case:
    """A product with a weight in blocks; `points`: none, packed or floats."""
    blocks = -(-k // block)
    zero = {"": None, "packed": whole(U8, n, (blocks * bits + 7) // 8),
            "floats": DRAW.integers(0, 2**bits, (n, blocks)).astype(kind)}[points]
    group = DRAW.integers(0, blocks, k).astype(np.int32) if groups else None
    inputs = [Given(floats(*[3, 2, 4][3 - rank:], k, kind=kind)), whole(U8, n, blocks, block * bits // 8), scales(n, blocks, kind=kind),
              zero, group, floats(n, kind=kind) if bias else None]
    return Case("MatMulNBits", inputs, {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": level})


def rounded(n: int, k: int, block: int, bits: int, rows: int, points: str = "packed", **options: object) -> Case:
    """A product of `rows` rows that onnxruntime rounds to 8 bits in blocks: by half a percent of the largest result."""
    case = blocked(n, k, block, bits, points=points, level=4, **options)  # type: ignore[arg-type]
    return case._replace(inputs=[Given(floats(rows, k)), *case.inputs[1:]])


def bitsandbytes(n: int, k: int, block: int, kind: int) -> Case:
    return Case("MatMulBnb4", [Given(floats(3, k)), whole(U8, (n * k + 1) // 2), scales(-(-n * k // block))],
                {"K": k, "N": n, "block_size": block, "quant_type": kind})


def lookup(shape: Sequence[int], along: int, block: int, bits: int, points: bool, kind: type = FLOAT, places: Sequence[int] = (2, 3)) -> Case:
    """Rows of a table of bytes, `shape` of its numbers; some positions count from the end."""
    data = whole(U8, *shape[:-1], shape[-1] * bits // 8)
    blocks = list(shape)
    blocks[along] = -(-shape[along] // block)
    zero = whole(U8, *blocks[:-1], -(-blocks[-1] * bits // 8)) if points else None
    inputs = [data, Given(DRAW.integers(-shape[0], shape[0], places)), scales(*blocks, kind=kind), zero]
    return Case("GatherBlockQuantized", inputs, {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": along})


def narrow_lookup(shape: Sequence[int], axis: int, along: int, block: int) -> Case:
    """The same of a table of INT4."""
    blocks = list(shape)
    blocks[along] = -(-shape[along] // block)
    int4 = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4)
    inputs = [DRAW.integers(-8, 8, shape).astype(int4), Given(DRAW.integers(0, shape[axis], 5).astype(np.int32)), scales(*blocks),
              DRAW.integers(-8, 8, blocks).astype(int4)]
    return Case("GatherBlockQuantized", inputs, {"block_size": block, "gather_axis": axis, "quantize_axis": along})


WEIGHTS = [
    bitsandbytes(16, 64, 16, 0), bitsandbytes(16, 64, 32, 1), bitsandbytes(6, 35, 16, 1),
    lookup((40, 64), 1, 16, 4, True), lookup((40, 64), 1, 32, 8, False), lookup((40, 80), -1, 32, 4, True, places=(4,)),
    lookup((40, 64), 1, 16, 4, False, kind=HALF), lookup((40, 64), 1, 32, 2, True), lookup((40, 3, 32), 2, 16, 8, True),
    narrow_lookup((40, 64), 0, 1, 16), narrow_lookup((32, 40), 1, 0, 16),
    blocked(32, 64, 16, 4), blocked(32, 64, 16, 4, points="packed"), blocked(30, 96, 32, 4, points="packed", bias=True),
    blocked(32, 64, 32, 8, points="packed"), blocked(32, 128, 32, 2, points="packed"), blocked(16, 64, 32, 2), blocked(16, 64, 32, 8),
    blocked(24, 70, 32, 4, points="packed"), blocked(24, 70, 32, 4, rank=3, points="floats"), blocked(24, 70, 16, 8),
    blocked(32, 64, 16, 4, kind=HALF, points="packed", bias=True), blocked(128, 256, 32, 4, points="packed"),
    blocked(32, 64, 16, 4, groups=True), blocked(32, 64, 16, 4, points="floats", groups=True),
]



def q(kind: type, *shape: int, fed: bool = True, scale: float = 0.0513) -> List[object]:
    """A quantized tensor, its scale (no round number: ties between steps are rounded either way) and its zero point."""
    array = whole(kind, *shape)
    return [Given(array) if fed else array, FLOAT(scale), kind(np.iinfo(kind).min + 100 + len(shape))]


def step(kind: type, scale: float, zero: int = 0) -> List[object]:
    """Scale and zero point of a result."""
    return [FLOAT(scale), kind(np.iinfo(kind).min + 120 + zero)]


def weight(kind: type, *shape: int, channels: int = 0) -> List[object]:
    """A quantized weight, with a scale and a zero point per channel where there are `channels`."""
    zero = whole(kind, channels) // 8 if kind is U8 else np.zeros(channels, kind)
    return [factors(kind, *shape), *((scales(channels), zero) if channels else (FLOAT(0.02), kind(3)))]


LINEAR = [
    Case("QLinearAdd", [*q(U8, 4, 6), *q(U8, 4, 6, scale=0.11), *step(U8, 0.13)]),
    Case("QLinearAdd", [*q(I8, 2, 4, 6), *q(I8, 6, fed=False), *step(I8, 0.08)]),
    Case("QLinearAdd", [*q(U8, 2, 4, 1), *q(U8, 4, 6), *step(U8, 0.08)]),
    Case("QLinearAdd", [*q(U8, 16, 32, scale=1 / 255), *q(U8, 16, 32, scale=1 / 255), *step(U8, 2 / 255)]),  # half of the results are ties
    Case("QLinearMul", [*q(U8, 4, 6), *q(U8, 4, 6, scale=0.11), *step(U8, 0.3)]),
    Case("QLinearMul", [*q(I8, 2, 4, 6), *q(I8, 4, 1, fed=False), *step(I8, 0.1)]),
    Case("QLinearSigmoid", [*q(U8, 32, 16), *step(U8, 1 / 256)]), Case("QLinearSigmoid", [*q(I8, 32, 16), *step(I8, 1 / 256)]),
    Case("QLinearLeakyRelu", [*q(U8, 32, 16), *step(U8, 0.07)], {"alpha": 0.1}), Case("QLinearLeakyRelu", [*q(I8, 32, 16), *step(I8, 0.07)]),
    Case("QLinearWhere", [Given(whole(U8, 4, 6) > 99), *q(U8, 4, 6), *q(U8, 6, scale=0.1), *step(U8, 0.09)]),
    Case("QLinearConcat", [*step(U8, 0.09), *q(U8, 4, 6), *q(U8, 4, 2, scale=0.1), *q(U8, 4, 8, fed=False)], {"axis": 1}),
    Case("QLinearConcat", [*step(I8, 0.05), *q(I8, 2, 6), *q(I8, 4, 6, scale=0.1)], {"axis": -2}),
    Case("QLinearSoftmax", [*q(U8, 4, 30), FLOAT(1 / 256), U8(0)], {"opset": 13}),
    Case("QLinearSoftmax", [*q(U8, 4, 30, scale=9.0), FLOAT(1 / 255), U8(0)], {"opset": 13}),
    Case("QLinearSoftmax", [*q(I8, 4, 6, 30), FLOAT(1 / 256), I8(-128)], {"opset": 13, "axis": -1}),
    Case("QLinearSoftmax", [*q(U8, 4, 6, 5), FLOAT(1 / 256), U8(0)], {"opset": 12, "axis": 1}),
    Case("QLinearSoftmax", [*q(U8, 4, 6, 5), FLOAT(1 / 256), U8(0)], {"opset": 13, "axis": 1}),
]
WINDOWS = [
    Case("QLinearGlobalAveragePool", [*q(U8, 2, 8, 7, 5), *step(U8, 0.0231)]), Case("QLinearGlobalAveragePool", [*q(I8, 2, 8, 9), *step(I8, 0.0231)]),
    Case("QLinearGlobalAveragePool", [*q(U8, 2, 7, 5, 8), *step(U8, 0.0231)], {"channels_last": 1}),
    Case("QLinearAveragePool", [*q(U8, 2, 4, 9, 9), *step(U8, 0.0231)], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    Case("QLinearAveragePool", [*q(I8, 2, 4, 9, 9), *step(I8, 0.0231)], {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}),
    Case("QLinearAveragePool", [*q(U8, 2, 9, 9, 4), *step(U8, 0.0231)], {"kernel_shape": [2, 2], "channels_last": 1, "ceil_mode": 1, "strides": [2, 2]}),
    Case("NhwcMaxPool", [Given(whole(U8, 2, 9, 9, 8))], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    Case("NhwcMaxPool", [Given(whole(I8, 2, 9, 9, 8))], {"kernel_shape": [2, 2]}),
    Case("QLinearConv", [*q(U8, 2, 9, 9, 4), *weight(I8, 8, 4, 3, 3, channels=8), *step(U8, 2.0), DRAW.integers(-9999, 9999, 8).astype(np.int32)],
         {"channels_last": 1, "pads": [1] * 4}),
    Case("QLinearConv", [*q(U8, 2, 9, 9, 4), *weight(I8, 8, 2, 3, 3), *step(U8, 1.0)], {"channels_last": 1, "group": 2, "strides": [2, 2]}),
    Case("QLinearConv", [*q(I8, 2, 4, 9, 9), *weight(I8, 8, 4, 3, 3, channels=8), *step(I8, 2.0)]),
]
LINES = [
    Case("QuantizeLinear", [Given(floats(4, 6)), FLOAT(0.001), np.uint16(30000)]), Case("QuantizeLinear", [Given(floats(4, 6)), FLOAT(0.01)]),
    Case("QuantizeLinear", [Given(floats(4, 6)), scales(6), whole(np.int16, 6)], {"axis": 1}),
    Case("QuantizeLinear", [Given(floats(4, 6, kind=HALF)), HALF(0.01), I8(3)]),
    Case("DequantizeLinear", [Given(whole(np.uint16, 4, 6)), FLOAT(0.001), np.uint16(30000)]),
    Case("DequantizeLinear", [Given(whole(np.int16, 4, 6)), scales(4), whole(np.int16, 4)], {"axis": 0}),
    Case("DequantizeLinear", [Given(whole(I8, 4, 6)), HALF(0.01)]), Case("DequantizeLinear", [whole(I8, 40, 60), scales(60), whole(I8, 60)], {"axis": -1}),
]


def to_float(kind: type, b: type, channels: int, bias: bool) -> Case:
    x, scale, zero = q(kind, 3, 5, 32)
    w, w_scale, w_zero = weight(b, 32, 16, channels=channels)
    return Case("MatMulIntegerToFloat", [x, w, scale, w_scale, zero, w_zero, floats(16) if bias else None])


PRODUCTS = [
    to_float(U8, U8, 0, False), to_float(U8, I8, 16, True), to_float(I8, I8, 0, True),
    Case("DynamicQuantizeMatMul", [Given(floats(3, 5, 32)), *weight(I8, 32, 16, channels=16), floats(16)]),
    Case("DynamicQuantizeMatMul", [Given(floats(5, 32)), *weight(U8, 32, 16)]),
    Case("DynamicQuantizeMatMul", [Given(floats(5, 32)), factors(I8, 32, 16), FLOAT(0.02), None, floats(16)]),
    Case("MatMulInteger16", [Given(whole(np.int16, 5, 16) // 16), whole(np.int16, 16, 8) // 16]),
    Case("QGemm", [*q(U8, 5, 32), *weight(I8, 32, 16, channels=16), DRAW.integers(-9999, 9999, 16).astype(np.int32)]),
    Case("QGemm", [*q(U8, 5, 32), *weight(I8, 16, 32, channels=16), None, *step(U8, 5.0)], {"transB": 1, "alpha": 1.5}),
    Case("QGemm", [*q(I8, 32, 5), *weight(I8, 32, 16), DRAW.integers(-9999, 9999, (5, 16)).astype(np.int32), *step(I8, 1.0)], {"transA": 1}),
]


def fused(a: Sequence[int], b: Sequence[int], kind: type = FLOAT, **attributes: object) -> Case:
    return Case("FusedMatMul", [Given(floats(*a, kind=kind)), floats(*b, kind=kind)], attributes)


X, W, IMAGE, FILTER = floats(5, 32), floats(32, 16), floats(2, 9, 9, 4), floats(8, 4, 3, 3)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return (x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))).astype(FLOAT)


def convolved(bias: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """IMAGE, its channels behind, under FILTER without pads."""
    windows = np.lib.stride_tricks.sliding_window_view(IMAGE, (3, 3), (1, 2))
    return (np.einsum("nhwcij,ocij->nhwo", windows, FILTER) + bias + residual).astype(FLOAT)


BIAS, RESIDUAL = floats(8), floats(2, 7, 7, 8)
FUSED = [
    fused([5, 32], [32, 16], alpha=0.25), fused([3, 5, 32], [16, 32], transB=1), fused([3, 4, 5, 8], [3, 4, 5, 6], transA=1),
    fused([3, 4, 5, 8], [3, 4, 6, 8], transB=1, alpha=0.5), fused([5, 3, 4, 8], [6, 3, 4, 8], transBatchA=1, transBatchB=1, transB=1),
    fused([5, 3, 8], [3, 8, 6], transBatchA=1),
    fused([8, 3, 4, 5], [3, 4, 8, 6], transBatchA=1, transA=1), fused([8], [8, 6]),
    Case("TransposeMatMul", [Given(floats(3, 8, 5)), floats(3, 6, 8)], {"transA": 1, "transB": 1, "alpha": 0.5}),
    Case("FusedGemm", [Given(floats(5, 32)), floats(16, 32), floats(16)], {"transB": 1, "activation": "Relu"}),
    Case("FusedGemm", [Given(floats(5, 32)), floats(32, 16), floats(5, 1)], {"activation": "LeakyRelu", "activation_alpha": 0.2, "alpha": 0.5, "beta": 2.0}),
    Case("FusedGemm", [Given(floats(5, 32)), floats(32, 16)], {"activation": "Tanh"}),
    Case("FusedConv", [Given(floats(2, 4, 9, 9)), floats(8, 4, 3, 3), floats(8)], {"activation": "Relu", "pads": [1] * 4}),
    Case("FusedConv", [Given(floats(2, 4, 9, 9)), floats(8, 4, 3, 3), floats(8)], {"activation": "LeakyRelu", "activation_params": [0.3]}),
    Case("FusedConv", [Given(floats(2, 4, 9, 9)), floats(8, 4, 3, 3)], {"activation": "Clip", "activation_params": [-1.0, 6.0]}),
    Case("FusedConv", [Given(floats(2, 4, 9, 9)), floats(8, 2, 3, 3), None], {"activation": "HardSigmoid", "activation_params": [0.3, 0.4], "group": 2}),
    Case("FusedConv", [Given(floats(2, 4, 9, 9)), floats(8, 4, 3, 3), floats(8), Given(floats(2, 8, 7, 7))], {"activation": "Relu"}),
    Case("FusedMatMulActivation", [Given(X), W], {"activation": "Relu", "alpha": 0.5}, expected=np.maximum(0.5 * (X @ W), 0)),
    Case("GemmFastGelu", [Given(X), W, W[0]], expected=gelu_tanh(X @ W + W[0])),
    Case("NhwcConv", [Given(IMAGE), FILTER, BIAS], expected=convolved(BIAS, 0 * RESIDUAL)),
    Case("NhwcFusedConv", [Given(IMAGE), FILTER, BIAS, Given(RESIDUAL)], {"activation": "Relu"}, expected=np.maximum(convolved(BIAS, RESIDUAL), 0)),
]


def lstm(kind: type, directions: int, per_row: bool, **attributes: object) -> Case:
    steps, batch, size, hidden = 4, 2, 12, 8
    shape = [directions, 4 * hidden] if per_row else [directions]
    zero = np.zeros(shape, kind) if kind is I8 else np.full(shape, 120, kind)
    inputs = [Given(floats(steps, batch, size)), whole(kind, directions, size, 4 * hidden), whole(kind, directions, hidden, 4 * hidden),
              floats(directions, 8 * hidden), None, floats(directions, batch, hidden), floats(directions, batch, hidden),
              floats(directions, 3 * hidden) if per_row else None, scales(*shape) / 20, zero, scales(*shape) / 20, zero]
    direction = "bidirectional" if directions == 2 else "reverse" if per_row else "forward"
    return Case("DynamicQuantizeLSTM", inputs, {"hidden_size": hidden, "direction": direction, **attributes}, 3)


def attention(kind: type, channels: int, mask: Optional[np.ndarray] = None, past: int = 0, **attributes: object) -> Case:
    batch, tokens, hidden, heads = 2, 5, 16, 4
    x, scale, zero = q(U8, batch, tokens, hidden)
    w, w_scale, w_zero = weight(kind, hidden, 3 * hidden, channels=channels)
    kept = Given(floats(2, batch, heads, past, hidden // heads)) if past else None
    inputs = [x, w, floats(3 * hidden), scale, w_scale * FLOAT(0.3), mask, zero, w_zero, kept]
    return Case("QAttention", inputs, {"num_heads": heads, **attributes}, 2 if past else 1)


def embedding(segments: bool) -> Case:
    ids = [Given(DRAW.integers(0, rows, (2, 6)).astype(np.int32)) for rows in (40, 2)]
    tables = [whole(U8, rows, 32) for rows in (40, 8, 2)]
    given = [ids[0], ids[1] if segments else None, *tables[:2], tables[2] if segments else None, whole(U8, 32), whole(U8, 32),
             Given(np.tile(np.arange(6) < 4, (2, 1)).astype(np.int32))]
    per_table = [scale if segments or i != 2 else None for i, scale in enumerate(scales(5))]
    zeros = [U8(100 + i) if segments or i != 2 else None for i in range(5)]
    return Case("QEmbedLayerNormalization", [*given, *per_table, *zeros], {"epsilon": 1e-5}, 2)


ATTENTIONS = [
    attention(I8, 0), attention(I8, 48, np.array([3, 5], np.int32)), attention(U8, 0, unidirectional=1), attention(I8, 48, past=3, unidirectional=1),
    attention(I8, 0, np.array([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0]], np.int32)), embedding(True), embedding(False)]
LSTMS = [lstm(I8, 1, False), lstm(U8, 2, False), lstm(I8, 1, True, clip=1.5), lstm(I8, 2, True, input_forget=0)]
COMPLEX, OTHERS = floats(3, 4, 2), floats(4, 2)
AS_COMPLEX = [np.ascontiguousarray(array).view(np.complex64)[..., 0] for array in (COMPLEX, OTHERS)]
WIDE = whole(I8, 3, 4, 5)
FINITE, BROKEN = floats(3, 4), np.where(floats(3, 4) > 1e9, FLOAT(0), FLOAT(np.inf))


def parts(values: np.ndarray) -> np.ndarray:
    return np.stack([values.real, values.imag], -1)


def crop(height: int, width: int, **attributes: object) -> Case:
    """Regions within the image and beyond, one of them mirrored."""
    regions = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [0.8, 0.3, 0.1, 0.6], [-0.4, 0.2, 0.6, 1.3]], FLOAT)
    return Case("CropAndResize", [Given(floats(2, 3, 7, 6)), Given(regions), Given(np.array([0, 1, 1, 0], np.int32)), np.array([height, width], np.int32)], attributes)


SMALL = [
    Case("Trilu", [Given(floats(2, 5, 6))], {"upper": 0}), Case("Trilu", [Given(floats(5, 6)), np.int64(1)]),
    Case("ExpandDims", [Given(floats(5, 6)), np.int32(1)]), Case("ExpandDims", [Given(floats(5, 6)), np.int32(-1)]),
    Case("Range", [FLOAT(1), FLOAT(6), FLOAT(0.5)]), Case("Range", [np.int32(1), np.int32(6)]), Case("Range", [np.int64(1), np.int64(-6), np.int64(-2)]),
    Case("Unique", [np.array([2, 1, 1, 3, 4, 3], FLOAT)], outputs=3), Case("GatherND", [Given(floats(3, 4, 5)), DRAW.integers(0, 3, (6, 2))]),
    Case("Pad", [Given(floats(3, 4)), np.array([0, 1, 2, 0]), FLOAT(2)]), Case("Pad", [Given(floats(3, 4)), np.array([1, 1, 2, 0])], {"mode": "reflect"}),
    Case("GridSample", [Given(floats(2, 3, 7, 6)), Given(DRAW.uniform(-1.2, 1.2, (2, 4, 5, 2)).astype(FLOAT))], {"align_corners": 1}),
    Case("CDist", [Given(floats(5, 8)), floats(7, 8)], {"metric": "euclidean"}), Case("CDist", [Given(floats(5, 8)), floats(7, 8)], {"metric": "sqeuclidean"}),
    *(Case("Inverse", [Given(floats(3, 2, n, n) + 3 * np.eye(n, dtype=FLOAT))]) for n in (1, 2, 3, 4)), Case("Inverse", [Given(floats(5, 5) + 3 * np.eye(5, dtype=FLOAT))]),
    *(crop(*size, **attributes) for size in ((5, 4), (1, 6), (3, 1)) for attributes in ({}, {"mode": "nearest", "extrapolation_value": -2.0})),
    Case("UnfoldTensor", [Given(floats(3, 10, 4))], {"dim": 1, "size": 3, "step": 2}), Case("UnfoldTensor", [Given(floats(3, 10))], {"size": 4}),
    Case("ComplexMul", [Given(COMPLEX), OTHERS], expected=parts(AS_COMPLEX[0] * AS_COMPLEX[1])),
    Case("ComplexMulConj", [Given(COMPLEX), OTHERS], expected=parts(AS_COMPLEX[0] * AS_COMPLEX[1].conj())),
    Case("BiasDropout", [Given(X), X[0], Given(X * 2), FLOAT(0.5)], expected=X * 3 + X[0]), Case("BitmaskDropout", [Given(X), FLOAT(0.5)], expected=X),
    Case("IsAllFinite", [Given(FINITE), Given(X)], expected=np.array(True)), Case("IsAllFinite", [Given(FINITE), Given(BROKEN)], expected=np.array(False)),
    Case("IsAllFinite", [Given(FINITE), Given(BROKEN)], {"isnan_only": 1}, expected=np.array(True)),
    Case("MulInteger", [Given(WIDE), I8(3), WIDE[0], I8(-2)], expected=(WIDE.astype(np.int32) - 3) * (WIDE[0].astype(np.int32) + 2)),
    Case("ReduceSumInteger", [Given(WIDE)], {"axes": [1], "keepdims": 0}, expected=WIDE.sum(1, dtype=np.int32)),
    Case("QLinearReduceMean", [Given(WIDE), FLOAT(0.05), I8(3), FLOAT(0.023), I8(-5)], {"axes": [-1], "keepdims": 1},
         expected=np.clip(np.rint((WIDE.astype(float) - 3).mean(-1, keepdims=True) * 0.05 / 0.023) - 5, -128, 127).astype(I8)),
]


#: Few rows, whose kernels multiply bytes where blocks fill vectors and weights are many; many rows, whose kernel wants columns in
#: 16s; what is not rounded.
ROUNDED = [
    rounded(256, 512, 32, 4, 1), rounded(256, 512, 32, 4, 4, bias=True), rounded(96, 1024, 32, 4, 2, points=""), rounded(70, 896, 32, 4, 3),
    rounded(64, 2048, 128, 4, 1), rounded(64, 512, 16, 4, 1), rounded(64, 1024, 64, 4, 2), rounded(96, 512, 32, 8, 1), rounded(96, 768, 32, 8, 4, points=""),
    rounded(96, 1024, 32, 2, 1), rounded(32, 64, 32, 4, 1), rounded(96, 512, 32, 4, 5), rounded(96, 512, 32, 4, 40), rounded(96, 512, 32, 8, 7),
    rounded(70, 896, 32, 4, 6), rounded(48, 1056, 32, 4, 7, bias=True), rounded(64, 1024, 64, 4, 12, points=""), rounded(64, 2048, 128, 8, 13, points=""),
    rounded(64, 512, 16, 4, 6), rounded(96, 1024, 32, 2, 14), rounded(64, 512, 32, 2, 5, points=""), rounded(32, 1024, 256, 4, 5),
    rounded(96, 512, 32, 8, 2, points=""),
]

#: onnxruntime's sums of bytes are exact with VNNI; without, what is rounded is computed by its floats.
REFERENCES = [rounded_before, *([reference] if VNNI else [])]


@pytest.mark.parametrize("expect", REFERENCES)
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_rounds_as_onnxruntime(tmp_path: pathlib.Path, target: str, expect: Reference) -> None:
    check(tmp_path, ROUNDED, "--target-cpu", target, expect=expect)


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_rounds_nothing_where_onnxruntime_does_not(tmp_path: pathlib.Path, target: str) -> None:
    cases = [rounded(96, 512, 32, 4, 2, points="floats"), rounded(96, 512, 32, 4, 2, points="", groups=True)]
    check(tmp_path, cases, "--target-cpu", target, expect=unrounded)


@pytest.mark.parametrize("axes", ["", "x, -, -", "-, x, -"])
@pytest.mark.parametrize("rows", [1, 4, 9])
def test_rounds_on_every_plan(tmp_path: pathlib.Path, axes: str, rows: int) -> None:
    """Ranks have rows of the weight or blocks of it, and whole blocks of what is rounded."""
    fed = save(tmp_path / "model.onnx", [rounded(128, 1024, 32, 4, rows)])
    options = ["--constrain", f"mesh=x=2, MatMulNBits_0_1: [{axes}]"] if axes else []
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", ranks=2 if axes else 1, options=options)
    assert (b"+vnni\0" in pathlib.Path(compiled).read_bytes()[:256]) == VNNI
    with autopar.Session(compiled) as session:
        actual = session.run(fed)
    for expect in REFERENCES:
        for name, expected in expect(tmp_path / "model.onnx", fed).items():
            assert_close(actual[name], expected, name)


@pytest.mark.parametrize("name", ["SMALL", "ATTENTIONS", "LSTMS", "WEIGHTS", "LINEAR", "WINDOWS", "LINES", "PRODUCTS", "FUSED"])
def test_as_onnxruntime(tmp_path: pathlib.Path, name: str) -> None:
    check(tmp_path, globals()[name])


@pytest.mark.parametrize("axes, part", [("", "512x32x16"), ("x, -, -", "256x32x16"), ("-, x, -", "512x16x16")])
def test_weights_stay_packed(tmp_path: pathlib.Path, axes: str, part: str) -> None:
    """The bytes are the parameter, of which each rank has rows or blocks; one kernel makes floats of them, another one of zero points."""
    fed = save(tmp_path / "model.onnx", [blocked(512, 1024, 32, 4, points="packed")])
    options = ["--constrain", f"mesh=x=2, MatMulNBits_0_1: [{axes}]"] if axes else []
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "c.bin", ranks=2 if axes else 1,
                               options=[*options, "--emit-mlir", str(tmp_path / "phases")])
    lowered = next((tmp_path / "phases").glob("*-lower.mlir")).read_text()
    assert lowered.count("exec.launch") == 2
    assert re.search(rf"exec.buffer \"MatMulNBits_0_1\" .* : tensor<{part}xui8>", lowered)
    with autopar.Session(compiled) as session:
        actual = session.run(fed)
    for name, expected in reference(tmp_path / "model.onnx", fed).items():
        assert_close(actual[name], expected, name)


#: Small models of the zoo.
TEXT = {"layers": 1, "hidden": 64, "heads": 4, "vocab": 500}
ZOO = {"gpt2": ("gpt2-124m", TEXT), "llama": ("llama3-405b", {**TEXT, "heads": 8, "kv_heads": 2}), "bert": ("bert-base", TEXT),
       "resnet": ("resnet50", {"blocks": "1,1,1,1", "channels": 8, "image": 64, "classes": 10, "folded_bn": True})}


class Calibration(quantization.CalibrationDataReader):
    """One batch."""

    def __init__(self, fed: Dict[str, np.ndarray]) -> None:
        self.batches = iter([fed])

    def get_next(self) -> Optional[Dict[str, np.ndarray]]:
        return next(self.batches, None)


def optimize(source: pathlib.Path, target: pathlib.Path) -> None:
    """As onnxruntime saves a model at the level that does not depend on the processor."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def quantized(how: str, source: pathlib.Path, fed: Dict[str, np.ndarray]) -> pathlib.Path:
    """The model as one of onnxruntime's tools makes it; "a,b" is b of what a makes."""
    for name in how.split(","):
        target = source.with_name(f"{source.stem}-{name}.onnx")
        if name == "extended":
            optimize(source, target)
        elif name == "fused":
            options = FusionOptions("bert")
            options.enable_shape_inference = False  # which takes another package
            made = optimize_model(str(source), "bert", TEXT["heads"], TEXT["hidden"], options, opt_level=0)
            made.save_model_to_file(str(target))
        elif name.startswith("dynamic"):
            kind = quantization.QuantType.QUInt8 if name.endswith("u8") else quantization.QuantType.QInt8
            quantization.quantize_dynamic(str(source), str(target), weight_type=kind, per_channel=name.endswith("u8"),
                                          extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
        elif name.startswith("blocks"):
            onnx.save(block_weights.quantize(onnx.load(source), int(name[6]), name.endswith("symmetric")), target)
        else:
            written = quantization.QuantFormat.QOperator if name.startswith("operators") else quantization.QuantFormat.QDQ
            kind = quantization.QuantType.QInt8 if name.endswith("i8") else quantization.QuantType.QUInt8
            quantization.quantize_static(str(source), str(target), Calibration(fed), quant_format=written, activation_type=kind,
                                         per_channel=name.endswith("i8"), reduce_range=name.endswith("i8") and not VNNI)
        source = target
    return source


WAYS = {"gpt2": ["dynamic", "operators", "qdq,extended"],
        "llama": ["dynamic-u8,extended", "operators-i8", "blocks4", "blocks4-symmetric", "blocks8", "qdq,extended"],
        "bert": ["fused,dynamic", "operators", "qdq,extended", "dynamic,extended"], "resnet": ["operators", "qdq,extended", "extended"]}


@pytest.mark.parametrize("model, how", [(model, how) for model, ways in WAYS.items() for how in ways])
def test_model_of_the_zoo(tmp_path: pathlib.Path, model: str, how: str) -> None:
    """Where all quantized numbers are the same, results differ by the rounding of floats alone."""
    name, options = ZOO[model]
    models.save(name, tmp_path / "model.onnx", **options)
    bind = {"batch": 2} if model == "resnet" else {"batch": 2, "seq": 8}
    fed = zoo.make_inputs(tmp_path / "model.onnx", bind)
    path = quantized(how, tmp_path / "model.onnx", fed)
    actual = run(path, fed, 2, **bind)
    for output, expected in reference(path, fed).items():
        assert_close(actual[output], expected, output)
