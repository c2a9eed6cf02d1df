# SPDX-License-Identifier: Apache-2.0
"""Profile databases and chains for tests: transformer-like operations with made-up but consistent measurements."""

import copy
import json
import pathlib
from typing import Any, Dict, List, Optional, Sequence

MIB = 1 << 20
COLUMNS = {"name": "columns", "inputs": ["whole"], "outputs": ["hidden"]}
ROWS = {"name": "rows", "inputs": ["hidden"], "outputs": ["partial"]}


def operation(key: str, batches: Sequence[int], degrees: Sequence[int], *, us: float, in_bytes: int, out_bytes: int, weight: int = 0, saved: int = 0,
              workspace: int = 0, choices: Sequence[Dict[str, Any]] = (), floor: float = 5, loss: bool = False) -> Dict[str, Any]:
    """Times are floor + us x samples / degree, the backward pass twice that, half of which is the weight's."""
    rows = []
    for batch in batches:
        for degree in degrees:
            for choice in [None] if degree == 1 else choices:
                share = 1 / degree
                split_in = choice is not None and choice["inputs"][0] not in ("whole", "partial")
                split_out = choice is not None and choice["outputs"][0] not in ("whole", "partial")
                forward = floor + us * batch * share if us else 0
                row = {"batch": batch, "degree": degree, "forward_us": forward, "backward_us": 2 * forward, "weight_gradient_us": forward if weight else 0,
                       "bytes_in": int(in_bytes * batch * (share if split_in else 1)),
                       "bytes_out": 0 if loss else int(out_bytes * batch * (share if split_out else 1)),
                       "weight_bytes": int(weight * (share if choice and choice.get("weight", "split") == "split" else 1)),
                       "saved_bytes": int(saved * batch * share), "workspace_bytes": workspace}
                if choice:
                    row["choice"] = choice["name"]
                rows.append(row)
    made = {"key": key, "choices": copy.deepcopy(list(choices)), "rows": rows}
    if loss:
        made["loss"] = True
    return made


def database(batches: Sequence[int] = (1, 2, 4, 8), degrees: Sequence[int] = (1, 2, 4, 8), scale: int = 1) -> Dict[str, Any]:
    """A feed-forward layer between norms, and a loss."""
    common = {"batches": batches, "degrees": degrees}
    token = 2 * MIB * scale
    return {
        "kind": "autopar.profile", "version": 1, "device": "made up", "dtype": "bf16", "weight_dtype": "bf16", "dimensions": ["hidden"],
        "batches": list(batches), "degrees": list(degrees),
        "ops": [
            operation("embed", **common, us=20, in_bytes=4096, out_bytes=token, weight=64 * MIB * scale, saved=4096),
            operation("norm", **common, us=10, in_bytes=token, out_bytes=token, weight=4096, saved=token),
            operation("fc1", **common, us=400, in_bytes=token, out_bytes=4 * token, weight=32 * MIB * scale, saved=token, workspace=MIB, choices=[COLUMNS, ROWS]),
            operation("fc2", **common, us=400, in_bytes=4 * token, out_bytes=token, weight=32 * MIB * scale, saved=4 * token, choices=[COLUMNS, ROWS]),
            operation("loss", **common, us=10, in_bytes=token, out_bytes=0, loss=True),
        ],
    }


def chain(operations: int, batch: int) -> Dict[str, Any]:
    """embed, then norm, fc1, fc2 over and over, then the loss: `operations` in all."""
    body: List[Dict[str, Any]] = [{"id": "embed", "op": "embed"}]
    while len(body) < operations - 1:
        layer, place = divmod(len(body) - 1, 3)
        key = ("norm", "fc1", "fc2")[place]
        body.append({"id": f"h.{layer}.{key}", "op": key})
    body.append({"id": "loss", "op": "loss"})
    return {"kind": "autopar.graph", "version": 1, "name": "chain", "batch": batch, "ops": body}


def write(folder: pathlib.Path, graph: Dict[str, Any], profile: Dict[str, Any], name: Optional[str] = None) -> List[str]:
    """The words of a command line that plans the graph."""
    files = []
    for kind, content in (("graph", graph), ("profile", profile)):
        files.append(folder / f"{name or 'chain'}-{kind}.json")
        files[-1].write_text(json.dumps(content))
    return [str(files[0]), "--profile", str(files[1])]


TRAINED = ["--train", "loss=loss", "--optimizer", "adamw(lr=1e-3)"]
