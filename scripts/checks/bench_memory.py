# SPDX-License-Identifier: Apache-2.0
"""Planned peak memory against what the process really used, for jobs of a GiB and more.

autopar-run reports both: the sum of all ranks' plans (weights, packed weights, scratch, communication buffers, state in host memory included)
and VmHWM minus its value before loading.
"""

import os
import pathlib
import tempfile
from typing import Any, Dict, Iterator

import autopar
from autopar import models

from . import measuring

GIB = 1 << 30
STEP = ["input_ids=zeros", "labels=zeros"]
#: name -> (model of the zoo, extents, ranks, inputs)
CASES = {
    "gpt2-350m 2x256": ("gpt2-350m", {"batch": 2, "seq": 256}, 1, ["input_ids=zeros"]),
    "gpt2-350m 2x256, 2 ranks": ("gpt2-350m", {"batch": 2, "seq": 256}, 2, ["input_ids=zeros"]),
    "bert-large 4x384": ("bert-large", {"batch": 4, "seq": 384}, 1,
                         ["input_ids=zeros", "attention_mask=zeros", "token_type_ids=zeros"]),
    "resnet50 192x3x224x224": ("resnet50", {"batch": 192}, 1, ["input=random"]),
    "gpt2-124m 2x64, training, state in host memory": ("gpt2-124m", {"batch": 2, "seq": 64}, 1, STEP),
    "gpt2-124m 2x64, training, state in host memory, 2 ranks": ("gpt2-124m", {"batch": 2, "seq": 64}, 2, STEP),
}
OFFLOADED = autopar.Train("softmax_cross_entropy(logits, labels)", offload="state")


def cases() -> Iterator[Dict[str, Any]]:
    """One case per job: measured GiB, with the plan as the reference."""
    threads = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for name, (size, bind, ranks, inputs) in CASES.items():
            model, artifact = pathlib.Path(folder, f"{size}.onnx"), pathlib.Path(folder, "compiled.bin")
            if not model.exists():
                models.save(size, model)
            per_rank = max(1, threads // ranks)
            autopar.compile(model, artifact, bind=bind, ranks=ranks, threads=per_rank, train=OFFLOADED if inputs is STEP else None)
            words = [word for value in inputs for word in ("--input", value)]
            report = measuring.last_json(measuring.run_measured(
                [autopar.find_tool("autopar-run"), artifact, *words, "--threads", per_rank, "--benchmark", "--steps", 1,
                 "--quiet"]).output)
            yield measuring.case(name, report["peak_bytes"] / GIB, "GiB", report["planned_bytes"] / GIB)
