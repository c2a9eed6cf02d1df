# SPDX-License-Identifier: Apache-2.0
"""Adapters as PEFT keeps them (Hugging Face; its folder of adapter_config.json and adapter_model.safetensors), written and read
without it. The two matrices of an adapter have the same names here and there, but for a prefix."""

import contextlib
import json
import os
import pathlib
import shutil
import struct
from typing import Any, Dict, Iterator, List, NamedTuple, Union

from .errors import Error

PathLike = Union[str, "os.PathLike[str]"]

PREFIX = "base_model.model."
A, B = ".lora_A.weight", ".lora_B.weight"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MOST_HEADER = 100 << 20  # as the format says


class Adapters(NamedTuple):
    """What a program needs to be compiled with for adapters that were read."""

    #: For `Train(adapters=)` and `--adapters`: "lora(rank=8, alpha=16)".
    adapters: str
    #: For `Train(adapt=)`; `--adapt` takes them with commas between.
    adapt: List[str]


class _File(NamedTuple):
    tensors: Dict[str, Dict[str, Any]]
    data: int  # where the bytes of tensors begin


def _bad(text: str) -> Error:
    return Error(65, text)


def _unreadable(path: pathlib.Path, error: OSError) -> Error:
    return Error(66, f"cannot read {path}: {error.strerror}")


def _uncreatable(path: pathlib.Path, error: OSError) -> Error:
    return Error(73, f"cannot write {path}: {error.strerror}")


def _header(path: pathlib.Path) -> _File:
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            tensors = json.loads(file.read(min(length, MOST_HEADER)))
        tensors.pop("__metadata__", None)
        shapes = [entry["shape"] for entry in tensors.values()]
    except OSError as error:
        raise _unreadable(path, error) from None
    except (ValueError, struct.error, AttributeError, KeyError, TypeError):
        raise _bad(f"{path} is no safetensors file") from None
    if not all(isinstance(shape, list) and len(shape) == 2 for shape in shapes):
        raise _bad(f"{path}: expected the matrices of adapters, got tensors of other ranks")
    return _File(tensors, 8 + length)


@contextlib.contextmanager
def _replacing(path: pathlib.Path) -> Iterator[Any]:
    """A file that takes the place of `path` once all of it is written."""
    new = path.with_name(path.name + ".new")
    try:
        with open(new, "wb") as file:
            yield file
        os.replace(new, path)
    except OSError as error:
        raise _uncreatable(path, error) from None
    finally:
        new.unlink(missing_ok=True)


def _copy(source: pathlib.Path, file: _File, names: Dict[str, str], output: pathlib.Path) -> None:
    """The same bytes under other names."""
    header = {"__metadata__": {"format": "pt"}, **{names[name]: entry for name, entry in file.tensors.items()}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(source, "rb") as data, _replacing(output) as out:
        out.write(struct.pack("<Q", len(text)) + text)
        data.seek(file.data)
        shutil.copyfileobj(data, out)


def _ranks(path: PathLike, tensors: Dict[str, Dict[str, Any]]) -> Dict[str, int]:
    """By the name of a module, the rank of its adapter."""
    ranks = {}
    for name, entry in tensors.items():
        module = name[: -len(A)] if name.endswith((A, B)) else ""
        other = module + (B if name.endswith(A) else A)
        if not module:
            raise _bad(f"{path}: '{name}' is no matrix of an adapter (MODULE{A}, MODULE{B})")
        if other not in tensors:
            raise _bad(f"{path}: '{name}' is there without '{other}'")
        if name.endswith(A):
            ranks[module] = int(entry["shape"][0])
    if not ranks:
        raise _bad(f"{path} has no adapters")
    return ranks


def write_peft(weights: PathLike, folder: PathLike, *, alpha: float = 0, base_model: str = "") -> None:
    """Makes of exported adapters a folder for `peft.PeftModel.from_pretrained(network, folder)`.

    weights: a safetensors file of `Session.export` or `autopar-run --export`, of a program with adapters alone.
    folder: made where it does not exist; its two files are replaced.
    alpha: that of `lora(rank=8, alpha=16)`; 0: as the rank, as there.
    base_model: the name or path of the network, which goes into the configuration.
    Error 65 where the file has something other than adapters of one rank, 66 or 73 where it cannot be read, or the folder not be written."""
    weights, folder = pathlib.Path(weights), pathlib.Path(folder)
    file = _header(weights)
    ranks = _ranks(weights, file.tensors)
    if len(set(ranks.values())) > 1:
        raise _bad(f"{weights}: adapters of ranks {', '.join(map(str, sorted(set(ranks.values()))))}; expected one rank")
    rank = next(iter(ranks.values()))
    config = {"peft_type": "LORA", "base_model_name_or_path": base_model or None, "r": rank, "lora_alpha": alpha or rank, "lora_dropout": 0.0,
              "target_modules": sorted(ranks), "bias": "none", "task_type": None, "inference_mode": True}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _uncreatable(folder, error) from None
    _copy(weights, file, {name: PREFIX + name for name in file.tensors}, folder / WEIGHTS)
    with _replacing(folder / CONFIG) as out:
        out.write((json.dumps(config, indent=2) + "\n").encode())


def read_peft(folder: PathLike, output: PathLike) -> Adapters:
    """Makes of a folder that PEFT saved (`save_pretrained`) a safetensors file for `Session(initializer=)` or `--init`.

    Returns what the program is to be compiled with. Error 65 where it has something other than LoRA of one rank and alpha on whole
    matrices, 66 or 73 where it cannot be read, or the file not be written."""
    folder, output = pathlib.Path(folder), pathlib.Path(output)
    try:
        config = json.loads((folder / CONFIG).read_text())
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
    except OSError as error:
        raise _unreadable(folder / CONFIG, error) from None
    except (ValueError, KeyError, TypeError):
        raise _bad(f"{folder / CONFIG} is no configuration of LoRA with r and lora_alpha") from None
    used = [key for key in ("use_dora", "use_rslora", "alpha_pattern", "rank_pattern", "lora_bias", "modules_to_save") if config.get(key)]
    if config.get("peft_type") != "LORA" or used:
        raise _bad(f"{folder / CONFIG}: expected plain LoRA, got {', '.join(used) or config.get('peft_type')}")
    file = _header(folder / WEIGHTS)
    names = {name: name[len(PREFIX):] for name in file.tensors if name.startswith(PREFIX)}
    if len(names) < len(file.tensors):
        raise _bad(f"{folder / WEIGHTS}: expected names that begin with {PREFIX}, got '{next(name for name in file.tensors if name not in names)}'")
    ranks = _ranks(folder / WEIGHTS, {names[name]: entry for name, entry in file.tensors.items()})
    if set(ranks.values()) != {rank}:
        raise _bad(f"{folder}: r is {rank}, but there are adapters of rank {', '.join(map(str, sorted(set(ranks.values()) - {rank})))}")
    _copy(folder / WEIGHTS, file, names, output)
    return Adapters(f"lora(rank={rank}, alpha={alpha:g})", [f"{module}.weight" for module in sorted(ranks)])
