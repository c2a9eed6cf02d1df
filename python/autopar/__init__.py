# SPDX-License-Identifier: Apache-2.0
"""AutoPar from Python: compile an ONNX model for a number of ranks, run the result with NumPy arrays in and out.

    import autopar
    autopar.compile("gpt2.onnx", bind={"batch": 8, "seq": 128}, ranks=4, output="compiled.bin")
    with autopar.Session("compiled.bin") as session:
        logits = session.run({"input_ids": ids})["logits"]

    step = autopar.compile("gpt2.onnx", "train.bin", bind={"batch": 8, "seq": 128}, ranks=4,
                           train=autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=3e-4)))
    with autopar.Session(step) as session:
        for ids, labels in batches:
            loss = session.run({"input_ids": ids, "labels": labels})["loss"]

The compiler runs as its own process; `Session` loads the runtime into this one. Nothing native is loaded before it is
used, so `autopar.models` (the model zoo) works without a build.
"""

from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from .compiler import Compiled, compile, update_onnx
    from .errors import Error
    from .generation import Generator
    from .peft import read_peft, write_peft
    from .programs import Programs
    from .session import Port, Session, load
    from .tools import find_tool
    from .training import SGD, Adagrad, Adam, AdamW, Lion, Muon, Train
    from .world import World

_PLACES = {
    "Compiled": "compiler",
    "compile": "compiler",
    "update_onnx": "compiler",
    "Error": "errors",
    "Generator": "generation",
    "read_peft": "peft",
    "write_peft": "peft",
    "Programs": "programs",
    "Port": "session",
    "Session": "session",
    "load": "session",
    "find_tool": "tools",
    "World": "world",
    **dict.fromkeys(("Adagrad", "Adam", "AdamW", "Lion", "Muon", "SGD", "Train"), "training"),
}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> object:
    """Imports a public name from its module when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module 'autopar' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)


def __dir__() -> List[str]:
    """The public names, loaded or not."""
    return __all__
