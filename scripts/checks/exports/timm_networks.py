# SPDX-License-Identifier: Apache-2.0
"""Of the modules of timm 1.0 the network with the fewest parameters, of ten classes and images of the size that it is made for.

Not among them: what torch 2.15 does not export (beit, hiera, nest, twins, samvit, vit_relpos), or writes so that onnxruntime does not
load it either (gemma4_vit).
"""

from typing import Iterator

import timm
import torch

from network import BATCH, Named, Network

NETWORKS = """
    cait_xxs24_224 coat_tiny convit_tiny convmixer_768_32 cpubone_nano crossvit_tiny_240 cs3darknet_focus_s csatv2
    cspnext_tiny davit_tiny deepseek_vit_412m deit_tiny_patch16_224 densenet121 dla46x_c dpn48b edgenext_xx_small
    efficientformer_l1 efficientformerv2_s0 efficientvim_m1 efficientvit_b0 efficientvit_m0 ese_vovnet19b_slim_dw
    fasternet_t0 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny ghostnet_050 gmlp_ti16_224 halonet_h1 hardcorenas_b hgnetv2_b0
    hrnet_w18_small iformer_t inception_next_atto inception_resnet_v2 inception_v3 inception_v4 lcnet_035 lcnetv2_small
    legacy_seresnet18 legacy_xception levit_128s lowformer_b0 mobilenetv5_base mobilevit_xxs mvitv2_tiny
    naflexvit_base_patch16_parfac_gap nasnetalarge nextvit_small pit_ti_224 pnasnet5large poolformerv2_s12 pvt_v2_b0
    qwen3_vit_88m rdnet_tiny regnetx_002 repghostnet_050 repvit_m1 res2next50 resnest14d resnetv2_18 rexnet_100
    sam2_hiera_tiny selecsls42 sequencer2d_s shvit_s1 skresnet18 starnet_s050 swiftformer_xs swin_tiny_patch4_window7_224
    swinv2_cr_tiny_224 swinv2_tiny_window8_256 test_byobnet test_coatnet test_convnext test_efficientnet test_mambaout
    test_nfnet test_resnet test_vit tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m vgg11 visformer_tiny
    vit_tiny_patch16_dinov3_qkvb vit_tiny_r_s16_p8_224 vitamin_small_224 volo_d1_224 xception41p xcit_nano_12_p8_224
""".split()


def image_of(name: str) -> torch.Tensor:
    """Of the size in the network's configuration."""
    return torch.randn(BATCH, *timm.get_pretrained_cfg(name).input_size)


def networks() -> Iterator[Network]:
    """Each of them."""
    for name in NETWORKS:
        yield Network(name, lambda n=name: Named(timm.create_model(n, num_classes=10)), lambda n=name: {"x": image_of(n)})
