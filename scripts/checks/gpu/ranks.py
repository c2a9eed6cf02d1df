# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes, a GPU each, by NCCL: they compute what the CPU does, and all end when one is lost."""

import pathlib
import socket
import subprocess
import time
from typing import List, Optional

from .check import CASE_S, Check, Row
from .machine import first_lines
from .numerics import compare

#: How soon all ranks have to end when one is lost.
LOST_S = 10
#: How a program ends that lost a peer.
PEER_LOST = 75


def launch(check: Check, case: dict, ranks: int, *after: str) -> "List[subprocess.Popen[bytes]]":
    """Starts the ranks as torchrun would. What each says lies beside the outputs."""
    check.require_time()
    check.empty_out(case)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [check.program("autopar-run"), case["artifacts"][str(ranks)], *case["arguments"], *after, "--communication", "nccl", "--output-dir", str(check.out(case))]
    processes = []
    for rank in range(ranks):
        own = dict(check.of_processes, WORLD_SIZE=str(ranks), RANK=str(rank), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        with (check.out(case) / f"{rank}.txt").open("wb") as said:
            processes.append(subprocess.Popen(words, cwd=check.folder / case["folder"], env=own, stdout=said, stderr=said))  # pylint: disable=consider-using-with
    return processes


def said_by(check: Check, case: dict, rank: int) -> str:
    return (check.out(case) / f"{rank}.txt").read_text(errors="replace")


def await_ranks(check: Check, case: dict, processes: "List[subprocess.Popen[bytes]]", limit_s: float) -> List[Optional[int]]:
    """How each ended; None: not within the limit, or not soon after another one failed, so it was killed."""
    end = min(time.monotonic() + limit_s, check.end)
    lost = float("inf")
    codes: List[Optional[int]] = [None]
    while None in codes and time.monotonic() < min(end, lost + LOST_S):
        time.sleep(0.05)
        codes = [process.poll() for process in processes]
        lost = min(lost, time.monotonic()) if any(codes) else lost
    for process in processes:
        process.kill()
        process.wait()
    for said in sorted(check.out(case).glob("*.txt")):
        check.keep(f"rank {said.stem}:\n{said.read_text(errors='replace')}")
    return codes


def same_as_cpu(check: Check, case: dict, ranks: int) -> None:
    name = f"{case['name']}, {ranks} processes"
    codes = await_ranks(check, case, launch(check, case, ranks, "--steps", str(case["steps"])), CASE_S)
    # One that only lost a peer does not tell why.
    failed = sorted((rank for rank, code in enumerate(codes) if code), key=lambda rank: codes[rank] == PEER_LOST)
    if failed:
        said = said_by(check, case, failed[0])
        return check.fail("processes", name, said, f"rank {failed[0]} ended with {codes[failed[0]]}: {first_lines(said)}")
    if None in codes:
        late = codes.index(None)
        return check.add(Row("processes", name, "FAILED", f"rank {late} did not end: {first_lines(said_by(check, case, late))}"))
    if "not captured" in said_by(check, case, 0):
        return check.add(Row("processes", name, "FAILED", first_lines(said_by(check, case, 0))))
    compare(check, "processes", case, name)


def await_step(metrics: pathlib.Path, processes: "List[subprocess.Popen[bytes]]", end: float) -> bool:
    """Whether all ranks live when the fifth step is done."""
    while (not metrics.exists() or metrics.read_text().count("\n") < 5) and time.monotonic() < end and all(p.poll() is None for p in processes):
        time.sleep(0.05)
    return all(process.poll() is None for process in processes) and time.monotonic() < end


def all_end_when_one_is_killed(check: Check, case: dict, ranks: int) -> None:
    """In the midst of captured steps."""
    name, metrics = f"{case['name']}, rank {ranks - 1} of {ranks} is killed", check.out(case) / "metrics"
    processes = launch(check, case, ranks, "--steps", "1000000", "--metrics", str(metrics))
    has_begun = await_step(metrics, processes, min(time.monotonic() + CASE_S, check.end))
    processes[-1].kill()
    begin = time.monotonic()
    codes = await_ranks(check, case, processes, LOST_S)[:-1]
    took = time.monotonic() - begin
    wrong = next((rank for rank, code in enumerate(codes) if code != PEER_LOST), None)
    if not has_begun:
        return check.fail("processes", name, said_by(check, case, 0), f"it did not come to the fifth step: {first_lines(said_by(check, case, 0))}")
    if wrong is not None:
        how = f"ended with {codes[wrong]}" if codes[wrong] is not None else f"did not end in {LOST_S} s"
        return check.add(Row("processes", name, "FAILED", f"rank {wrong} {how}: {first_lines(said_by(check, case, wrong))}"))
    check.add(Row("processes", name, "ok", f"all others ended within {took:.1f} s"))


def run(check: Check, gpus: int) -> None:
    """On as many GPUs as there are artifacts for."""
    for case in check.cases.get("processes", []):
        ranks = max((int(count) for count in case["artifacts"] if int(count) <= gpus), default=0)
        if not ranks:
            check.add(Row("processes", case["name"], "not there", f"it takes 2 GPUs or more, NCCL has {gpus}"))
            continue
        check.run("processes", case["name"], same_as_cpu, case, ranks)
        if case["is_killed"]:
            check.run("processes", f"{case['name']}, a rank is killed", all_end_when_one_is_killed, case, ranks)
