# SPDX-License-Identifier: Apache-2.0
"""Files that do not fit, folders that cannot be written or are gone: an error with the documented exit code that names the
file, and nothing half-written left behind."""
import json
import os
import pathlib
import shutil
import subprocess
from typing import List

import numpy as np
import pytest

import autopar
from conftest import Example

#: Commands that write one file or folder at OUT, with the words that they need.
RUN = ["autopar-run", "PROGRAM", "--data", "synthetic", "--steps", "2", "--quiet"]
COMPILE = ["autopar-compile", "MODEL", "--bind", "BIND", "--ranks", "2", "--quiet"]
WRITERS = {
    "artifact": [*COMPILE, "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=0.1)", "-o", "OUT"],
    "plan": [*COMPILE, "--plan-only", "-o", "OUT"],
    "report": [*COMPILE, "--plan-only", "-o", "/dev/null", "--report", "OUT"],
    "module": [*COMPILE, "--stop-after=lower", "-o", "OUT"],
    "phases": [*COMPILE, "-o", "/dev/null", "--emit-mlir", "OUT"],
    "dump": ["autopar-translate", "--dump", "PROGRAM", "-o", "OUT"],
    "kernels": ["autopar-translate", "--extract-kernels", "PROGRAM", "-o", "OUT"],
    "trace": [*RUN, "--trace", "OUT"],
    "export": [*RUN, "--export", "OUT"],
    "checkpoint": [*RUN, "--checkpoint-dir", "OUT"],
    "metrics": [*RUN[:-1], "--metrics", "OUT"],
}


@pytest.fixture(scope="module")
def program(gpt2: Example, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A training step on two ranks."""
    step = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.1, momentum=0.9))
    return autopar.compile(gpt2.path, tmp_path_factory.mktemp("full") / "train.bin", bind=gpt2.bind, ranks=2, train=step).path


def words_of(writer: str, program: pathlib.Path, gpt2: Example, out: pathlib.Path) -> List[str]:
    """The command line of a writer."""
    names = {"PROGRAM": program, "MODEL": gpt2.path, "OUT": out, "BIND": ",".join(f"{k}={v}" for k, v in gpt2.bind.items())}
    words = [str(names.get(word, word)) for word in WRITERS[writer]]
    return [str(autopar.find_tool(words[0])), *words[1:]]


def in_namespace(script: str, words: List[str]) -> "subprocess.CompletedProcess[str]":
    """A shell script, in which "$@" is the command, that may mount."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody mount")
    return subprocess.run(["unshare", "-rm", "bash", "-c", script, "bash", *words], capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.parametrize("writer", [writer for writer in WRITERS if writer != "metrics"])
def test_a_full_disk_is_named_and_nothing_stays(program: pathlib.Path, gpt2: Example, tmp_path: pathlib.Path, writer: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f'mount -t tmpfs -o size=4k,nr_inodes=20 none {disk}; "$@"; code=$?; find {disk} -type f; exit $code'
    done = in_namespace(script, words_of(writer, program, gpt2, disk / "out"))
    assert done.returncode == 74 and "No space left on device" in done.stderr and str(disk / "out") in done.stderr, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("writer", [writer for writer in WRITERS if writer != "metrics"])
def test_a_file_over_the_limit_of_the_process_is_an_error(program: pathlib.Path, gpt2: Example, tmp_path: pathlib.Path, writer: str) -> None:
    # Kernels pass through files in memory, which the limit is for too; what they go into is larger.
    limit = 96 if writer in ("artifact", "trace", "export", "checkpoint") else 0
    words = words_of(writer, program, gpt2, tmp_path / "out")
    done = subprocess.run(["bash", "-c", f'ulimit -f {limit}; exec "$@"', "bash", *words], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 74 and "File too large" in done.stderr and str(tmp_path / "out") in done.stderr, (done.returncode, done.stderr)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_kernels_over_the_limit_of_the_process_are_an_error(program: pathlib.Path) -> None:
    done = subprocess.run(["bash", "-c", 'ulimit -f 4; exec "$@"', "bash", autopar.find_tool("autopar-run"), program, "--steps", "1", "--data", "synthetic"],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 74 and "bytes of kernels to a memory file: File too large; raise the limit" in done.stderr, done.stderr


@pytest.mark.parametrize("writer", [writer for writer in WRITERS if writer != "phases"])
def test_a_folder_that_is_only_read_is_named(program: pathlib.Path, gpt2: Example, tmp_path: pathlib.Path, writer: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    done = in_namespace(f'mount -t tmpfs -o ro none {disk}; exec "$@"', words_of(writer, program, gpt2, disk / "out"))
    assert done.returncode == 73 and str(disk) in done.stderr, (done.returncode, done.stderr)


@pytest.mark.parametrize("flag", ["--checkpoint-dir", "--trace", "--export"])
def test_a_folder_that_goes_while_it_runs_is_named(program: pathlib.Path, tmp_path: pathlib.Path, flag: str) -> None:
    folder, pipe = tmp_path / "out", tmp_path / "metrics"
    folder.mkdir()
    os.mkfifo(pipe)
    place = folder / "x"
    # The pipe is full before the last step: it waits there.
    run = subprocess.Popen([autopar.find_tool("autopar-run"), program, "--data", "synthetic", "--steps", "1500", "--quiet", "--metrics", pipe, flag, place],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with open(pipe, encoding="utf-8") as metrics:
        assert json.loads(metrics.readline())["step"] == 0
        shutil.rmtree(folder)
        if flag != "--trace":
            folder.write_text("a file")  # folders would be made again
        metrics.read()
    _, said = run.communicate(timeout=120)
    assert run.returncode in (73, 74) and str(place) in said, (run.returncode, said)


def test_a_link_stays_and_what_it_leads_to_is_replaced(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    subprocess.run([autopar.find_tool("autopar-translate"), "--dump", program, "-o", link], check=True, timeout=60)
    assert link.is_symlink() and target.read_text() != "old" and sorted(p.name for p in tmp_path.iterdir()) == ["link", "target"]


def test_nothing_needs_a_folder_for_temporary_files(gpt2: Example, tmp_path: pathlib.Path) -> None:
    bind = ",".join(f"{k}={v}" for k, v in gpt2.bind.items())
    np.save(tmp_path / "ids.npy", gpt2.inputs["input_ids"])
    for folder in ("/no/such/folder", None):
        env = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
        env.update({"TMPDIR": folder} if folder else {})
        for words in (["autopar-compile", gpt2.path, "--bind", bind, "--ranks", "2", "-o", tmp_path / "x.bin"],
                      ["autopar-run", tmp_path / "x.bin", "--input", f"input_ids={tmp_path / 'ids.npy'}", "--output-dir", tmp_path / "out"]):
            subprocess.run([autopar.find_tool(words[0]), *words[1:]], check=True, env=env, timeout=120)
        np.testing.assert_allclose(np.load(tmp_path / "out" / "logits.npy"), gpt2.expected["logits"], atol=1e-4)
