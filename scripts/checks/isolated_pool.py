# SPDX-License-Identifier: Apache-2.0
"""A process pool in which a crash or hang of one item costs that item only.

concurrent.futures gives up the whole pool when a worker dies; here the worker's item is reported as crashed and a fresh
worker takes its place.
"""

import multiprocessing
import multiprocessing.connection
import signal
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

_CONTEXT = multiprocessing.get_context("fork")


class Crash(NamedTuple):
    """The worker died or was stopped while it worked on the item."""

    reason: str


class _Worker:
    """One child process that answers items over a pipe."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.pipe, child = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(child, function), daemon=True)
        self.process.start()
        child.close()
        self.index = -1
        self.since = 0.0

    def give(self, index: int, item: Any) -> None:
        self.index, self.since = index, time.monotonic()
        self.pipe.send(item)

    def death(self) -> Crash:
        """Why the process ended, in words."""
        self.process.join()
        code = self.process.exitcode or 0
        return Crash(f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}")


def _serve(pipe: multiprocessing.connection.Connection, function: Callable[[Any], Any]) -> None:
    """The child's loop: an item in, an answer out, until the pipe closes."""
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(function(item))
        except Exception as error:  # the check's own fault; reported with the item, the run goes on
            pipe.send(Crash(f"{type(error).__name__}: {error}"))


def run_isolated(
    function: Callable[[Any], Any], items: Sequence[Any], jobs: int, timeout_s: float
) -> Iterator[Tuple[Any, Any]]:
    """Yields (item, function(item) or Crash) as they finish; each item may take timeout_s."""
    waiting: List[int] = list(range(len(items)))[::-1]
    busy: Dict[Any, _Worker] = {}
    idle: List[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < jobs:
                worker = idle.pop() if idle else _Worker(function)
                index = waiting.pop()
                worker.give(index, items[index])
                busy[worker.pipe] = worker
            for pipe in multiprocessing.connection.wait(list(busy), timeout=1.0):
                worker = busy.pop(pipe)
                try:
                    answer = worker.pipe.recv()
                    idle.append(worker)
                except EOFError:
                    answer = worker.death()
                yield items[worker.index], answer
            for pipe, worker in list(busy.items()):
                if time.monotonic() - worker.since > timeout_s:
                    worker.process.kill()
                    worker.process.join()
                    del busy[pipe]
                    yield items[worker.index], Crash(f"stopped after {timeout_s:.0f} s")
    finally:
        for worker in [*idle, *busy.values()]:
            worker.pipe.close()
            worker.process.kill()
