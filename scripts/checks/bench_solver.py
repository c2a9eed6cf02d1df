# SPDX-License-Identifier: Apache-2.0
"""Intra-operator problems in the public contest format, solved at their time limits: best known cost / ours.

The folder holds NAME.json.gz files and a README.md with a table whose first columns are `file`, and which has columns named
`time limit s` and `best known`. Each solution is judged here, not by the solver.
"""

import gzip
import json
import pathlib
import re
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import autopar

from . import measuring

#: A tenth of the limits shows how fast a good solution is there.
SHARES = (0.1, 1.0)


class Entry(NamedTuple):
    """A row of the table."""

    name: str
    limit_s: float
    best_known: float


def read_table(folder: pathlib.Path) -> List[Entry]:
    """The problems that have a row and a file; ValueError where there are none."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in (folder / "README.md").read_text().splitlines() if line.lstrip().startswith("|")]
    header = rows[0] if rows else []
    if not {"file", "time limit s", "best known"} <= set(header):
        raise ValueError(f"{folder}/README.md: expected a table with the columns file, time limit s and best known")
    entries = []
    for row in rows[2:]:
        cells = dict(zip(header, row))
        number = re.match(r"\d+", cells["best known"])
        if number and (folder / f"{cells['file']}.json.gz").exists():
            entries.append(Entry(cells["file"], float(cells["time limit s"]), float(number.group())))
    if not entries:
        raise ValueError(f"{folder}: no NAME.json.gz belongs to a row of README.md")
    return entries


def judge(problem: Dict[str, Any], choice: List[int]) -> Tuple[int, int]:
    """Cost and peak usage of a solution."""
    nodes, edges = problem["nodes"], problem["edges"]
    if len(choice) != len(nodes["costs"]) or not all(0 <= k < len(costs) for k, costs in zip(choice, nodes["costs"])):
        raise ValueError("the solution does not name one strategy per node")
    cost = sum(costs[k] for costs, k in zip(nodes["costs"], choice))
    for (a, b), matrix in zip(edges["nodes"], edges["costs"]):
        cost += matrix[choice[a] * len(nodes["costs"][b]) + choice[b]]
    changes: Dict[int, int] = {}
    for (begin, end), usages, k in zip(nodes["intervals"], nodes["usages"], choice):
        if begin < end:
            changes[begin] = changes.get(begin, 0) + usages[k]
            changes[end] = changes.get(end, 0) - usages[k]
    held = peak = 0
    for when in sorted(changes):
        held += changes[when]
        peak = max(peak, held)
    return cost, peak


def score(entry: Entry, folder: pathlib.Path, share: float) -> Dict[str, Any]:
    """One problem at a share of its limit; 0 for a solution that does not fit or comes late."""
    path, limit = folder / f"{entry.name}.json.gz", entry.limit_s * share
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        output = pathlib.Path(scratch, "solution.json")
        run = measuring.run_measured([autopar.find_tool("autopar-solve"), path, "--time-limit", limit, "-o", output, "--json"])
        choice = json.loads(output.read_text())["solution"]
    problem = json.loads(gzip.decompress(path.read_bytes()))["problem"]
    cost, peak = judge(problem, choice)
    good = peak <= problem["usage_limit"] and run.seconds <= limit
    told = measuring.last_json(run.output)
    return {"value": entry.best_known / cost if good else 0.0, "cost": cost, "gap": round(told["gap"], 5),
            "seconds": round(run.seconds, 2), "peak_gib": round(run.peak_bytes / 2**30, 3)}


def cases(folder: pathlib.Path) -> Iterator[Dict[str, Any]]:
    """Per share of the time limits: each problem's score, and their mean, against the project's goal."""
    entries = read_table(folder)
    for share in SHARES:
        scores = []
        for entry in entries:
            found = score(entry, folder, share)
            scores.append(found["value"])
            yield measuring.case(f"{entry.name}, {entry.limit_s * share:g} s", found.pop("value"), "score", 1.0, **found)
        yield measuring.case(f"mean at {share:g} of the limits", sum(scores) / len(scores), "score", 0.97)
