# SPDX-License-Identifier: Apache-2.0
"""Writes small networks of Hugging Face transformers with torch.onnx.export(dynamo=True) into the folder given, each with
what PyTorch computes; run by a Python that has torch, onnxscript and transformers.

usage: export_transformers.py FOLDER [whole] [TEXT]      (only networks with TEXT in their name)

NAME.onnx is the export, `whole` with optimize=False; NAME.npz has `input/NAME`, `output/NAME`, `target` of the first output's
shape, and `losses`: the mean squared error to the target in STEPS steps of SGD with the learning rate `lr`. Parameters are drawn,
as a trained network's are no two alike, and nothing is dropped out. A network that cannot be exported is named on standard
error and left out.
"""

import copy
import pathlib
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import torch
import transformers

BATCH, SEQ, VOCAB = 2, 12, 120
STEPS, LRS = 3, (0.02, 0.002, 0.0002)

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
    """A model of transformers, of the configuration that its class names."""
    model = getattr(transformers, name)
    return model(model.config_class(**settings, **more))


def networks() -> Iterator[Tuple[str, Callable[[], torch.nn.Module], Callable[[], Dict[str, torch.Tensor]]]]:
    """Name, the network, its inputs."""
    def mask() -> torch.Tensor:
        return torch.ones(BATCH, SEQ, dtype=torch.long)

    def image(size: int = 32) -> torch.Tensor:
        return torch.randn(BATCH, 3, size, size)

    for name, settings in LANGUAGE.items():
        # XLNet subtracts its mask from one
        yield name, lambda n=name, s=settings: configured(n, s), lambda n=name: {
            "input_ids": tokens(), "attention_mask": mask().float() if n == "XLNetModel" else mask()}
    for name, settings in IMAGES.items():
        # of which the last statistics are of more than one place
        size = 32 if "patch_size" in settings else 64
        yield name, lambda n=name, s=settings: configured(n, s), lambda size=size: {"pixel_values": image(size)}
    yield "FNetModel", lambda: configured("FNetModel", TEXT), lambda: {"input_ids": tokens()}
    for name, settings in {"BartForConditionalGeneration": PAIR, "MarianMTModel": {**PAIR, "pad_token_id": 0},
                           "T5ForConditionalGeneration": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}}.items():
        yield name, lambda n=name, s=settings: configured(n, s, vocab_size=VOCAB), lambda: {
            "input_ids": tokens(), "attention_mask": mask(), "decoder_input_ids": tokens()}
    yield ("WhisperForConditionalGeneration", lambda: configured(
        "WhisperForConditionalGeneration", PAIR, vocab_size=VOCAB, num_mel_bins=16, max_source_positions=20, max_target_positions=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
        lambda: {"input_features": torch.randn(BATCH, 16, 40), "decoder_input_ids": tokens()})
    for name in ("Wav2Vec2Model", "HubertModel"):
        yield name, lambda n=name: configured(n, SPEECH), lambda: {"input_values": torch.randn(BATCH, 400)}
    for name in ("CLIPModel", "SiglipModel"):
        yield (name, lambda n=name: configured(n, {"text_config": {**TEXT, "eos_token_id": 2, "projection_size": 32}, "vision_config": PATCHES,
                                                   "projection_dim": 16}),
               lambda: {"input_ids": tokens(), "pixel_values": image()})
    yield ("DetrForObjectDetection", lambda: configured("DetrForObjectDetection", {**PAIR, "num_queries": 6}, backbone_config=(
        transformers.ResNetConfig(**PYRAMID, embedding_size=8, out_features=["stage4"]))), lambda: {"pixel_values": image()})
    yield ("DPTForDepthEstimation", lambda: configured("DPTForDepthEstimation", {
        **PATCHES, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16}),
        lambda: {"pixel_values": image()})
    yield ("PatchTSTForPrediction", lambda: configured("PatchTSTForPrediction", {
        "num_input_channels": 2, "context_length": 32, "patch_length": 8, "patch_stride": 8, "prediction_length": 8, "d_model": 32,
        "num_attention_heads": 4, "num_hidden_layers": 2, "ffn_dim": 48}), lambda: {"past_values": torch.randn(BATCH, 32, 2)})


class Outputs(torch.nn.Module):
    """A model that gives its float results, in their order, without caches."""

    def __init__(self, model: torch.nn.Module, inputs: List[str]) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, []

    def forward(self, *values: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        results = self.model(**dict(zip(self.inputs, values)), return_dict=True)
        if not self.outputs:
            self.outputs = [name for name, value in results.items() if torch.is_tensor(value)]
        return tuple(results[name] for name in self.outputs)


def draw(model: torch.nn.Module) -> torch.nn.Module:
    """As it is trained: no two parameters alike, nothing dropped out, experts without loops over data."""
    if getattr(model.config, "use_cache", False):
        model.config.use_cache = False
    if hasattr(model, "_can_set_experts_implementation") and model._can_set_experts_implementation():
        model.set_experts_implementation("batched_mm")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    return model.eval()


def export(model: Outputs, inputs: Dict[str, torch.Tensor], path: pathlib.Path, whole: bool) -> None:
    """With a batch of any size and, of tokens, any number; where torch cannot, with those of the inputs."""
    dynamic = tuple({0: "batch", **({1: "seq"} if list(value.shape) == [BATCH, SEQ] else {})} for value in inputs.values())
    for shapes in ((dynamic,), None):
        try:
            torch.onnx.export(model, tuple(inputs.values()), dynamo=True, optimize=not whole, dynamic_shapes=shapes, input_names=list(inputs),
                              output_names=model.outputs, verbose=False).save(str(path))
            return
        except Exception as error:  # torch has no common class for what it cannot export
            last = error
            torch._dynamo.reset()
    raise last


def train(model: Outputs, inputs: Dict[str, torch.Tensor], target: torch.Tensor) -> Tuple[float, List[float]]:
    """The learning rate, the largest by which it learns, and the losses of the first output, one before each step. Batches are
    normalized by their own statistics."""
    start = copy.deepcopy(model.state_dict())
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.train()
    for lr in LRS:
        model.load_state_dict(start)
        optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=lr)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(*inputs.values())[0], target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if losses[-1] < losses[0]:
            break
    return lr, losses


def main() -> None:
    """Exports every network whose name has the text."""
    folder, whole = pathlib.Path(sys.argv[1]), sys.argv[2:3] == ["whole"]
    text = "".join(sys.argv[3:] if whole else sys.argv[2:])
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    for name, make, make_inputs in networks():
        if text not in name or (whole and name == UNSTEADY):
            continue
        try:
            torch.manual_seed(0)
            inputs = make_inputs()
            model = Outputs(draw(make()), list(inputs))
            with torch.no_grad():
                results = model(*inputs.values())
            export(model, inputs, folder / f"{name}.onnx", whole)
            target = torch.randn(results[0].shape)
            lr, losses = train(model, inputs, target)
            np.savez(folder / f"{name}.npz", lr=lr, losses=losses, target=target.numpy(),
                     **{f"input/{key}": value.numpy() for key, value in inputs.items()},
                     **{f"output/{key}": value.numpy() for key, value in zip(model.outputs, results)})
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[-200:]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
