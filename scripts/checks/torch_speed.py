# SPDX-License-Identifier: Apache-2.0
"""`torch_speed.py MODEL MODE DTYPE BATCH SEQ`: the median time of a step by PyTorch's compiler, for scripts/gpu-check. Prints one JSON line.

Models of the same sizes as those of autopar.models, with weights drawn at random; MODE is train (AdamW, clipping) or infer.
"""

import json
import statistics
import sys
import time

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, HEADS, LAYERS = 768, 12, 12
SIZES = {"gpt2-124m": {"vocab": 50257, "positions": 1024, "causal": True}, "bert-base": {"vocab": 30522, "positions": 512, "causal": False}}


class Block(nn.Module):
    """Attention and a multilayer perceptron; the norms lie before them in gpt2 and behind them in bert."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.first, self.second = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention, self.projection = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def attend(self, x: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        q, k, v = self.attention(x).view(batch, seq, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.projection(out.transpose(1, 2).reshape(batch, seq, HIDDEN))

    def think(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x), approximate="tanh" if self.causal else "none"))

    def forward(self, x: Tensor) -> Tensor:
        if self.causal:
            x = x + self.attend(self.first(x))
            return x + self.think(self.second(x))
        x = self.first(x + self.attend(x))
        return self.second(x + self.think(x))


class Model(nn.Module):
    def __init__(self, vocab: int, positions: int, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.tokens, self.positions, self.norm = nn.Embedding(vocab, HIDDEN), nn.Embedding(positions, HIDDEN), nn.LayerNorm(HIDDEN)
        self.blocks = nn.ModuleList(Block(causal) for _ in range(LAYERS))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = x if self.causal else self.norm(x)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight) if self.causal else x


def main() -> None:
    name, mode, dtype, batch, seq = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    size = SIZES[name]
    model = Model(**size).cuda()
    ids = torch.randint(size["vocab"], (batch, seq), device="cuda")
    labels = torch.randint(size["vocab"], (batch, seq), device="cuda")
    narrow = torch.autocast("cuda", torch.bfloat16, enabled=dtype == "bf16")
    if mode == "train":
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

        def loss_of(inputs: Tensor, wanted: Tensor) -> Tensor:
            with narrow:
                logits = model(inputs)
            return functional.cross_entropy(logits.float().flatten(0, 1), wanted.flatten())

        compiled = torch.compile(loss_of, mode="max-autotune")

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            compiled(ids, labels).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    else:
        forward = torch.compile(model.eval(), mode="max-autotune")

        def step() -> None:
            with torch.no_grad(), narrow:
                forward(ids)

    times = []
    for count in range(30):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        if count >= 10:
            times.append((time.perf_counter() - begin) * 1e3)
    print(json.dumps({"median_ms": statistics.median(times), "version": torch.__version__}))


if __name__ == "__main__":
    main()
