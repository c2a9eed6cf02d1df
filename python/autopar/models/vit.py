# SPDX-License-Identifier: Apache-2.0
"""vit: image classifier made of transformer blocks on patches, as the exported Hugging Face ViTForImageClassification.

Sizes: Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020): B/16, L/16, H/14 at 224 pixels.
"""

import dataclasses
import math
from typing import Callable, Tuple

from .family import Family, option, require_divisible
from .graph import GraphBuilder
from .layers import gelu_erf, layer_norm, linear, linear_rows, merge_heads, split_heads
from .weights import BIAS, fan_in, normal

EPSILON = 1e-12


@dataclasses.dataclass(frozen=True)
class VitConfig:
    layers: int = option(12, "number of transformer blocks")
    hidden: int = option(768, "width of the residual stream")
    heads: int = option(12, "attention heads; must divide hidden")
    inner: int = option(0, "width inside the MLP; 0 means 4 * hidden")
    image: int = option(224, "height and width of the image in pixels")
    patch: int = option(16, "height and width of a patch; must divide image")
    classes: int = option(1000, "number of classes")


def patch_embeddings(g: GraphBuilder, config: VitConfig, pixels: str) -> Tuple[str, int]:
    """Patches by a strided Conv, class token in front, learned positions added: [batch, tokens, hidden] and tokens."""
    side = require_divisible(config.image, config.patch, "image", "patch")
    hidden, patch, tokens = config.hidden, config.patch, side * side + 1
    batch = g.extent(pixels, 0)
    with g.scope("embeddings"):
        with g.scope("patch_embeddings/projection", "patch_embeddings.projection"):
            weight = g.param("weight", (hidden, 3, patch, patch), fan_in(3 * patch * patch))
            bias = g.param("bias", (hidden,), BIAS)
            x = g.conv([pixels, weight, bias], patch, stride=patch)
        x = g.transpose(g.reshape(x, [batch, hidden, side * side]), (0, 2, 1))
        first = g.param("cls_token", (1, 1, hidden), normal(0.02))
        first = g.op("Expand", first, g.shape([batch, 1, hidden]))
        x = g.op("Concat", first, x, axis=1)
        x = g.op("Add", x, g.param("position_embeddings", (1, tokens, hidden), normal(0.02)))
    return x, tokens


def attention(g: GraphBuilder, config: VitConfig, x: str, batch, tokens: int) -> str:
    """Self-attention over all patches."""
    hidden, heads = config.hidden, config.heads
    head_size = require_divisible(hidden, heads, "hidden", "heads")
    with g.scope("attention"):
        with g.scope("attention"):
            query = linear(g, "query", x, hidden, hidden)
            key = linear(g, "key", x, hidden, hidden)
            value = linear(g, "value", x, hidden, hidden)
            query = split_heads(g, query, batch, tokens, heads, head_size)
            key = split_heads(g, key, batch, tokens, heads, head_size, perm=(0, 2, 3, 1))
            value = split_heads(g, value, batch, tokens, heads, head_size)
            scores = g.op("Div", g.op("MatMul", query, key), g.scalar(math.sqrt(head_size)))
            context = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
            context = merge_heads(g, context, batch, tokens, hidden)
        return linear(g, "output/dense", context, hidden, hidden, params="output.dense")


def feed_forward(g: GraphBuilder, config: VitConfig, layer: int, x: str, batch, tokens: int) -> str:
    """The MLP, without its residual."""
    inner = config.inner or 4 * config.hidden
    with g.scope("intermediate"):
        y = linear(g, "dense", x, config.hidden, inner)
        y = gelu_erf(g, "intermediate_act_fn", y)
    return linear(g, "output/dense", y, inner, config.hidden, params="output.dense")


def emit_classifier(g: GraphBuilder, config, block_end: Callable[..., str]) -> None:
    """Writes a classifier whose blocks end in `block_end(g, config, layer, normed, batch, tokens)`: pixel_values
    [batch, 3, image, image] to logits [batch, classes]."""
    hidden = config.hidden
    pixels = g.input("pixel_values", [g.batch, 3, config.image, config.image])
    with g.scope("vit"):
        batch = g.extent(pixels, 0)
        x, tokens = patch_embeddings(g, config, pixels)
        for i in range(config.layers):
            with g.scope(f"encoder/layer.{i}", f"encoder.layer.{i}"):
                normed = layer_norm(g, "layernorm_before", x, hidden, EPSILON)
                x = g.op("Add", attention(g, config, normed, batch, tokens), x)
                normed = layer_norm(g, "layernorm_after", x, hidden, EPSILON)
                x = g.op("Add", block_end(g, config, i, normed, batch, tokens), x)
        x = layer_norm(g, "layernorm", x, hidden, EPSILON)
    first = g.op("Gather", x, g.int_scalar(0), axis=1)
    g.output("logits", linear_rows(g, "classifier", first, hidden, config.classes), [g.batch, config.classes])


def emit(g: GraphBuilder, config: VitConfig) -> None:
    """Writes the graph."""
    emit_classifier(g, config, feed_forward)


FAMILY = Family(
    name="vit",
    summary="image classifier, transformer on patches",
    config=VitConfig,
    sizes={
        "vit-b": VitConfig(),
        "vit-l": VitConfig(layers=24, hidden=1024, heads=16),
        "vit-h": VitConfig(layers=32, hidden=1280, heads=16, patch=14),
    },
    emit=emit,
    sequence=False,
)
