# SPDX-License-Identifier: Apache-2.0
"""The list of families, and the lookup of a model by name."""

import difflib
from typing import List

from . import bert, bert_moe, deepseek, gpt2, gpt3, gpt_oss, llama3, mixtral, qwen3, qwen3_moe, resnet, t5, vit, vit_moe, wide_resnet
from .family import Family, ModelError

FAMILIES: List[Family] = [
    gpt2.FAMILY,
    gpt3.FAMILY,
    llama3.FAMILY,
    bert.FAMILY,
    vit.FAMILY,
    t5.FAMILY,
    resnet.FAMILY,
    wide_resnet.FAMILY,
    bert_moe.FAMILY,
    vit_moe.FAMILY,
    mixtral.FAMILY,
    qwen3.FAMILY,
    qwen3_moe.FAMILY,
    deepseek.FAMILY,
    gpt_oss.FAMILY,
]


def names() -> List[str]:
    """Every model of the zoo, family by family."""
    return [size for family in FAMILIES for size in family.sizes]


def find(name: str) -> Family:
    """The family that has a model called `name`; raises ModelError with close matches otherwise."""
    for family in FAMILIES:
        if name in family.sizes:
            return family
    close = difflib.get_close_matches(name, names(), n=4, cutoff=0.5)
    close += [n for n in names() if n.startswith(name) and n not in close]
    hint = f", did you mean: {', '.join(close)}" if close else ""
    raise ModelError(f"unknown model '{name}'{hint} (--list shows all {len(names())})")
