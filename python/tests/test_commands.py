# SPDX-License-Identifier: Apache-2.0
"""The commands as a user types them: every launcher gives the same numbers, exit codes follow docs/ExitCodes.md."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
from typing import List, Optional

import numpy as np
import pytest

import autopar
from autopar import models
from autopar.errors import MEANINGS
from conftest import Example

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_S = 120


def run(*words: object, env: Optional[dict] = None) -> subprocess.CompletedProcess:
    """A command, with both streams as text."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=TIMEOUT_S, env=env)


@pytest.fixture(scope="module")
def job(gpt2: Example, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with gpt2 compiled for two ranks and its input as a file."""
    folder = tmp_path_factory.mktemp("job")
    autopar.compile(gpt2.path, folder / "compiled.bin", bind=gpt2.bind, ranks=2)
    np.save(folder / "ids.npy", gpt2.inputs["input_ids"])
    return folder


def words_for(job: pathlib.Path, out: pathlib.Path) -> List[object]:
    """The command line that runs the job."""
    return [autopar.find_tool("autopar-run"), job / "compiled.bin", "--input", f"input_ids={job / 'ids.npy'}",
            "--output-dir", out]


def check(out: pathlib.Path, gpt2: Example) -> np.ndarray:
    """The logits in `out`, which must be onnxruntime's."""
    logits = np.load(out / "logits.npy")
    np.testing.assert_allclose(logits, gpt2.expected["logits"], rtol=1e-3, atol=1e-3)
    return logits


def test_logs_tell_how_far_a_command_is(job: pathlib.Path, gpt2: Example, tmp_path: pathlib.Path) -> None:
    """Where nobody watches, a line now and then, unless it is to be quiet."""
    bind = ",".join(f"{name}={extent}" for name, extent in gpt2.bind.items())
    compiles = [autopar.find_tool("autopar-compile"), gpt2.path, "--bind", bind, "--ranks", 2, "-o", tmp_path / "c.bin"]
    runs = [*words_for(job, tmp_path), "--steps", 3]
    always = {**os.environ, "AUTOPAR_PROGRESS_SECONDS": "0"}
    said = run(*compiles, env=always).stderr
    phases = [int(number) for number in re.findall(r"^autopar-compile: \[(\d+)/12\] [a-z-]+: .*$", said, re.M)]
    assert phases == sorted(phases) and set(phases) == set(range(1, 13)) and "\r" not in said
    said = run(*runs, env=always).stderr
    assert re.findall(r"^autopar-run: step (\d)/3  .* ms/step  .* left$", said, re.M) == ["1", "2"], said
    for words in (compiles, runs):
        assert "autopar" not in run(*words, "--quiet", env=always).stderr
        said = run(*words, env={**always, "AUTOPAR_PROGRESS_SECONDS": "1000"}).stderr
        assert "step" not in said and "12]" not in said


def test_scratch_is_planned_for_the_cores_that_there_are(tmp_path: pathlib.Path) -> None:
    """A convolution's, which several threads take more of; what is planned for one thread is told to be too little for more."""
    models.save("resnet50", tmp_path / "model.onnx")
    compiles = [autopar.find_tool("autopar-compile"), tmp_path / "model.onnx", "--bind", "batch=1", "--quiet", "-o", tmp_path / "c.bin"]
    runs = [autopar.find_tool("autopar-run"), tmp_path / "c.bin", "--input", "input=zeros"]
    assert run(*compiles).returncode == 0
    assert run(*runs).stderr == ""
    assert run(*compiles, "--threads", 1).returncode == 0
    assert "bytes beyond the plan" in run(*runs, "--threads", 8).stderr


def test_in_process_ranks(job: pathlib.Path, gpt2: Example, tmp_path: pathlib.Path) -> None:
    done = run(*words_for(job, tmp_path))
    assert done.returncode == 0, done.stderr
    check(tmp_path, gpt2)


def test_mpirun_gives_the_same_bits(job: pathlib.Path, gpt2: Example, tmp_path: pathlib.Path) -> None:
    if not shutil.which("mpirun"):
        pytest.fail("mpirun is missing; run scripts/install-packages")
    assert run(*words_for(job, tmp_path / "threads")).returncode == 0
    done = run("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", 2, *words_for(job, tmp_path / "mpi"))
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(check(tmp_path / "mpi", gpt2), check(tmp_path / "threads", gpt2))


def test_an_mpi_that_knows_no_other_rank_is_told_from_the_launchers(job: pathlib.Path, tmp_path: pathlib.Path) -> None:
    env = dict(os.environ, OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2")
    done = run(*words_for(job, tmp_path), env=env)
    assert done.returncode == 78 and ("the launcher says rank 1 of 2, MPI says 0 of 1; was the plugin built with another MPI than "
                                      "mpirun's?") in done.stderr, (done.returncode, done.stderr)


def test_slurm_jobs_of_any_number_have_ports_of_their_own(job: pathlib.Path, tmp_path: pathlib.Path) -> None:
    env = dict(os.environ, SLURM_PROCID="1", SLURM_NTASKS="2", MASTER_ADDR="127.0.0.1", SLURM_JOB_ID="67000123")
    for name in ("MASTER_PORT", "RANK", "WORLD_SIZE"):
        env.pop(name, None)
    done = run(*words_for(job, tmp_path), "--arrival-timeout", 0.5, env=env)
    assert done.returncode == 75 and "cannot reach rank 0 at 127.0.0.1:20123" in done.stderr, (done.returncode, done.stderr)


@pytest.mark.parametrize("words, says, code", [
    (["--communication", "nccl"], "it is asked how GPUs communicate, but the program is for CPUs; leave --communication out", 78),
    (["--communication", "staged"], "it is asked how GPUs communicate, but the program is for CPUs; leave --communication out", 78),
    (["--cuda-libraries", "/lib"], "--cuda-libraries and --no-capture are for GPUs, and the program is for CPUs; leave them out", 2),
    (["--no-capture"], "--cuda-libraries and --no-capture are for GPUs, and the program is for CPUs; leave them out", 2),
])
def test_what_is_for_gpus_is_refused_on_cpus(job: pathlib.Path, tmp_path: pathlib.Path, words: List[str], says: str, code: int) -> None:
    done = run(*words_for(job, tmp_path), *words)
    assert done.returncode == code and says in done.stderr, done


@pytest.mark.parametrize("rank_name, size_name", [("RANK", "WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")], ids=["torchrun", "mpiexec"])
def test_variables_of_launchers_give_the_same_bits(job: pathlib.Path, gpt2: Example, tmp_path: pathlib.Path, rank_name: str, size_name: str) -> None:
    assert run(*words_for(job, tmp_path / "threads")).returncode == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [subprocess.Popen([str(word) for word in words_for(job, tmp_path / "tcp")], stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **{rank_name: str(rank), size_name: "2"}))
             for rank in range(2)]
    for rank in ranks:
        _, errors = rank.communicate(timeout=TIMEOUT_S)
        assert rank.returncode == 0, errors
    np.testing.assert_array_equal(check(tmp_path / "tcp", gpt2), check(tmp_path / "threads", gpt2))


@pytest.mark.parametrize("flag", ["--verify", "--dry-run"])
def test_checks_execute_nothing(job: pathlib.Path, flag: str) -> None:
    done = run(autopar.find_tool("autopar-run"), flag, job / "compiled.bin")
    assert done.returncode == 0, done.stderr


def test_dump(job: pathlib.Path) -> None:
    done = run(autopar.find_tool("autopar-translate"), "--dump", job / "compiled.bin")
    assert done.returncode == 0 and "input_ids" in done.stdout, done.stderr


@pytest.mark.parametrize("tool", ["autopar-compile", "autopar-run", "autopar-profile"])
def test_unknown_flags_are_usage_errors(tool: str) -> None:
    done = run(autopar.find_tool(tool), "--no-such-flag", "file")
    assert done.returncode == 2 and "no-such-flag" in done.stderr, (done.returncode, done.stderr)


def test_missing_artifact() -> None:
    done = run(autopar.find_tool("autopar-run"), "none.bin")
    assert done.returncode == 66 and "none.bin" in done.stderr, (done.returncode, done.stderr)


def test_commands_through_python(tmp_path: pathlib.Path) -> None:
    env = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    assert "compile" in run(sys.executable, "-m", "autopar", "--help", env=env).stdout
    assert run(sys.executable, "-m", "autopar", "bake", env=env).returncode == 2
    assert run(sys.executable, "-m", "autopar", "run", "none.bin", env=env).returncode == 66
    assert "gpt2-124m" in run(sys.executable, "-m", "autopar", "models", "--list", env=env).stdout


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(autopar.Error, match="autopar-bake") as caught:
        autopar.find_tool("autopar-bake")
    assert caught.value.code == 69


def test_the_code_table_is_the_documented_one() -> None:
    documented = re.findall(r"^\| (\d+) \|", (ROOT / "docs/ExitCodes.md").read_text(), re.M)
    enumerated = re.findall(r"= (\d+),", (ROOT / "include/autopar/Base/Status.h").read_text())
    assert sorted(map(int, documented)) == sorted(map(int, enumerated)) == sorted(MEANINGS)


@pytest.mark.parametrize("name", ["bin/autopar-run", "bin/autopar-profile", "lib/libautopar_runtime.so"])
def test_the_runtime_needs_no_compiler_libraries(name: str) -> None:
    done = run("readelf", "-d", ROOT / "build" / name)
    assert done.returncode == 0, done.stderr
    needed = re.findall(r"NEEDED.*\[(.+)\]", done.stdout)
    assert needed and not [library for library in needed if re.search(r"MLIR|LLVM|onnx|protobuf|libmpi|cuda", library)]


def test_threads_wait_awake_briefly(job: pathlib.Path) -> None:
    """The pool is loaded with few rounds; what the caller says wins."""
    def rounds(*command: object, **given: str) -> Optional[str]:
        environment = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        shown = run(*command, env={**environment, "OMP_DISPLAY_ENV": "verbose", **given}).stderr
        found = re.findall(r"GOMP_SPINCOUNT = '(\w+)'", shown)
        return found[-1] if found else None

    compiled = job / "compiled.bin"
    opens = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); import autopar; autopar.Session(sys.argv[1]).close()"
    for command in ([autopar.find_tool("autopar-run"), "--dry-run", compiled], [sys.executable, "-c", opens, compiled]):
        assert rounds(*command) == "30000"
        assert rounds(*command, GOMP_SPINCOUNT="77") == "77"
        assert rounds(*command, OMP_WAIT_POLICY="active") not in ("30000", None)
