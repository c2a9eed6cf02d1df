# SPDX-License-Identifier: Apache-2.0
"""time_limit.py: a test that waits for ever fails with its name, and those behind it run."""

import os
import pathlib
import subprocess
import sys

TESTS = """
import subprocess, threading

def test_a_command_does_not_end():
    subprocess.run(["sleep", "60"])

def test_a_thread_does_not_end():
    try:
        threading.Event().wait()
    except Exception:
        pass

def test_one_that_passes():
    pass
"""
NATIVE = """
import ctypes

def test_a_call_does_not_return():
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


def run(folder: pathlib.Path, tests: str) -> "subprocess.CompletedProcess[str]":
    (folder / "test_them.py").write_text(tests)
    (folder / "conftest.py").write_text("import time_limit\n\ndef pytest_configure(config):\n    config.pluginmanager.register(time_limit)\n")
    environment = dict(os.environ, AUTOPAR_TEST_LIMIT_S="1", PYTHONPATH=str(pathlib.Path(__file__).parent))
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder], env=environment, cwd=folder,
                          capture_output=True, text=True, timeout=60, check=False)


def test_what_waits_for_ever_fails_with_its_name_and_place(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, TESTS)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    for name, place in (("test_a_command_does_not_end", 'subprocess.run(["sleep", "60"])'), ("test_a_thread_does_not_end", "threading.Event().wait()")):
        assert f"{name} has not ended after 1 s" in done.stdout and place in done.stdout


def test_a_call_that_python_cannot_interrupt_ends_with_all_stacks(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, NATIVE)
    assert done.returncode not in (0, None) and "in test_a_call_does_not_return" in done.stderr, done.stdout + done.stderr
