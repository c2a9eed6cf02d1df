# SPDX-License-Identifier: Apache-2.0
"""Small denoisers and autoencoders of Hugging Face diffusers.

Not among them, as torch 2.15 exports them wrongly (onnxruntime has NaN or refuses the file as well): SanaTransformer2DModel,
AutoencoderDC, PixArtTransformer2DModel.
"""

from typing import Any, Dict, Iterator

import diffusers
import torch

from network import BATCH, Network, image

CHANNELS = {"block_out_channels": (32, 64)}
ENCODED = {**CHANNELS, "down_block_types": ("DownEncoderBlock2D",) * 2, "latent_channels": 4}
DECODED = {**ENCODED, "up_block_types": ("UpDecoderBlock2D",) * 2}
CROSSED = {**CHANNELS, "layers_per_block": 1, "cross_attention_dim": 32, "attention_head_dim": 8}
HEADS = {"num_attention_heads": 4, "attention_head_dim": 8}
LATENT = {"sample_size": 8, "in_channels": 4, "out_channels": 4}

#: The class and its settings, of autoencoders of images.
AUTOENCODERS = {"AutoencoderKL": DECODED, "AutoencoderTiny": {}, "VQModel": DECODED}
#: Not trained: an export does not say that VQModel's gradients go past its codes, and AutoencoderTiny's end where it rounds to 8 bits.
UNTRAINED = ("VQModel", "AutoencoderTiny")
#: The class, its settings, its inputs, as drawn() reads them.
DENOISERS = {
    "UNet2DModel": ({**CHANNELS, "sample_size": 16, "layers_per_block": 1, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                     "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}, {"sample": (3, 16, 16), "timestep": float}),
    "UNet2DConditionModel": ({**CROSSED, "sample_size": 16, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                              "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")},
                             {"sample": (4, 16, 16), "timestep": float, "encoder_hidden_states": (7, 32)}),
    "ControlNetModel": ({**CROSSED, "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "conditioning_embedding_out_channels": (16, 32)},
                        {"sample": (4, 16, 16), "timestep": float, "encoder_hidden_states": (7, 32), "controlnet_cond": (3, 32, 32)}),
    "Transformer2DModel": ({**HEADS, "in_channels": 32, "cross_attention_dim": 32},
                           {"hidden_states": (32, 8, 8), "encoder_hidden_states": (7, 32)}),
    "DiTTransformer2DModel": ({**HEADS, **LATENT, "num_layers": 2, "num_embeds_ada_norm": 10},
                              {"hidden_states": (4, 8, 8), "timestep": int, "class_labels": int}),
    "SD3Transformer2DModel": ({**HEADS, **LATENT, "num_layers": 2, "joint_attention_dim": 32, "caption_projection_dim": 32,
                               "pooled_projection_dim": 16, "pos_embed_max_size": 16},
                              {"hidden_states": (4, 8, 8), "encoder_hidden_states": (7, 32), "pooled_projections": (16,), "timestep": float}),
    "AuraFlowTransformer2DModel": ({**HEADS, **LATENT, "num_mmdit_layers": 1, "num_single_dit_layers": 1, "caption_projection_dim": 32,
                                    "joint_attention_dim": 32, "pos_embed_max_size": 64},
                                   {"hidden_states": (4, 8, 8), "encoder_hidden_states": (7, 32), "timestep": float}),
    "HunyuanDiT2DModel": ({**HEADS, "sample_size": 8, "in_channels": 4, "num_layers": 2, "patch_size": 2, "cross_attention_dim": 32,
                           "cross_attention_dim_t5": 32, "pooled_projection_dim": 16, "hidden_size": 32, "text_len": 4, "text_len_t5": 4,
                           "activation_fn": "gelu-approximate"},
                          {"hidden_states": (4, 8, 8), "timestep": float, "encoder_hidden_states": (4, 32), "text_embedding_mask": bool,
                           "encoder_hidden_states_t5": (4, 32), "text_embedding_mask_t5": bool, "image_meta_size": (6,), "style": torch.zeros(BATCH, dtype=torch.long),
                           "image_rotary_emb": (16, 8)}),
    "WanTransformer3DModel": ({"patch_size": (1, 2, 2), "num_attention_heads": 2, "attention_head_dim": 12, "in_channels": 4, "out_channels": 4,
                               "text_dim": 16, "freq_dim": 32, "ffn_dim": 32, "num_layers": 2},
                              {"hidden_states": (4, 2, 8, 8), "timestep": int, "encoder_hidden_states": (7, 16)}),
    "UNet1DModel": ({**CHANNELS, "sample_size": 16, "in_channels": 14, "out_channels": 14, "time_embedding_type": "positional",
                     "down_block_types": ("DownResnetBlock1D",) * 2, "up_block_types": ("UpResnetBlock1D",), "flip_sin_to_cos": False,
                     "mid_block_type": "MidResTemporalBlock1D", "out_block_type": "OutConv1DBlock", "use_timestep_embedding": True,
                     "freq_shift": 1.0, "act_fn": "swish"}, {"sample": (14, 16), "timestep": int}),
    "PriorTransformer": ({"num_attention_heads": 2, "attention_head_dim": 4, "num_layers": 2, "embedding_dim": 8, "num_embeddings": 7,
                          "additional_embeddings": 4},
                         {"hidden_states": (8,), "timestep": int, "proj_embedding": (8,), "encoder_hidden_states": (7, 8)}),
}


def drawn(kind: Any) -> torch.Tensor:
    """A value of a sample: of a shape, a place in time, a number below ten, which of four words are seen, or itself."""
    if torch.is_tensor(kind):
        return kind
    if kind is float:
        return torch.tensor([3.0, 7.0])
    if kind is int:
        return torch.tensor([3, 7])
    return torch.ones(BATCH, 4) if kind is bool else torch.randn(BATCH, *kind)


class OfFrames(torch.nn.Module):
    """A network that has numbers among its inputs, which a program does not."""

    def __init__(self, network: torch.nn.Module, **numbers: int) -> None:
        super().__init__()
        self.network, self.numbers = network, numbers

    def forward(self, **inputs: torch.Tensor) -> Any:
        return self.network(**inputs, **self.numbers)


def made(name: str, settings: Dict[str, Any]) -> torch.nn.Module:
    """The network of a class."""
    return getattr(diffusers, name)(**settings)


def networks() -> Iterator[Network]:
    """Of images, of sound, of films."""
    for name, settings in AUTOENCODERS.items():
        yield Network(name, lambda n=name, s=settings: made(n, s), lambda: {"sample": image()}, name in UNTRAINED)
    for name, (settings, inputs) in DENOISERS.items():
        yield Network(name, lambda n=name, s=settings: made(n, s), lambda i=inputs: {key: drawn(kind) for key, kind in i.items()})
    yield Network("FluxTransformer2DModel", lambda: diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
        pooled_projection_dim=32, axes_dims_rope=(4, 4, 8)), lambda: {
            "hidden_states": torch.randn(BATCH, 16, 4), "encoder_hidden_states": torch.randn(BATCH, 7, 32), "timestep": drawn(float),
            "pooled_projections": torch.randn(BATCH, 32), "img_ids": torch.randn(16, 3), "txt_ids": torch.randn(7, 3)})
    yield Network("LTXVideoTransformer3DModel", lambda: OfFrames(diffusers.LTXVideoTransformer3DModel(
        **HEADS, in_channels=8, out_channels=8, cross_attention_dim=32, num_layers=2, caption_channels=16), num_frames=2, height=2, width=2),
        lambda: {"hidden_states": torch.randn(BATCH, 8, 8), "encoder_hidden_states": torch.randn(BATCH, 7, 16), "timestep": drawn(float),
                 "encoder_attention_mask": torch.ones(BATCH, 7, dtype=torch.bool)})
    yield Network("AutoencoderKLTemporalDecoder", lambda: OfFrames(diffusers.AutoencoderKLTemporalDecoder(**ENCODED), num_frames=2),
                  lambda: {"sample": image(16)})
    yield Network("AutoencoderKLCogVideoX", lambda: diffusers.AutoencoderKLCogVideoX(
        down_block_types=("CogVideoXDownBlock3D",) * 2, up_block_types=("CogVideoXUpBlock3D",) * 2, block_out_channels=(8, 16),
        latent_channels=4, layers_per_block=1, norm_num_groups=2, temporal_compression_ratio=2), lambda: {"sample": torch.randn(1, 3, 5, 16, 16)})
    yield Network("AutoencoderOobleck", lambda: diffusers.AutoencoderOobleck(
        encoder_hidden_size=12, decoder_channels=12, decoder_input_channels=6, audio_channels=2, downsampling_ratios=[2, 4],
        channel_multiples=[1, 2]), lambda: {"sample": torch.randn(BATCH, 2, 64)})
    yield Network("UVit2DModel", lambda: diffusers.UVit2DModel(
        hidden_size=32, cond_embed_dim=32, micro_cond_encode_dim=2, micro_cond_embed_dim=10, encoder_hidden_size=32, vocab_size=32,
        codebook_size=32, in_channels=32, block_out_channels=32, num_res_blocks=1, block_num_heads=2, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32), lambda: {
            "input_ids": torch.randint(0, 32, (BATCH, 8, 8)), "encoder_hidden_states": torch.randn(BATCH, 7, 32),
            "pooled_text_emb": torch.randn(BATCH, 32), "micro_conds": torch.randn(BATCH, 5)})
