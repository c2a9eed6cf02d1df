# SPDX-License-Identifier: Apache-2.0
"""Layers that several families share, in the node sequences torch.onnx writes for them."""

import math

from onnx import TensorProto

from .graph import Extent, GraphBuilder
from .weights import BIAS, NORM_SCALE, Recipe, fan_in, normal, uniform

#: Quantized weights that share a scale.
BLOCK = 32


def embedding(g: GraphBuilder, scope: str, ids: str, rows: int, hidden: int, std: float = 0.02) -> str:
    """A lookup table [rows, hidden] read by a Gather."""
    with g.scope(scope):
        return g.op("Gather", g.param("weight", (rows, hidden), normal(std)), ids)


def linear(
    g: GraphBuilder,
    scope: str,
    x: str,
    inputs: int,
    outputs: int,
    bias: bool = True,
    recipe: Recipe = None,
    params: str = None,
) -> str:
    """torch.nn.Linear on a tensor of rank 3 or more: MatMul with the weight stored as [inputs, outputs], then Add.

    recipe: defaults to fan_in(inputs). params: path of the parameters where it differs from `scope`."""
    with g.scope(scope, params):
        recipe = recipe or fan_in(inputs)
        y = quantized_product(g, x, inputs, outputs, recipe) if g.weight_bits else g.op("MatMul", x, g.param("weight", (inputs, outputs), recipe))
        return g.op("Add", g.param("bias", (outputs,), BIAS), y) if bias else y


