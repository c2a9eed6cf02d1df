# SPDX-License-Identifier: Apache-2.0
"""Small networks of Hugging Face transformers."""

from typing import Any, Dict, Iterator

import torch
import transformers

from network import BATCH, SEQ, Network, image

transformers.logging.set_verbosity_error()
VOCAB = 120
TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": VOCAB,
        "max_position_embeddings": 66, "pad_token_id": 0}
GROUPED = {**TEXT, "num_key_value_heads": 2}
HEADS = {**GROUPED, "head_dim": 8}
PATCHES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32, "patch_size": 8}
PYRAMID = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
OLD_TEXT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCAB, "n_positions": 64}
PAIR = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
SPEECH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "conv_dim": [16, 16],
          "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}
#: The class that has a language model's, or an image network's, configuration, and its settings.
LANGUAGE = {
    "GPT2LMHeadModel": OLD_TEXT,
    "GPTNeoForCausalLM": {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": VOCAB, "max_position_embeddings": 64,
                          "attention_types": [[["global", "local"], 1]], "window_size": 4},
    "GPTNeoXForCausalLM": TEXT,
    "GPTJForCausalLM": {**OLD_TEXT, "rotary_dim": 4},
    "OPTForCausalLM": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 48, "vocab_size": VOCAB,
                       "max_position_embeddings": 64, "word_embed_proj_dim": 32},
    "BloomForCausalLM": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCAB},
    "FalconForCausalLM": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": VOCAB},
    "LlamaForCausalLM": GROUPED,
    "MistralForCausalLM": {**GROUPED, "sliding_window": 6},
    "MixtralForCausalLM": {**GROUPED, "num_local_experts": 4},
    "Qwen2ForCausalLM": GROUPED,
    "Qwen2MoeForCausalLM": {**GROUPED, "num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24},
    "Qwen3ForCausalLM": HEADS,
    "Qwen3MoeForCausalLM": {**HEADS, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "GemmaForCausalLM": HEADS,
    "Gemma2ForCausalLM": {**HEADS, "sliding_window": 6},
    "Gemma3ForCausalLM": {**HEADS, "sliding_window": 6},
    "PhiForCausalLM": TEXT,
    "Phi3ForCausalLM": GROUPED,
    "Olmo2ForCausalLM": GROUPED,
    "CohereForCausalLM": GROUPED,
    "StableLmForCausalLM": GROUPED,
    "Starcoder2ForCausalLM": GROUPED,
    "GraniteForCausalLM": GROUPED,
    "SmolLM3ForCausalLM": GROUPED,
    "Glm4ForCausalLM": HEADS,
    "DeepseekV3ForCausalLM": {**TEXT, "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
                              "n_group": 2, "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
                              "qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1},
    "GptOssForCausalLM": {**HEADS, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 6},
    "MambaForCausalLM": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": VOCAB, "state_size": 8},
    "Mamba2ForCausalLM": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": VOCAB, "state_size": 8, "num_heads": 8, "head_dim": 8,
                          "n_groups": 1, "chunk_size": 4},
    "BertModel": TEXT,
    "BertForMaskedLM": TEXT,
    "BertForSequenceClassification": TEXT,
    "BertForQuestionAnswering": TEXT,
    "RobertaForMaskedLM": TEXT,
    "DistilBertModel": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": VOCAB, "max_position_embeddings": 64},
    "AlbertModel": {**TEXT, "embedding_size": 16},
    "ElectraModel": {**TEXT, "embedding_size": 16},
    "DebertaV2Model": {**TEXT, "relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0,
                       "norm_rel_ebd": "layer_norm", "share_att_key": True},
    "MPNetModel": TEXT,
    "XLNetModel": {"vocab_size": VOCAB, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
    "BigBirdModel": {**TEXT, "attention_type": "original_full"},
    "ModernBertModel": {**TEXT, "global_attn_every_n_layers": 2, "local_attention": 8},
    "LayoutLMModel": TEXT,
}
IMAGES = {
    "ViTForImageClassification": PATCHES,
    "DeiTForImageClassification": PATCHES,
    "Dinov2Model": {**PATCHES, "intermediate_size": 128},
    "BeitForImageClassification": {**PATCHES, "use_relative_position_bias": True},
    "YolosForObjectDetection": {**PATCHES, "image_size": [32, 32], "num_detection_tokens": 5},
    "SwinForImageClassification": {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    "Swinv2ForImageClassification": {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    "ConvNextForImageClassification": PYRAMID,
    "ResNetForImageClassification": {**PYRAMID, "embedding_size": 8},
    "RegNetForImageClassification": {**PYRAMID, "embedding_size": 8, "groups_width": 4},
    "PoolFormerForImageClassification": PYRAMID,
    "PvtV2ForImageClassification": {**PYRAMID, "num_attention_heads": [1, 2, 3, 4], "image_size": 64},
    "SegformerForSemanticSegmentation": {**PYRAMID, "num_attention_heads": [1, 2, 3, 4], "decoder_hidden_size": 16},
    "MobileViTForImageClassification": {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32], "image_size": 64},
    "MobileNetV2ForImageClassification": {"depth_multiplier": 0.25, "image_size": 64},
    "SamVisionModel": {**PATCHES, "output_channels": 16, "mlp_dim": 48, "window_size": 2, "global_attn_indexes": [1]},
}
#: Its second loss in PyTorch is 1.24, 1.03 of inputs that are larger by a millionth, and 1.03 in float64: no truth for training.
UNSTEADY = "MobileNetV2ForImageClassification"


def tokens() -> torch.Tensor:
    """No special ones."""
    return torch.randint(3, VOCAB, (BATCH, SEQ))


def configured(name: str, settings: Dict[str, Any], **more: Any) -> torch.nn.Module:
    """A model of the configuration that its class names, without caches, its experts without loops over data."""
    model = getattr(transformers, name)
    network = model(model.config_class(**settings, **more))
    if getattr(network.config, "use_cache", False):
        network.config.use_cache = False
    if hasattr(network, "_can_set_experts_implementation") and network._can_set_experts_implementation():
        network.set_experts_implementation("batched_mm")
    return network


def mask() -> torch.Tensor:
    """Of which nothing is hidden."""
    return torch.ones(BATCH, SEQ, dtype=torch.long)


def networks() -> Iterator[Network]:
    """Of text, of images, of speech, of pairs of them."""
    for name, settings in LANGUAGE.items():
        # XLNet subtracts its mask from one
        yield Network(name, lambda n=name, s=settings: configured(n, s), lambda n=name: {
            "input_ids": tokens(), "attention_mask": mask().float() if n == "XLNetModel" else mask()})
    for name, settings in IMAGES.items():
        # of which the last statistics are of more than one place
        size = 32 if "patch_size" in settings else 64
        yield Network(name, lambda n=name, s=settings: configured(n, s), lambda size=size: {"pixel_values": image(size)}, name == UNSTEADY)
    yield Network("FNetModel", lambda: configured("FNetModel", TEXT), lambda: {"input_ids": tokens()})
    for name, settings in {"BartForConditionalGeneration": PAIR, "MarianMTModel": {**PAIR, "pad_token_id": 0},
                           "T5ForConditionalGeneration": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}}.items():
        yield Network(name, lambda n=name, s=settings: configured(n, s, vocab_size=VOCAB), lambda: {
            "input_ids": tokens(), "attention_mask": mask(), "decoder_input_ids": tokens()})
    yield Network("WhisperForConditionalGeneration", lambda: configured(
        "WhisperForConditionalGeneration", PAIR, vocab_size=VOCAB, num_mel_bins=16, max_source_positions=20, max_target_positions=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
        lambda: {"input_features": torch.randn(BATCH, 16, 40), "decoder_input_ids": tokens()})
    for name in ("Wav2Vec2Model", "HubertModel"):
        yield Network(name, lambda n=name: configured(n, SPEECH), lambda: {"input_values": torch.randn(BATCH, 400)})
    for name in ("CLIPModel", "SiglipModel"):
        yield Network(name, lambda n=name: configured(n, {"text_config": {**TEXT, "eos_token_id": 2, "projection_size": 32},
                                                          "vision_config": PATCHES, "projection_dim": 16}),
                      lambda: {"input_ids": tokens(), "pixel_values": image()})
    yield Network("DetrForObjectDetection", lambda: configured("DetrForObjectDetection", {**PAIR, "num_queries": 6}, backbone_config=(
        transformers.ResNetConfig(**PYRAMID, embedding_size=8, out_features=["stage4"]))), lambda: {"pixel_values": image()})
    yield Network("DPTForDepthEstimation", lambda: configured("DPTForDepthEstimation", {
        **PATCHES, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16}),
        lambda: {"pixel_values": image()})
    yield Network("PatchTSTForPrediction", lambda: configured("PatchTSTForPrediction", {
        "num_input_channels": 2, "context_length": 32, "patch_length": 8, "patch_stride": 8, "prediction_length": 8, "d_model": 32,
        "num_attention_heads": 4, "num_hidden_layers": 2, "ffn_dim": 48}), lambda: {"past_values": torch.randn(BATCH, 32, 2)})
