# SPDX-License-Identifier: Apache-2.0
"""Command lines: all tools answer alike, what the documents show is accepted, and what cannot be meant is refused."""

import os
import pathlib
import re
import shlex
import subprocess
from typing import Dict, Iterator, List, Set, Tuple

import pytest

import autopar

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ["autopar-compile", "autopar-opt", "autopar-profile", "autopar-run", "autopar-solve", "autopar-translate"]
USAGE, NO_INPUT = 2, 66
LAUNCHERS = ("OMPI_", "RANK", "WORLD_SIZE", "MASTER_", "LOCAL_", "SLURM_", "TORCHELASTIC_")


def run(*words: str, folder: pathlib.Path = ROOT, **variables: str) -> "subprocess.CompletedProcess[str]":
    """A tool under no launcher but the one that `variables` pretend."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return subprocess.run([autopar.find_tool(words[0]), *words[1:]], capture_output=True, text=True, timeout=60, check=False,
                          cwd=folder, env={**env, **variables})


def shown_by(tool: str, text: str) -> Iterator[str]:
    """The command lines for a tool in a document or a help text; without launchers, comments and what comes after."""
    text = re.sub(r"\\\n\s*", "", text)
    for line in re.findall(rf"^\s*(?:mpirun .*?|torchrun .*?)?(?:build/bin/)?({tool} .*)$", text, re.M):
        command = re.split(r"\s{3,}|\s#|\s&&|\s>", line)[0]
        if "[options]" not in command.lower() and not command.endswith("options:"):
            yield command.strip()


def documents() -> str:
    """What stands in fences in the documents."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return "\n".join(fence for file in files for fence in re.findall(r"^```\w*\n(.*?)^```", file.read_text(), re.M | re.S))


def options_of(tool: str) -> Set[str]:
    """The options that its help lists."""
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", run(tool, "--help").stdout))


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_says_its_version_and_its_options(tool: str) -> None:
    version = run(tool, "--version")
    assert version.returncode == 0 and re.fullmatch(rf"{tool} \d+\.\d+\.\d+\n", version.stdout), version
    for flag in ("--help", "-h"):
        told = run(tool, flag)
        assert told.returncode == 0 and "--version" in told.stdout and not told.stderr, told
    refused = run(tool, "--no-such-flag")
    assert refused.returncode == (1 if tool == "autopar-opt" else USAGE) and "no-such-flag" in refused.stderr, refused


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "autopar-profile"])  # it would measure
def test_command_lines_that_are_shown_are_accepted(tool: str, tmp_path: pathlib.Path) -> None:
    """In an empty folder each gets as far as the first file that it misses."""
    commands = list(shown_by(tool, documents() + run(tool, "--help").stdout))
    assert commands or tool == "autopar-opt"
    for command in commands:
        done = run(*shlex.split(command), folder=tmp_path)
        if tool == "autopar-opt":
            assert "No such file" in done.stderr, (command, done.stderr)
        else:
            assert done.returncode == NO_INPUT, (command, done.returncode, done.stderr)


def test_options_that_the_documents_name_exist() -> None:
    known: Dict[str, Set[str]] = {tool: options_of(tool) for tool in TOOLS}
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for tool, words in re.findall(r"`(autopar-\w+) ([^`]*)`", file.read_text()):
            absent = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", words)) - known.get(tool, set())
            if tool != "autopar-opt":  # its passes' options are listed by name only
                assert not absent, (file.name, tool, absent)
    for command in shown_by("autopar-profile", documents() + run("autopar-profile", "--help").stdout):
        assert set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", command)) - {"-profile"} <= known["autopar-profile"], command


