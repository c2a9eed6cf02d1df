# SPDX-License-Identifier: Apache-2.0
"""Each test, and what it sets up, has a limit: what waits for ever fails, and its traceback says where it waited.

What Python cannot interrupt (a call of the runtime that does not return) ends pytest a while later, after the stacks of all threads.
"""

import contextlib
import faulthandler
import os
import signal
import sys
from typing import Any, Iterator

import pytest

#: More than any test takes on a busy machine; AUTOPAR_TEST_LIMIT_S is another one.
LIMIT_S = float(os.environ.get("AUTOPAR_TEST_LIMIT_S", "600"))
#: How much later everything ends.
GRACE_S = min(30.0, LIMIT_S)
#: Where stacks go, a descriptor: what a test writes is kept from the terminal.
TERMINAL = pytest.StashKey[int]()


class TooLate(BaseException):
    """No test catches it among the errors that it expects."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TERMINAL] = os.dup(sys.__stderr__.fileno())


@contextlib.contextmanager
def limited(item: pytest.Item, what: str) -> Iterator[None]:
    def end(*_: Any) -> None:
        raise TooLate(f"{what} has not ended after {LIMIT_S:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    faulthandler.dump_traceback_later(LIMIT_S + GRACE_S, exit=True, file=item.config.stash[TERMINAL])
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Any:
    with limited(item, f"what {item.name} needs"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    with limited(item, item.name):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Any:
    with limited(item, f"the end of {item.name}"):
        return (yield)
