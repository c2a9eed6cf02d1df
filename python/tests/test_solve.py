# SPDX-License-Identifier: Apache-2.0
"""`autopar-solve`: contest problems in, solutions out; judged by an evaluation of its own."""

import gzip
import itertools
import json
import pathlib
import random
import subprocess
import time
from typing import Any, Dict, List, Optional, Tuple

import autopar
import pytest

FORBIDDEN = 10**18
Problem = Dict[str, Any]


def drawn(seed: int, nodes: int, strategies: int, edges: int) -> Problem:
    """A problem with forbidden strategies and pairs, parallel edges and empty intervals."""
    draw = random.Random(seed)
    counts = [draw.randint(1, strategies) for _ in range(nodes)]
    begins = [draw.randint(0, nodes) for _ in range(nodes)]
    pairs = [draw.sample(range(nodes), 2) for _ in range(edges)]
    pairs += pairs[:2]
    usages = [[draw.randint(0, 50) for _ in range(count)] for count in counts]
    cost = lambda share: FORBIDDEN if draw.random() < share else draw.randint(0, 1000)
    return {"problem": {
        "nodes": {"intervals": [[begin, begin + draw.randint(0, 4)] for begin in begins],
                  "costs": [[cost(0.05 if k else 0) for k in range(count)] for count in counts], "usages": usages},
        "edges": {"nodes": pairs, "costs": [[cost(0.05) for _ in range(counts[a] * counts[b])] for a, b in pairs]},
        "usage_limit": 20 + sum(max(usage) for usage in usages) // 4}}


def judge(problem: Problem, choice: List[int]) -> Tuple[int, int]:
    """Cost and peak usage."""
    nodes, edges = problem["problem"]["nodes"], problem["problem"]["edges"]
    cost = sum(costs[k] for costs, k in zip(nodes["costs"], choice))
    for (a, b), matrix in zip(edges["nodes"], edges["costs"]):
        cost += matrix[choice[a] * len(nodes["costs"][b]) + choice[b]]
    times = range(max(end for _, end in nodes["intervals"]) + 1)
    held = [sum(usage[k] for (begin, end), usage, k in zip(nodes["intervals"], nodes["usages"], choice) if begin <= t < end)
            for t in times]
    return cost, max(held)


def cheapest(problem: Problem) -> Optional[int]:
    """The optimum, by trying everything."""
    counts = [range(len(costs)) for costs in problem["problem"]["nodes"]["costs"]]
    judged = [judge(problem, list(choice)) for choice in itertools.product(*counts)]
    fitting = [cost for cost, peak in judged if peak <= problem["problem"]["usage_limit"] and cost < FORBIDDEN // 10]
    return min(fitting, default=None)


def solve(path: pathlib.Path, *options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs the tool."""
    command = [autopar.find_tool("autopar-solve"), path, *options]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)


def write(path: pathlib.Path, problem: Any) -> pathlib.Path:
    """As JSON, gzipped where the name says so."""
    text = json.dumps(problem).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def test_small_problems_are_solved_to_the_optimum(tmp_path: pathlib.Path) -> None:
    feasible = 0
    for seed in range(12):
        problem = drawn(seed, nodes=6, strategies=3, edges=7)
        best = cheapest(problem)
        answer = solve(write(tmp_path / "p.json.gz", problem), "-o", tmp_path / "s.json", "--work-units", 5, "--json", "--quiet")
        if best is None:
            assert answer.returncode == 65, seed
            continue
        feasible += 1
        assert answer.returncode == 0, answer.stderr
        choice = json.loads((tmp_path / "s.json").read_text())["solution"]
        cost, peak = judge(problem, choice)
        told = json.loads(answer.stdout)
        assert cost == best == told["cost"] and peak <= problem["problem"]["usage_limit"], seed
        assert told["lower_bound"] <= best
    assert feasible >= 6


def test_a_time_limit_holds_and_progress_is_told(tmp_path: pathlib.Path) -> None:
    problem = drawn(3, nodes=1500, strategies=8, edges=2600)
    for costs in problem["problem"]["edges"]["costs"]:
        costs[:] = [cost % 1009 for cost in costs]
    for engine in ["auto", "own", "exact"]:
        start = time.monotonic()
        answer = solve(write(tmp_path / "p.json", problem), "-o", tmp_path / "s.json", "--time-limit", 2, "--engine", engine)
        assert answer.returncode == 0, answer.stderr
        assert time.monotonic() - start < 3.5, "with what a busy machine adds"
        cost, peak = judge(problem, json.loads((tmp_path / "s.json").read_text())["solution"])
        assert cost < FORBIDDEN // 10 and peak <= problem["problem"]["usage_limit"]
        assert " s  cost " in answer.stderr and " bound " in answer.stderr and " gap " in answer.stderr


def test_a_limit_below_the_smallest_strategies_is_refused_with_the_proof(tmp_path: pathlib.Path) -> None:
    problem = {"problem": {"nodes": {"intervals": [[0, 3], [1, 2]], "costs": [[1, 2], [3, 4]], "usages": [[30, 20], [25, 5]]},
                           "edges": {"nodes": [[0, 1]], "costs": [[0, FORBIDDEN, 0, 0]]}, "usage_limit": 24}}
    answer = solve(write(tmp_path / "p.json", problem))
    assert answer.returncode == 65
    assert ("no choice fits into 24 bytes: the smallest strategies alone hold 25 bytes; the least found is 25 bytes"
            in answer.stderr)


@pytest.mark.parametrize("change, message", [
    (lambda p: p["edges"]["costs"][1].pop(), "edge 1 between node"),
    (lambda p: p["edges"]["costs"].pop(), "problem.edges: nodes and costs differ in length"),
    (lambda p: p["nodes"]["usages"].pop(), "problem.nodes: intervals, costs and usages differ in length"),
    (lambda p: p["nodes"]["usages"][2].append(1), "problem.nodes.usages[2]: has"),
    (lambda p: p["edges"]["nodes"].__setitem__(0, [0, 99]), "problem.edges.nodes[0]: names a node that is not one"),
    (lambda p: p["nodes"]["costs"].__setitem__(0, "cheap"), "problem.nodes.costs[0]: expected a list of numbers"),
    (lambda p: p["nodes"]["costs"][0].__setitem__(0, -1), "node 0: strategy 0 has a negative or infinite time"),
    (lambda p: p["nodes"]["intervals"].__setitem__(0, [1]), "problem.nodes.intervals[0]: expected [begin, end]"),
    (lambda p: p["nodes"]["intervals"].__setitem__(0, [5, 1]), "problem.nodes.intervals[0]: ends at 1, before it begins at 5"),
    (lambda p: p["edges"]["nodes"].__setitem__(0, [1]), "problem.edges.nodes[0]: expected [node, node]"),
    (lambda p: p.__setitem__("usage_limit", "much"), "problem.usage_limit: expected a number"),
    (lambda p: p.__setitem__("usage_limit", 0), "problem.usage_limit: expected a number in [1, 1e18], found 0; without the key nothing is limited"),
    (lambda p: p.__setitem__("usage_limit", 1e300), "problem.usage_limit: expected a number in [1, 1e18], found 1e+300"),
    (lambda p: p.pop("edges"), "problem: expected an object with nodes and edges"),
])
def test_malformed_problems_are_refused_with_the_place(tmp_path: pathlib.Path, change: Any, message: str) -> None:
    problem = drawn(1, nodes=6, strategies=3, edges=7)
    change(problem["problem"])
    answer = solve(write(tmp_path / "p.json.gz", problem))
    assert answer.returncode == 65 and message in answer.stderr, answer.stderr


def test_files_that_are_no_problem_are_refused(tmp_path: pathlib.Path) -> None:
    whole = write(tmp_path / "p.json.gz", drawn(1, nodes=60, strategies=3, edges=70))
    whole.write_bytes(whole.read_bytes()[:-200])
    for path, code, message in [(whole, 74, "broken gzip data"), (tmp_path / "none.json", 66, "cannot open"),
                                (pathlib.Path("/dev/zero"), 65, "more than 1 GiB of text; expected a problem in JSON"),
                                (write(tmp_path / "list.json", [1]), 65, "expected an object with the key 'problem'")]:
        answer = solve(path)
        assert answer.returncode == code and message in answer.stderr, answer.stderr
    (tmp_path / "text.json").write_text('{"problem": ')
    assert "line 1" in solve(tmp_path / "text.json").stderr
    assert solve(tmp_path / "list.json", "--engine", "magic").returncode == 2
    assert "Examples:" in solve(tmp_path / "list.json", "--help").stdout