COMPILE = ["x.onnx", "--ranks", "2"]
REFUSED: List[Tuple[List[str], str]] = [
    (["autopar-compile", *COMPILE, "--plan", "p.json", "--stages", "auto"],
     "auto does not go with --plan, which says what there is to decide"),
    (["autopar-compile", *COMPILE, "--stages", "auto", "--virtual-stages", "2"], "--stages auto does not go with --virtual-stages"),
    (["autopar-compile", "x.onnx", "--micro-batches", "auto"],
     "auto: expected --ranks or --cluster, nothing is searched for one rank"),
    (["autopar-compile", *COMPILE, "--virtual-stages", "2"],
     "--virtual-stages and --pipeline-schedule need --stages of at least 2"),
    (["autopar-compile", "x.onnx", "--stages", "2"], "--stages: expected --ranks or --cluster, one rank has no stages"),
    (["autopar-compile", "x.onnx", "--ranks", "0"], "--ranks: expected a positive number, got 0"),
    (["autopar-compile", *COMPILE, "--cluster", "presets:cpux2"],
     "--ranks and --cluster exclude each other; a cluster says how many ranks there are"),
    (["autopar-compile", *COMPILE, "--threads", "0"], "--threads: expected 1 to 4096 threads per rank, got 0"),
    (["autopar-compile", *COMPILE, "--explain=yaml"], '--explain: expected text or json, got "yaml"'),
    (["autopar-compile", "x.onnx", "--plan-only"], "--plan-only: expected --ranks or --cluster, nothing is searched for one rank"),
    (["autopar-compile", "x.json", "--ranks", "2"],
     "a graph of measured operations: expected --profile db.json, which holds them"),
    (["autopar-compile", "x.json", "--ranks", "2", "--profile", "db.json"],
     "a graph of measured operations can be planned, not run: expected --plan-only"),
    (["autopar-compile", "x.json", "--ranks", "2", "--profile", "db.json", "--plan-only", "--precision", "bf16"],
     "--precision: a graph of measured operations says its element types in the profile database (dtype, weight_dtype)"),
    (["autopar-compile", *COMPILE, "--profile-fallback", "guess"],
     '--profile-fallback: expected none, interpolate or analytical, got "guess"'),
    (["autopar-compile", "x.mlir", "--ranks", "2", "--use-onnx-shardings"],
     '--use-onnx-shardings and --emit-onnx-plan: expected an ONNX model, got "x.mlir"'),
    (["autopar-compile", "x.onnx", "--emit-onnx-plan", "y.onnx"],
     "--use-onnx-shardings and --emit-onnx-plan: expected --ranks or --cluster"),
    (["autopar-compile", *COMPILE, "--recompute", "full"], "recompute=full: expected --train, only training has a backward pass"),
    (["autopar-compile", *COMPILE, "--offload", "state"], "offload=state: expected --train, only training has a state or a backward pass"),
    (["autopar-compile", *COMPILE, "--offload", "auto"], "offload=auto: expected --train, only training has a state"),
    (["autopar-compile", *COMPILE, "--target", "tpu"], '--target: expected cpu or cuda, got "tpu"'),
    (["autopar-compile", *COMPILE, "--attention", "flash"], '--attention: expected auto, fused or products, got "flash"'),
    (["autopar-compile", *COMPILE, "--activation-gradients", "some"], '--activation-gradients: expected auto or kernels, got "some"'),
    (["autopar-compile", *COMPILE, "--bias-gradients", "some"], '--bias-gradients: expected auto or kernels, got "some"'),
    *[(["autopar-compile", *COMPILE, flag, "kernels"],
       f"{flag} is for GPUs, and the program is for CPUs; expected --target cuda or a cluster of GPUs, or leave it out")
      for flag in ("--activation-gradients", "--bias-gradients")],
    (["autopar-compile", *COMPILE, "--convolutions", "some"], '--convolutions: expected auto or kernels, got "some"'),
    (["autopar-compile", *COMPILE, "--ranks", "4"], "--ranks is given 2 times: expected it once"),
    (["autopar-compile", *COMPILE, "-o", "a", "-o", "b", "-o", "c"], "-o is given 3 times: expected it once"),
    (["autopar-compile", "--compare", "a.json", "b.json", "--compare", "c.json", "d.json"], "--compare is given 2 times: expected it once"),
    (["autopar-translate"], "expected one of --import-onnx MODEL, --onnx-operators, --update-onnx MODEL, --dump ARTIFACT, --extract-kernels ARTIFACT "
                            "and --exec-to-artifact MODULE, got 0"),
    (["autopar-translate", "--dump", "a.bin", "--import-onnx", "x.onnx"], "--exec-to-artifact MODULE, got 2"),
    (["autopar-translate", "--dump", "a.bin", "--bind", "n=1"], "--bind and --fix-input go with --import-onnx"),
    (["autopar-translate", "--dump", "a.bin", "--fix-input", "n=1"], "--bind and --fix-input go with --import-onnx"),
    (["autopar-translate", "--import-onnx", "x.onnx", "--fix-input", "n"], "--fix-input: 'n' should read input=number, as in sr=16000"),
    (["autopar-compile", "x.onnx", "--fix-input", "n=1", "--fix-input", "n=2"], "--fix-input: 'n' is fixed twice"),
    (["autopar-compile", "x.mlir", "--fix-input", "n=1"], '--fix-input: expected an ONNX model, got "x.mlir"'),
    (["autopar-translate", "--dump", "a.bin", "--weights", "w.safetensors"], "--weights and --adapters go with --update-onnx"),
    (["autopar-translate", "--update-onnx", "x.onnx", "-o", "y.onnx"], "--update-onnx wants --weights FILE.safetensors, and a file to write with -o"),
    (["autopar-translate", "--update-onnx", "x.onnx", "--weights", "w.safetensors"], "--update-onnx wants --weights FILE.safetensors, and a file to write"),
    (["autopar-translate", "--update-onnx", "x.onnx", "--weights", "w.safetensors", "-o", "y.onnx", "--adapters", "lora(rank=0)"],
     "rank: expected a whole number of at least 1"),
    (["autopar-translate", "--onnx-operators", "--with-text"], "--with-text goes with --dump"),
    (["autopar-translate", "--import-onnx", "x.onnx", "--bind", "n=1..4"], "--bind: 'n' is a range, but an import has one extent"),
    (["autopar-translate", "--import-onnx", "x.onnx", "--bind", "n"], "--bind: binding 'n' should read name=extent, name=least..most or name=least..most:step, as in batch=8,seq=1..128,width=64..640:32"),
    (["autopar-translate", "--import-onnx", "x.onnx", "--bind", "n=1,n=2"], "--bind: 'n' is bound twice"),
    (["autopar-translate", "--extract-kernels", "a.bin"], "--extract-kernels writes bytes; name a file with -o"),
    (["autopar-translate", "--exec-to-artifact", "a.mlir"], "--exec-to-artifact writes bytes; name a file with -o"),
    (["autopar-compile", "x.onnx", "--mesh", "data=2"], "mesh data=2: expected --ranks or --cluster, one rank has no mesh"),
    (["autopar-compile", *COMPILE, "--profile-fallback", "analytical"],
     "--profile-fallback says what fills holes of a profile database: expected --profile db.json too"),
    (["autopar-compile", *COMPILE, "--plan-only", "--stop-after", "import"], "--plan-only stops after the search: expected no --stop-after"),
    (["autopar-compile", *COMPILE, "--plan-only", "-o", "p.json", "--emit-plan", "q.json"],
     "--plan-only writes one plan: expected -o or --emit-plan, got both"),
    *[(["autopar-compile", *COMPILE, "--stop-after", "import", flag, "x"],
       "--emit-plan, --emit-onnx-plan, --report, --trace and --emit-alternatives: there is no plan yet after import; expected --stop-after search "
       "or a later phase") for flag in ("--emit-plan", "--emit-onnx-plan", "--report", "--trace", "--emit-alternatives")],
    (["autopar-compile", "--compare", "a.json", "b.json", "x.onnx"], '--compare: expected two plans and no model, got "x.onnx"'),
    (["autopar-compile", "--compare", "a.json", "b.json", "--ranks", "2"], "--compare: only --explain=json goes with it, got --ranks"),
    (["autopar-compile", "--compare", "a.json", "b.json", "-o", "x"], "--compare: only --explain=json goes with it, got -o"),
    (["autopar-run", "a.bin", "--verify", "--dry-run"], "--verify and --dry-run exclude each other: each prints something else of the artifact"),
    (["autopar-run", "a.bin", "--simulate", "presets:cpux2", "--profile-fallback", "analytical"],
     "--profile-fallback says what fills holes of --profile-database; give that too, or leave it out"),
    (["autopar-run", "a.bin", "--seed", "-3"], "--seed: Value -3 not in range 0 to 9223372036854775807"),
    *[(["autopar-run", "a.bin", *words], "--master and --rendezvous say where ranks meet that --rank and --world-size number; give those too, or "
       "leave them to the launcher") for words in (["--master", "node1:9000"], ["--rendezvous", "file:///tmp/x"])],
    (["autopar-run", "a.bin", "--rank", "0", "--world-size", "2", "--master", "node1:9000", "--rendezvous", "file:///tmp/x"],
     "--master and --rendezvous exclude each other: ranks meet at one place"),
    (["autopar-run"], "which compiled.bin? Run with --help for more information"),
    (["autopar-run", "a.bin", "--simulate", "presets:cpux2", "--input", "x=zeros"],
     "--input does not go with --simulate, which has no data and runs all ranks in one process; leave it out"),
    (["autopar-run", "a.bin", "--profile-database", "db.json"],
     "--profile-database and --profile-fallback go with --simulate; a program that runs takes its own time"),
    (["autopar-run", "a.bin", "--rank", "0"], "--rank and --world-size belong together"),
    (["autopar-run", "a.bin", "--rank", "2", "--world-size", "2"], "rank 2 does not exist in a world of 2 ranks"),
    (["autopar-run", "a.bin", "--rank", "0", "--world-size", "2"],
     "--rank needs --master HOST:PORT or --rendezvous file:///folder"),
    (["autopar-run", "a.bin", "--rank", "0", "--world-size", "2", "--master", "node1"], "'node1' is not HOST:PORT"),
    (["autopar-run", "a.bin", "--rank", "0", "--world-size", "2", "--master", "node1:99999"], "'node1:99999' is not HOST:PORT"),
    (["autopar-run", "a.bin", "--rank", "0", "--world-size", "2", "--rendezvous", "/tmp/x"],
     "--rendezvous '/tmp/x' is not file:///folder"),
    (["autopar-profile"], "where to write? Name the file: -o cluster.json"),
    (["autopar-solve"], "which problem? autopar-solve problem.json -o solution.json"),
    (["autopar-solve", "p.json", "--seed", "-1"], "--seed: Value -1 not in range 0 to 9223372036854775807"),
    (["autopar-solve", "p.json", "--time-limit", "-1"], "--time-limit: Value -1 not in range 0.000000 to 1000000.000000"),
]


