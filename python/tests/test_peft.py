# SPDX-License-Identifier: Apache-2.0
"""Adapters to and from folders as PEFT writes them."""

import json
import pathlib
from typing import Any, Callable, Dict

import numpy as np
import pytest

import autopar
from autopar import models

from safetensors_files import read_safetensors, write_safetensors

CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "target_modules": ["c_attn"], "use_dora": False, "rank_pattern": {}, "modules_to_save": None}


def adapters(rank: int = 2) -> Dict[str, np.ndarray]:
    """Of the first product of attention in a gpt2 of width 16."""
    random = np.random.default_rng(0)
    return {"transformer.h.0.attn.c_attn.lora_A.weight": random.standard_normal((rank, 16)).astype(np.float32),
            "transformer.h.0.attn.c_attn.lora_B.weight": random.standard_normal((48, rank)).astype(np.float32)}


def saved(folder: pathlib.Path, tensors: Dict[str, np.ndarray], **changes: Any) -> pathlib.Path:
    """A folder as save_pretrained of PEFT leaves it."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({**CONFIG, **changes}))
    write_safetensors(folder / "adapter_model.safetensors", {f"base_model.model.{name}": value for name, value in tensors.items()})
    return folder


def test_a_folder_of_peft_serves_and_trains_and_goes_back(tmp_path: pathlib.Path) -> None:
    model = tmp_path / "gpt2.onnx"
    models.save("gpt2-124m", model, layers=1, hidden=16, heads=2, vocab=29, positions=8)
    read = autopar.read_peft(saved(tmp_path / "given", adapters()), tmp_path / "lora.safetensors")
    assert read == ("lora(rank=2, alpha=8)", ["transformer.h.0.attn.c_attn.weight"])
    assert all((value == adapters()[name]).all() for name, value in read_safetensors(tmp_path / "lora.safetensors").items())
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.5), adapters=read.adapters, adapt=read.adapt)
    autopar.compile(model, tmp_path / "train.bin", bind={"batch": 2, "seq": 8}, train=train, options=["--quiet"])
    ids = np.arange(16).reshape(2, 8)
    with autopar.Session(tmp_path / "train.bin", initializer=tmp_path / "lora.safetensors") as session:
        session.run({"input_ids": ids, "labels": ids})
        session.export(tmp_path / "trained.safetensors")
    autopar.write_peft(tmp_path / "trained.safetensors", tmp_path / "made", alpha=8, base_model="gpt2")
    config = json.loads((tmp_path / "made" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["target_modules"], config["base_model_name_or_path"]) == (2, 8, ["transformer.h.0.attn.c_attn"], "gpt2")
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    made = read_safetensors(tmp_path / "made" / "adapter_model.safetensors")
    for name, value in read_safetensors(tmp_path / "trained.safetensors").items():
        assert (made[f"base_model.model.{name}"] == value).all() and (value != adapters()[name]).any()
    assert autopar.read_peft(tmp_path / "made", tmp_path / "again.safetensors") == read


def partly(tensors: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    return {name: value for name, value in tensors.items() if "lora_A" in name}


REFUSED_FOLDERS: Dict[str, Callable[[pathlib.Path], Any]] = {
    "expected plain LoRA, got use_dora": lambda folder: saved(folder, adapters(), use_dora=True),
    "expected plain LoRA, got rank_pattern": lambda folder: saved(folder, adapters(), rank_pattern={"c_attn": 4}),
    "expected plain LoRA, got IA3": lambda folder: saved(folder, adapters(), peft_type="IA3"),
    "r is 2, but there are adapters of rank 3": lambda folder: saved(folder, adapters(3)),
    "'transformer.h.0.attn.c_attn.lora_A.weight' is there without 'transformer.h.0.attn.c_attn.lora_B.weight'": lambda folder: saved(folder, partly(adapters())),
    "no configuration of LoRA": lambda folder: saved(folder, adapters(), r=None),
    "cannot read .*adapter_config.json: No such file": lambda folder: folder.mkdir(),
    "has no adapters": lambda folder: saved(folder, {}),
    "is no safetensors file": lambda folder: (saved(folder, adapters()) / "adapter_model.safetensors").write_bytes(b"\xff" * 40),
    "expected names that begin with base_model.model., got 'up.lora_A.weight'":
        lambda folder: write_safetensors(saved(folder, {}) / "adapter_model.safetensors", {"up.lora_A.weight": np.ones((2, 2), np.float32)}),
}


@pytest.mark.parametrize("text", REFUSED_FOLDERS)
def test_other_folders_are_refused(tmp_path: pathlib.Path, text: str) -> None:
    REFUSED_FOLDERS[text](tmp_path / "given")
    with pytest.raises(autopar.Error, match=text):
        autopar.read_peft(tmp_path / "given", tmp_path / "lora.safetensors")
    assert not (tmp_path / "lora.safetensors").exists()


@pytest.mark.parametrize("tensors,text", [
    ({"fc.weight": np.ones((2, 2), np.float32)}, r"'fc.weight' is no matrix of an adapter \(MODULE.lora_A.weight, MODULE.lora_B.weight\)"),
    ({"fc.bias": np.ones(2, np.float32)}, "expected the matrices of adapters, got tensors of other ranks"),
    ({**adapters(), "fc.lora_A.weight": np.ones((3, 4), np.float32), "fc.lora_B.weight": np.ones((4, 3), np.float32)}, "adapters of ranks 2, 3; expected one rank"),
])
def test_other_weights_are_refused(tmp_path: pathlib.Path, tensors: Dict[str, np.ndarray], text: str) -> None:
    write_safetensors(tmp_path / "weights.safetensors", tensors)
    with pytest.raises(autopar.Error, match=text):
        autopar.write_peft(tmp_path / "weights.safetensors", tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: pathlib.Path) -> None:
    write_safetensors(tmp_path / "weights.safetensors", adapters())
    (tmp_path / "file").write_text("")
    with pytest.raises(autopar.Error, match="cannot write .*file") as refused:
        autopar.write_peft(tmp_path / "weights.safetensors", tmp_path / "file")
    assert refused.value.code == 73
