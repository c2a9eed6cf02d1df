# SPDX-License-Identifier: Apache-2.0
"""Of each family of torchvision the smallest network: classifiers of images and films, segmentation, optical flow. Its detectors are
not among them: how many boxes they find decides the shapes, which torch's newer exporter refuses."""

from typing import Iterator

import torch
import torchvision

from network import Named, Network, image

#: The side of the images.
IMAGES = {"alexnet": 224, "convnext_tiny": 224, "deeplabv3_mobilenet_v3_large": 64, "densenet121": 64, "efficientnet_b0": 64,
          "efficientnet_v2_s": 64, "fcn_resnet50": 64, "googlenet": 64, "inception_v3": 299, "lraspp_mobilenet_v3_large": 64,
          "maxvit_t": 224, "mnasnet0_5": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64, "regnet_y_400mf": 64, "resnet18": 64,
          "resnext50_32x4d": 64, "shufflenet_v2_x0_5": 64, "squeezenet1_0": 64, "swin_t": 64, "swin_v2_t": 64, "vgg11_bn": 64,
          "vit_b_32": 224}
#: The side of the 16 images of a film.
FILMS = {"mc3_18": 56, "mvit_v1_b": 224, "mvit_v2_s": 224, "r2plus1d_18": 56, "r3d_18": 56, "s3d": 224, "swin3d_t": 56}
FRAMES = 16


def film(size: int) -> torch.Tensor:
    """One, as they are long."""
    return torch.randn(1, 3, FRAMES, size, size)


def made(name: str) -> torch.nn.Module:
    """Without trained weights."""
    whole = {"weights_backbone": None} if name.startswith(("deeplab", "fcn", "lraspp")) else {}
    return Named(torchvision.models.get_model(name, weights=None, **whole))


def networks() -> Iterator[Network]:
    """Of images, of films, of pairs of images."""
    for name, size in IMAGES.items():
        yield Network(name, lambda n=name: made(n), lambda s=size: {"x": image(s)})
    for name, size in FILMS.items():
        yield Network(name, lambda n=name: made(n), lambda s=size: {"x": film(s)})
    yield Network("raft_small", lambda: torchvision.models.get_model("raft_small", weights=None),
                  lambda: {"image1": image(128, 1), "image2": image(128, 1)})