@pytest.mark.parametrize("words, says", REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_words_that_cannot_be_meant_are_refused(words: List[str], says: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.onnx").touch()
    done = run(*words, folder=tmp_path)
    assert done.returncode == USAGE and says in done.stderr, done


@pytest.mark.parametrize("variables, says", [
    ({"RANK": "first", "WORLD_SIZE": "2"}, "RANK and WORLD_SIZE must both be numbers, they are 'first' and '2'"),
    ({"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 does not exist in a world of 2 ranks"),
    ({"RANK": "0", "WORLD_SIZE": "2"},
     "RANK is set, but MASTER_ADDR and MASTER_PORT are not; they say where rank 0 listens"),
    ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "http"}, "'node1:http' is not HOST:PORT"),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"},
     "SLURM_PROCID is set, but neither SLURM_STEP_NODELIST nor MASTER_ADDR says where rank 0 is"),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_NODELIST": "n[1-2]", "MASTER_PORT": "http"}, "'n1:http' is not HOST:PORT"),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_NODELIST": "n[1-2]", "MASTER_PORT": "99999"}, "'n1:99999' is not HOST:PORT"),
    ({"PMI_RANK": "0", "PMI_SIZE": "2"},
     "PMI_RANK is set (mpiexec of an MPI that is not Open MPI), but MASTER_ADDR and MASTER_PORT are not; they say where rank 0 listens"),
    ({"SLURM_PROCID": "3", "SLURM_NTASKS": "2", "SLURM_NODELIST": "n[1-2]"}, "rank 3 does not exist in a world of 2 ranks"),
])
def test_launchers_that_say_half_are_refused(variables: Dict[str, str], says: str) -> None:
    done = run("autopar-run", "a.bin", **variables)
    assert done.returncode == USAGE and says in done.stderr, done
