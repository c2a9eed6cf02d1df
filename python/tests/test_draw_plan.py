# SPDX-License-Identifier: Apache-2.0
"""scripts/run-check draw_plan: every pass of every micro-batch is in the picture of a plan."""

import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

import autopar
from autopar import models

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_micro_batch_is_drawn_on_every_mesh(tmp_path: pathlib.Path) -> None:
    models.save("gpt2-124m", tmp_path / "m.onnx", layers=2, hidden=64, heads=2, vocab=101, positions=32)
    subprocess.run([autopar.find_tool("autopar-compile"), tmp_path / "m.onnx", "--bind", "batch=8,seq=32", "--cluster", "presets:h100x2", "--stages", "2", "--micro-batches", "4",
                    "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "sgd(lr=0.1)", "--plan-only", "-o", tmp_path / "plan.json",
                    "--trace", tmp_path / "trace.json", "--quiet"], check=True, timeout=120)
    subprocess.run([sys.executable, "-m", "checks.draw_plan", tmp_path / "trace.json", "-o", tmp_path / "plan.svg"], check=True, timeout=60, cwd=ROOT / "scripts")
    boxes = [element for element in xml.parse(tmp_path / "plan.svg").iter("{http://www.w3.org/2000/svg}rect") if element.get("height") == "34"]
    for colour in ("#4c78a8", "#f58518"):
        assert len([box for box in boxes if box.get("fill") == colour]) == 2 * 4