def quantized_product(g: GraphBuilder, x: str, inputs: int, outputs: int, recipe: Recipe) -> str:
    """onnxruntime's MatMulNBits, symmetric: numbers of g.weight_bits bits, a scale for BLOCK of them along the inputs.
    Weights vary as much as those of the recipe."""
    bits, blocks = g.weight_bits, -(-inputs // BLOCK)
    per_byte = 8 // bits
    numbers = g.param("weight.quantized", (outputs, blocks, BLOCK // per_byte), uniform(0, 256), dtype="uint8", numbers=per_byte)
    scale = recipe.std * math.sqrt(12.0) / 2**bits
    scales = g.param("weight.scales", (outputs, blocks), normal(scale / 10, mean=scale), trained=False)
    return g.op("MatMulNBits", x, numbers, scales, domain="com.microsoft", K=inputs, N=outputs, bits=bits, block_size=BLOCK)


def linear_rows(g: GraphBuilder, scope: str, x: str, inputs: int, outputs: int) -> str:
    """torch.nn.Linear on a matrix: Gemm with the weight stored as [outputs, inputs]."""
    with g.scope(scope):
        weight = g.param("weight", (outputs, inputs), fan_in(inputs))
        return g.op("Gemm", x, weight, g.param("bias", (outputs,), BIAS), alpha=1.0, beta=1.0, transB=1)


def tied_logits(g: GraphBuilder, scope: str, x: str, table: str) -> str:
    """The output matrix that is the token embedding `table` [vocab, hidden] transposed."""
    with g.scope(scope):
        return g.op("MatMul", x, g.transpose(table, (1, 0)))


def layer_norm(g: GraphBuilder, scope: str, x: str, hidden: int, epsilon: float = 1e-5) -> str:
    """Layer normalization over the last axis: one node from operator set 17, decomposed before."""
    with g.scope(scope):
        scale = g.param("weight", (hidden,), NORM_SCALE)
        bias = g.param("bias", (hidden,), BIAS)
        if g.opset >= 17:
            return g.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)
        centered = g.op("Sub", x, g.reduce_mean(x, -1))
        variance = g.reduce_mean(g.op("Pow", centered, g.scalar(2.0)), -1)
        deviation = g.op("Sqrt", g.op("Add", variance, g.scalar(epsilon)))
        return g.op("Add", g.op("Mul", g.op("Div", centered, deviation), scale), bias)


def rms_norm(g: GraphBuilder, scope: str, x: str, hidden: int, epsilon: float) -> str:
    """Root mean square normalization over the last axis: one node from operator set 23, decomposed before; in half
    precision the decomposed form computes in float32, as the models do."""
    with g.scope(scope):
        scale = g.param("weight", (hidden,), NORM_SCALE)
        if g.opset >= 23:
            return g.op("RMSNormalization", x, scale, axis=-1, epsilon=epsilon)
        half = g.dtype != "float32"
        wide = g.cast(x, TensorProto.FLOAT) if half else x
        mean = g.reduce_mean(g.op("Pow", wide, g.float32(2.0)), -1)
        deviation = g.op("Sqrt", g.op("Add", mean, g.float32(epsilon)))
        normed = g.op("Mul", wide, g.op("Div", g.float32(1.0), deviation))
        return g.op("Mul", scale, g.cast(normed, g.onnx_dtype) if half else normed)


def gelu_erf(g: GraphBuilder, scope: str, x: str) -> str:
    """GELU in its exact form, 0.5 x (1 + erf(x / sqrt(2))): one node from operator set 20, decomposed before."""
    with g.scope(scope):
        if g.opset >= 20:
            return g.op("Gelu", x)
        gate = g.op("Add", g.op("Erf", g.op("Div", x, g.scalar(math.sqrt(2.0)))), g.scalar(1.0))
        return g.op("Mul", g.op("Mul", x, gate), g.scalar(0.5))


def silu(g: GraphBuilder, scope: str, x: str) -> str:
    """x sigmoid(x), as two nodes."""
    with g.scope(scope):
        return g.op("Mul", x, g.op("Sigmoid", x))


def padding_bias(g: GraphBuilder, mask: str) -> str:
    """Attention mask [batch, seq] of 0 and 1 to the additive form [batch, 1, 1, seq]: 0 where kept, else lowest."""
    wide = g.cast(g.unsqueeze(g.unsqueeze(mask, 1), 2), g.onnx_dtype)
    return g.op("Mul", g.op("Sub", g.scalar(1.0), wide), g.lowest())


def causal_bias(g: GraphBuilder, seq: Extent) -> str:
    """The additive causal mask [seq, seq], computed from the sequence length: key <= query keeps a score."""
    places = g.arange(seq)
    keep = g.op("LessOrEqual", g.unsqueeze(places, 0), g.unsqueeze(places, 1))
    return g.op("Where", keep, g.scalar(0.0), g.lowest())


def window_bias(g: GraphBuilder, seq: Extent, window: int) -> str:
    """As causal_bias, of the last `window` keys up to the query's own."""
    places = g.arange(seq)
    key, query = g.unsqueeze(places, 0), g.unsqueeze(places, 1)
    near = g.op("Greater", key, g.op("Sub", query, g.int_scalar(window)))
    keep = g.op("And", near, g.op("LessOrEqual", key, query))
    return g.op("Where", keep, g.scalar(0.0), g.lowest())


def gelu_tanh(g: GraphBuilder, scope: str, x: str) -> str:
    """GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as gpt2 writes it out."""
    with g.scope(scope):
        cubic = g.op("Mul", g.op("Pow", x, g.scalar(3.0)), g.scalar(0.044715))
        inner = g.op("Mul", g.op("Add", x, cubic), g.scalar(math.sqrt(2.0 / math.pi)))
        gate = g.op("Add", g.op("Tanh", inner), g.scalar(1.0))
        return g.op("Mul", g.op("Mul", x, g.scalar(0.5)), gate)


def split_heads(g: GraphBuilder, x: str, batch, seq, heads: int, head_size: int, perm=(0, 2, 1, 3)) -> str:
    """[batch, seq, heads * head_size] to [batch, heads, seq, head_size], or another order of the four by `perm`."""
    return g.transpose(g.reshape(x, [batch, seq, heads, head_size]), perm)


def merge_heads(g: GraphBuilder, x: str, batch, seq, width: int) -> str:
    """[batch, heads, seq, head_size] back to [batch, seq, width]."""
    return g.reshape(g.transpose(x, (0, 2, 1, 3)), [batch, seq, width])
