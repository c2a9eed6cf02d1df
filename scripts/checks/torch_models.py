# SPDX-License-Identifier: Apache-2.0
"""Networks of the model zoo written a second time, with PyTorch: outside truth for training steps.

Each takes the weights under the zoo's names, the settings of the run and one batch, and gives the logits, classes last.
"""

import math

import torch
from torch.nn import functional as F


def causal_attention(query, key, value):
    """Of [batch, heads, rows, size]; by one call where torch has it."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
    mask = torch.tril(torch.ones(scores.shape[-2:], dtype=torch.bool))
    return F.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1) @ value


def gpt2(weights, settings, batch):
    """Logits of the zoo's gpt2."""
    def linear(scope, x):
        return x @ weights[f"{scope}.weight"] + weights[f"{scope}.bias"]

    def norm(scope, x):
        return F.layer_norm(x, x.shape[-1:], weights[f"{scope}.weight"], weights[f"{scope}.bias"], 1e-5)

    ids = batch["input_ids"]
    rows, seq = ids.shape
    x = weights["transformer.wte.weight"][ids] + weights["transformer.wpe.weight"][:seq]
    for layer in range(settings["layers"]):
        scope = f"transformer.h.{layer}"
        parts = linear(f"{scope}.attn.c_attn", norm(f"{scope}.ln_1", x)).split(x.shape[-1], dim=2)
        query, key, value = (part.view(rows, seq, settings["heads"], -1).transpose(1, 2) for part in parts)
        context = causal_attention(query, key, value).transpose(1, 2).reshape(rows, seq, -1)
        x = x + linear(f"{scope}.attn.c_proj", context)
        inner = F.gelu(linear(f"{scope}.mlp.c_fc", norm(f"{scope}.ln_2", x)), approximate="tanh")
        x = x + linear(f"{scope}.mlp.c_proj", inner)
    return norm("transformer.ln_f", x) @ weights["transformer.wte.weight"].T


def resnet(weights, settings, batch):
    """Logits of the zoo's resnet; batch normalization by the batch's statistics, or (frozen) by the running ones."""
    def conv_norm(conv, norm, x, stride, padding):
        x = F.conv2d(x, weights[f"{conv}.weight"], stride=stride, padding=padding)
        return F.batch_norm(x, weights[f"{norm}.running_mean"], weights[f"{norm}.running_var"], weights[f"{norm}.weight"],
                            weights[f"{norm}.bias"], training=not settings.get("frozen_norm", False), eps=1e-5)

    x = F.relu(conv_norm("conv1", "bn1", batch["input"], 2, 3))
    x = F.max_pool2d(x, 3, 2, 1)
    for stage, count in enumerate(settings["blocks"], start=1):
        for block in range(count):
            scope, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = F.relu(conv_norm(f"{scope}.conv1", f"{scope}.bn1", x, 1, 0))
            y = F.relu(conv_norm(f"{scope}.conv2", f"{scope}.bn2", y, stride, 1))
            y = conv_norm(f"{scope}.conv3", f"{scope}.bn3", y, 1, 0)
            if f"{scope}.downsample.0.weight" in weights:
                x = conv_norm(f"{scope}.downsample.0", f"{scope}.downsample.1", x, stride, 0)
            x = F.relu(x + y)
    return F.linear(x.mean((2, 3)), weights["fc.weight"], weights["fc.bias"])


def switch(weights, settings, scope, x, recorded):
    """The mixture of experts with one expert per token and limited room; `recorded` replaces the choice of experts."""
    gates = F.softmax(x @ weights[f"{scope}.gate.weight"], dim=-1)
    count, seq = gates.shape[-1], x.shape[1]
    chosen = gates.argmax(-1) if recorded is None else recorded[..., 0]
    mask = F.one_hot(chosen, count).to(x.dtype)
    place = ((mask.cumsum(1) - mask) * mask).sum(-1)
    kept = place < math.ceil(settings["capacity_factor"] * seq / count)
    weight = gates.gather(-1, chosen[..., None])[..., 0] * kept
    experts = [weights[f"{scope}.experts.{name}"] for name in ("wi.weight", "wi.bias", "wo.weight", "wo.bias")]
    y = torch.zeros_like(x)
    for number, (wi, wi_bias, wo, wo_bias) in enumerate(zip(*experts)):
        y = y + (weight * mask[..., number])[..., None] * (F.gelu(x @ wi + wi_bias) @ wo + wo_bias)
    return y


def bert_switch(weights, settings, batch):
    """The last hidden state of the zoo's bert-switch, taken as logits."""
    def linear(scope, x):
        return x @ weights[f"{scope}.weight"] + weights[f"{scope}.bias"]

    def norm(scope, x):
        return F.layer_norm(x, x.shape[-1:], weights[f"{scope}.LayerNorm.weight"], weights[f"{scope}.LayerNorm.bias"], 1e-12)

    ids = batch["input_ids"]
    rows, seq = ids.shape
    bias = (1 - batch["attention_mask"][:, None, None, :].float()) * torch.finfo(torch.float32).min
    x = norm("embeddings", weights["embeddings.word_embeddings.weight"][ids]
             + weights["embeddings.token_type_embeddings.weight"][batch["token_type_ids"]]
             + weights["embeddings.position_embeddings.weight"][:seq])
    for layer in range(settings["layers"]):
        scope = f"encoder.layer.{layer}"
        query, key, value = (linear(f"{scope}.attention.self.{name}", x).view(rows, seq, settings["heads"], -1).transpose(1, 2)
                             for name in ("query", "key", "value"))
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1]) + bias
        context = (F.softmax(scores, dim=-1) @ value).transpose(1, 2).reshape(rows, seq, -1)
        x = norm(f"{scope}.attention.output", linear(f"{scope}.attention.output.dense", context) + x)
        if f"{scope}.moe.gate.weight" in weights:
            y = switch(weights, settings, f"{scope}.moe", x, batch.get("routing"))
        else:
            y = linear(f"{scope}.output.dense", F.gelu(linear(f"{scope}.intermediate.dense", x)))
        x = norm(f"{scope}.output", y + x)
    return x


#: Rows of ONNX's weights, by gate, in the order in which torch has them.
GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}


def recurrent(weights, settings, batch):
    """What an operator of bench_recurrent.py yields of each step, [steps, batch, directions x hidden]."""
    kind, hidden = settings["kind"], settings["hidden"]
    rows = torch.cat([torch.arange(gate * hidden, (gate + 1) * hidden) for gate in GATES[kind]])
    x, directions, flat = batch["x"], weights["W"].shape[0], []
    for direction in range(directions):
        w, r, b = (weights[name][direction] for name in ("W", "R", "B"))
        of_input, of_state = b.chunk(2)
        flat += [w[rows], r[rows], of_input[rows], of_state[rows]]
    start = x.new_zeros(directions, x.shape[1], hidden)
    call = {"LSTM": torch._VF.lstm, "GRU": torch._VF.gru, "RNN": torch._VF.rnn_tanh}[kind]
    # Biases, one layer, no dropout, in training, both ways or not, steps first.
    return call(x, (start, start) if kind == "LSTM" else start, flat, True, 1, 0.0, True, directions == 2, False)[0]


FORWARD = {"gpt2": gpt2, "resnet": resnet, "bert-switch": bert_switch, "recurrent": recurrent}
