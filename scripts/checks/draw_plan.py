# SPDX-License-Identifier: Apache-2.0
"""`scripts/run-check draw_plan TRACE -o FILE.svg`: a picture of the pipeline in a trace that `autopar-compile --plan-only --trace TRACE` wrote.

A row per mesh, a box per forward and backward pass of a micro-batch, its number inside.
"""

import argparse
import json
import pathlib
import re
from typing import Any, Dict, List

WIDTH, ROW, GAP, LEFT, TOP = 960, 34, 8, 92, 44
#: Of the kinds of a trace: what people call them, and a colour.
KINDS = {"F": ("forward", "#4c78a8"), "B": ("backward", "#f58518"), "W": ("gradients of weights", "#e45756"), "after": ("update", "#54a24b"),
         "before": ("before", "#9d9da1")}


def box(event: Dict[str, Any], row: int, scale: float, begin: float) -> str:
    x, width = LEFT + (event["ts"] - begin) * scale, max(event["dur"] * scale, 0.6)
    y = TOP + row * (ROW + GAP)
    number = re.search(r"micro-batch (\d+)", event["name"])
    text = f'<text x="{x + width / 2:.1f}" y="{y + 22}" text-anchor="middle" fill="white">{number[1]}</text>' if number and width > 12 else ""
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" fill="{KINDS[event["cat"]][1]}" stroke="white" stroke-width="0.7"/>{text}'


def draw(trace: Dict[str, Any]) -> str:
    """The SVG as text."""
    rows = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M" and event["name"] == "thread_name"}
    meshes = [tid for tid, name in rows.items() if name.startswith("mesh ")]
    events = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["tid"] in meshes]
    begin, end = min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)
    scale = (WIDTH - LEFT - 8) / (end - begin)
    height = TOP + len(meshes) * (ROW + GAP) + 4
    parts: List[str] = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
                        f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    x = LEFT
    for kind, (name, colour) in KINDS.items():
        if any(event["cat"] == kind and event["dur"] * scale > 2 for event in events):
            parts.append(f'<rect x="{x}" y="12" width="14" height="14" fill="{colour}"/><text x="{x + 20}" y="24">{name}</text>')
            x += 40 + 7 * len(name)
    parts.append(f'<text x="{WIDTH - 8}" y="24" text-anchor="end">one step, {(end - begin) / 1e3:.1f} ms</text>')
    for row, tid in enumerate(meshes):
        parts.append(f'<text x="8" y="{TOP + row * (ROW + GAP) + 22}">{rows[tid]}</text>')
        parts += [box(event, row, scale, begin) for event in events if event["tid"] == tid]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/run-check draw_plan", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    arguments.output.write_text(draw(json.loads(arguments.trace.read_text())))


if __name__ == "__main__":
    main()
