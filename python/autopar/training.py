# SPDX-License-Identifier: Apache-2.0
"""What training adds to a compilation, as values: `autopar.compile("m.onnx", train=autopar.Train(...))`."""

import dataclasses
import numbers
from typing import Any, List, Mapping, Optional, Sequence, Union


def _text(value: Any) -> str:
    """A number or truth value as the command line has it, of NumPy or not."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, numbers.Real) and not isinstance(value, int):
        return repr(int(value) if isinstance(value, numbers.Integral) else float(value))
    return repr(value)


class Optimizer:
    """Options that print as a call of the command line's small language: adamw(lr=0.0003).

    ema: what a step keeps of the moving averages of the parameters (Session.export); 0: there are none.
    state_bits: 16 keeps what else is kept in bf16.
    """

    def __str__(self) -> str:
        words = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value: Any = getattr(self, field.name)
            if value is not None:
                words.append(f"{field.name}={_text(value)}")
        return f"{type(self).__name__.lower()}({', '.join(words)})"


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent, with momentum and Nesterov's variant."""

    lr: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    ema: float = 0.0
    state_bits: int = 32


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Adam; weight decay is added to the gradient."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    ema: float = 0.0
    state_bits: int = 32


@dataclasses.dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with weight decay apart from the gradient."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    ema: float = 0.0
    state_bits: int = 32


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad."""

    lr: float = 0.01
    eps: float = 1e-10
    weight_decay: float = 0.0
    ema: float = 0.0
    state_bits: int = 32


@dataclasses.dataclass(frozen=True)
class Lion(Optimizer):
    """Lion."""

    lr: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0
    ema: float = 0.0
    state_bits: int = 32


@dataclasses.dataclass(frozen=True)
class Muon(Optimizer):
    """Muon for the matrices of inner products, AdamW with the same weight decay for everything else.

    steps: of the iteration that makes a momentum orthogonal. rms: root mean square of the elements of an update, as
    Adam's have it; 0: the scale of the original, max(1, out / in) ** 0.5. adamw_lr: None is lr; beta1, beta2 and eps are
    AdamW's, too.
    """

    lr: float = 1e-3
    momentum: float = 0.95
    nesterov: bool = True
    steps: int = 5
    rms: float = 0.2
    weight_decay: float = 0.1
    adamw_lr: Optional[float] = None
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    ema: float = 0.0
    state_bits: int = 32


@dataclasses.dataclass(frozen=True)
class Train:
    """A training step around a forward model.

    loss: "softmax_cross_entropy(logits, labels)", another loss of docs/Training.md, the output that is the loss, or a sum: "f(a, b) + 0.01*aux".
    optimizer: one of the classes above, or its words.
    metrics: what else a step and Session.evaluate tell, or one: "accuracy(logits, labels)", "top5=accuracy(logits, labels, top=5)" (docs/Training.md).
    schedule: how the learning rate follows from the step: "cosine(warmup=100, steps=2000)". None: it does not.
    lr_scale: patterns of parameter names, and what their learning rate is multiplied with: {"classifier*": 10}; the first that fits counts.
    clip_norm: the largest norm of all gradients together. None: any.
    micro_batches: parts of the batch, computed one after the other; their gradients add up.
    freeze, train_only, no_decay: patterns of parameter names, or one.
    adapters: "lora(rank=8, alpha=16)" trains low-rank matrices beside those of the model, which keep their values. None: the model is trained.
    adapt: with adapters: patterns of parameter names, or one, that get them. Empty: all matrices.
    inference_mode: batch normalization and dropout are read in inference mode, whatever mode they were exported in.
    precision: what is computed in: f32, bf16, fp16 or fp8 (bf16, and products with weights in 8 bits). Parameters and optimizer state stay f32.
    gradient_dtype: what gradients of parameters are summed in: f32, or as precision (bf16 with fp8).
    offload: what lies in host memory: none, state (of the optimizer), activations (where they would be computed again), all, or auto (as much of it as there is no room for, where nothing fits without or a step is shorter so).
    loss_scale: "dynamic(initial=65536, interval=2000)", "static(scale=1024)" or "none". None: dynamic for fp16, none else.
    keep_bf16: with fp8: patterns of parameters, or one, whose products stay in bf16.
    """

    loss: str
    optimizer: Union[Optimizer, str] = AdamW()
    schedule: Optional[str] = None
    clip_norm: Optional[float] = None
    micro_batches: int = 1
    freeze: Union[str, Sequence[str]] = ()
    train_only: Union[str, Sequence[str]] = ()
    inference_mode: bool = False
    precision: str = "f32"
    gradient_dtype: str = "f32"
    loss_scale: Optional[str] = None
    offload: str = "none"
    keep_bf16: Union[str, Sequence[str]] = ()
    adapters: Optional[str] = None
    adapt: Union[str, Sequence[str]] = ()
    metrics: Union[str, Sequence[str]] = ()
    no_decay: Union[str, Sequence[str]] = ()
    lr_scale: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def words(self) -> List[str]:
        """The words of autopar-compile's command line."""
        words = ["--train", f"loss={self.loss}", "--optimizer", str(self.optimizer)]
        if self.schedule is not None:
            words += ["--lr-schedule", self.schedule]
        if self.lr_scale:
            words += ["--lr-scale", ",".join(f"{pattern}={_text(scale)}" for pattern, scale in dict(self.lr_scale).items())]
        if self.clip_norm is not None:
            words += ["--clip-norm", _text(self.clip_norm)]
        if self.adapters is not None:
            words += ["--adapters", self.adapters]
        if self.inference_mode:
            words.append("--inference-mode")
        for flag, element in (("--precision", self.precision), ("--gradient-dtype", self.gradient_dtype)):
            if element != "f32":
                words += [flag, element]
        if self.loss_scale is not None:
            words += ["--loss-scale", self.loss_scale]
        if self.offload != "none":
            words += ["--offload", self.offload]
        if self.micro_batches != 1:
            words += ["--micro-batches", str(self.micro_batches)]
        for flag, patterns in (("--metric", self.metrics), ("--freeze", self.freeze), ("--train-only", self.train_only), ("--no-decay", self.no_decay), ("--adapt", self.adapt), ("--keep-bf16", self.keep_bf16)):
            if patterns:
                words += [flag, patterns if isinstance(patterns, str) else ",".join(patterns)]
        return words
