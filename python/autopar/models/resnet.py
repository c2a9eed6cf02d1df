# SPDX-License-Identifier: Apache-2.0
"""resnet50: convolutional image classifier with bottleneck blocks, as the exported torchvision model.

He et al., "Deep Residual Learning" (2015), with the stride on the 3x3 convolution. Batch normalization is a node in
inference mode, or folded into the convolution (--folded-bn), which is what torch.onnx does by default.
"""

import dataclasses
import math
from typing import List

from .family import Family, ModelError, option
from .graph import GraphBuilder
from .layers import linear_rows
from .weights import BIAS, normal, uniform

#: Scale of the last normalization of a block: keeps the residual sum from growing block by block.
RESIDUAL_GAIN = 0.3


@dataclasses.dataclass(frozen=True)
class ResnetConfig:
    blocks: str = option("3,4,6,3", "blocks in each of the four stages")
    channels: int = option(64, "channels of the first convolution; doubles with each stage")
    width_factor: int = option(1, "widens the 3x3 convolutions inside the blocks")
    image: int = option(224, "height and width of the image in pixels")
    classes: int = option(1000, "number of classes")
    folded_bn: bool = option(False, "fold batch normalization into the convolutions")

    def stages(self) -> List[int]:
        """Blocks per stage; raises ModelError when they are no numbers."""
        parts = self.blocks.split(",")
        if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
            raise ModelError(f"blocks='{self.blocks}' must be positive numbers with commas, such as 3,4,6,3")
        return [int(part) for part in parts]


def batch_norm(g: GraphBuilder, scope: str, x: str, channels: int, gain: float) -> str:
    """BatchNormalization in inference mode."""
    with g.scope(scope):
        values = [
            g.param("weight", (channels,), normal(0.02, mean=gain)),
            g.param("bias", (channels,), BIAS),
            g.param("running_mean", (channels,), normal(0.05), trained=False),
            g.param("running_var", (channels,), uniform(0.8, 1.2), trained=False),
        ]
        return g.op("BatchNormalization", x, *values, epsilon=1e-5, momentum=0.9)


def conv_norm(
    g: GraphBuilder,
    config: ResnetConfig,
    conv: str,
    norm: str,
    x: str,
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    gain: float = 1.0,
) -> str:
    """A convolution without bias and its batch normalization, or one convolution with bias when folded."""
    folded = config.folded_bn
    with g.scope(conv):
        deviation = math.sqrt(2.0 / (inputs * kernel * kernel)) * (gain if folded else 1.0)
        tensors = [x, g.param("weight", (outputs, inputs, kernel, kernel), normal(deviation))]
        if folded:
            tensors.append(g.param("bias", (outputs,), BIAS))
        y = g.conv(tensors, kernel, stride, padding=kernel // 2)
    return y if folded else batch_norm(g, norm, y, outputs, gain)


def relu(g: GraphBuilder, x: str) -> str:
    """torchvision's one Relu module, called several times per block."""
    with g.scope("relu"):
        return g.op("Relu", x)


def bottleneck(g: GraphBuilder, config: ResnetConfig, x: str, inputs: int, filters: int, stride: int) -> str:
    """1x1, 3x3 (strided, widened), 1x1 to 4 * filters, plus the input or its projection."""
    wide, outputs = filters * config.width_factor, 4 * filters
    y = relu(g, conv_norm(g, config, "conv1", "bn1", x, inputs, filters, 1, 1))
    y = relu(g, conv_norm(g, config, "conv2", "bn2", y, filters, wide, 3, stride))
    y = conv_norm(g, config, "conv3", "bn3", y, wide, outputs, 1, 1, RESIDUAL_GAIN)
    if inputs != outputs or stride != 1:
        with g.scope("downsample", ""):
            x = conv_norm(g, config, "downsample.0", "downsample.1", x, inputs, outputs, 1, stride)
    return relu(g, g.op("Add", y, x))


def emit(g: GraphBuilder, config: ResnetConfig) -> None:
    """Writes the graph: input [batch, 3, image, image] to output [batch, classes]."""
    pixels = g.input("input", [g.batch, 3, config.image, config.image])
    x = relu(g, conv_norm(g, config, "conv1", "bn1", pixels, 3, config.channels, 7, 2))
    with g.scope("maxpool"):
        x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = config.channels
    for stage, count in enumerate(config.stages()):
        filters = config.channels << stage
        for block in range(count):
            name = f"layer{stage + 1}"
            with g.scope(f"{name}/{name}.{block}", f"{name}.{block}"):
                x = bottleneck(g, config, x, inputs, filters, 2 if stage > 0 and block == 0 else 1)
            inputs = 4 * filters
    with g.scope("avgpool"):
        x = g.op("GlobalAveragePool", x)
    x = g.op("Flatten", x, axis=1)
    g.output("output", linear_rows(g, "fc", x, inputs, config.classes), [g.batch, config.classes])


FAMILY = Family(
    name="resnet",
    summary="convolutional image classifier with bottleneck blocks",
    config=ResnetConfig,
    sizes={"resnet50": ResnetConfig()},
    emit=emit,
    sequence=False,
)
