# SPDX-License-Identifier: Apache-2.0
"""`torch_speed.py MODEL MODE DTYPE BATCH SEQ [WHY]`: the median time of a step by PyTorch's compiler, for scripts/gpu-check. Prints one JSON line.

Models of the same sizes and inputs as those of autopar.models, with weights drawn at random; MODE is train (AdamW, clipping), infer, or decode (one token
each, behind SEQ - 1 whose keys and values lie in caches that stay where they are). A training step
is one CUDA graph, as AutoPar's is: loss and gradients as the compiler makes them, clipping and a fused AdamW behind them. Where that fails, WHY says so
to a second call: then the compiler captures what it compiles, and clipping and AdamW run behind that.
"""

import json
import statistics
import sys
import time
from typing import Callable, NamedTuple, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional


class Size(NamedTuple):
    vocab: int
    positions: int
    causal: bool
    hidden: int = 768
    heads: int = 12
    layers: int = 12


SIZES = {"gpt2-124m": Size(50257, 1024, True), "bert-base": Size(30522, 512, False)}


class Block(nn.Module):
    """Attention and a multilayer perceptron; the norms lie before them in gpt2 and behind them in bert."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.causal, self.heads, hidden = size.causal, size.heads, size.hidden
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def keep(self, batch: int, room: int) -> None:
        """Caches of keys and values, as the weights are."""
        shape = (batch, self.heads, room, self.attention.in_features // self.heads)
        for name in ("keys", "values"):
            self.register_buffer(name, self.attention.weight.new_zeros(shape))

    def attend(self, x: Tensor, bias: Optional[Tensor], place: Optional[Tensor]) -> Tensor:
        batch, seq, hidden = x.shape
        q, k, v = self.attention(x).view(batch, seq, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        if place is not None:
            k, v = self.keys.index_copy_(2, place, k), self.values.index_copy_(2, place, v)
        bias = None if bias is None else bias.to(q.dtype)
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=self.causal and place is None)
        return self.projection(out.transpose(1, 2).reshape(batch, seq, hidden))

    def think(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x), approximate="tanh" if self.causal else "none"))

    def forward(self, x: Tensor, bias: Optional[Tensor], place: Optional[Tensor] = None) -> Tensor:
        if self.causal:
            x = x + self.attend(self.first(x), bias, place)
            return x + self.think(self.second(x))
        x = self.first(x + self.attend(x, bias, place))
        return self.second(x + self.think(x))


class Gpt2(nn.Module):
    """Tokens to logits, by the table of the tokens; with a place, one token of each sample that comes there, behind those in the caches."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens, self.positions, self.norm = nn.Embedding(size.vocab, size.hidden), nn.Embedding(size.positions, size.hidden), nn.LayerNorm(size.hidden)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))

    def forward(self, ids: Tensor, place: Optional[Tensor] = None) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device) if place is None else place)
        bias = None
        if place is not None:
            unseen = torch.arange(self.blocks[0].keys.shape[2], device=ids.device) > place
            bias = torch.zeros(unseen.shape, device=ids.device).masked_fill(unseen, float("-inf"))[None, None, None]
        for block in self.blocks:
            x = block(x, bias, place)
        return functional.linear(self.norm(x), self.tokens.weight)


class Bert(nn.Module):
    """Tokens, a mask of them and their types to the last states and what the pooler makes of the first."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens, self.types, self.positions = (nn.Embedding(count, size.hidden) for count in (size.vocab, 2, size.positions))
        self.norm, self.pooler = nn.LayerNorm(size.hidden), nn.Linear(size.hidden, size.hidden)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> "tuple[Tensor, Tensor]":
        x = self.tokens(ids) + self.types(types) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, bias)
        return x, torch.tanh(self.pooler(x[:, 0]))


def make_model(size: Size) -> nn.Module:
    return Gpt2(size) if size.causal else Bert(size)


def make_inputs(size: Size, batch: int, seq: int, device: str) -> "list[Tensor]":
    ids = torch.randint(size.vocab, (batch, seq), device=device)
    return [ids] if size.causal else [ids, torch.ones_like(ids), torch.zeros_like(ids)]


def loss_of(model: nn.Module, ids: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(model(ids).float().flatten(0, 1), labels.flatten())


def update(loss: Callable[[], Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """A training step."""
    optimizer.zero_grad(set_to_none=True)
    loss().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def captured(step: Callable[[], None], optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """The step as one graph, as PyTorch's notes on CUDA graphs capture a whole network: run before on a stream of its own, and without gradients."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def training_step(size: Size, batch: int, seq: int, narrow: bool, captures: bool) -> Callable[[], None]:
    model = make_model(size).cuda()
    (ids,), labels = make_inputs(size, batch, seq, "cuda"), torch.randint(size.vocab, (batch, seq), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True, capturable=captures)

    def loss() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=narrow):
            return loss_of(model, ids, labels)

    compiled = torch.compile(loss, mode="max-autotune-no-cudagraphs" if captures else "max-autotune")

    def step() -> None:
        update(compiled, model, optimizer)

    return captured(step, optimizer) if captures else step


def inference(size: Size, batch: int, seq: int, narrow: bool) -> Callable[[], None]:
    """Weights are narrow from the beginning, as AutoPar's are: autocast would narrow them in every step."""
    forward = torch.compile(make_model(size).cuda().eval().to(torch.bfloat16 if narrow else torch.float32), mode="max-autotune")
    inputs = make_inputs(size, batch, seq, "cuda")

    def step() -> None:
        with torch.no_grad():
            forward(*inputs)

    return step


def decoding(size: Size, batch: int, room: int, narrow: bool) -> Callable[[], None]:
    """The last token that the caches have room for."""
    model = make_model(size).cuda().eval().to(torch.bfloat16 if narrow else torch.float32)
    for block in model.blocks:
        block.keep(batch, room)
    forward = torch.compile(model, mode="max-autotune")
    (ids,), place = make_inputs(size, batch, 1, "cuda"), torch.tensor([room - 1], device="cuda")

    def step() -> None:
        with torch.no_grad():
            forward(ids, place)

    return step


def time_steps(step: Callable[[], None]) -> float:
    """The median of 20 or more, in milliseconds, behind as many: as AutoPar's are, when the GPU has its full clock."""
    for _ in range(5):  # which compile and capture
        step()
    torch.cuda.synchronize()
    times, begun = [], time.perf_counter()
    while len(times) < 40 or (len(times) < 500 and time.perf_counter() - begun < 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times[len(times) // 2:])


def main() -> None:
    name, mode, dtype, batch, seq = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    why = " ".join(sys.argv[6:])
    torch.set_float32_matmul_precision("highest")  # no TF32, as in AutoPar's products of f32
    how = "the forward pass captured"
    if mode == "infer":
        step = inference(SIZES[name], batch, seq, dtype == "bf16")
    elif mode == "decode":
        step = decoding(SIZES[name], batch, seq, dtype == "bf16")
    elif why:
        how = f"clipping and AdamW outside of its graphs ({why})"
        step = training_step(SIZES[name], batch, seq, dtype == "bf16", False)
    else:
        how = "the whole step captured"
        step = training_step(SIZES[name], batch, seq, dtype == "bf16", True)
    print(json.dumps({"median_ms": time_steps(step), "how": how, "version": torch.__version__}))


if __name__ == "__main__":
    main()
