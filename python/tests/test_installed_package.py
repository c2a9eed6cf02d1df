# SPDX-License-Identifier: Apache-2.0
"""What `pip install .` leaves: the Python package with the commands and the runtime inside of it, apart from any clone."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from autopar import models

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text()
COMMANDS = sorted(re.findall(r'^(autopar-\w+) = "autopar\.tools:run_command"$', PROJECT, re.MULTILINE))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder of packages with autopar in it, as the wheel holds it."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "python" / "autopar", folder / "autopar")
    subprocess.run(["cmake", "--install", os.environ.get("AUTOPAR_BUILD", ROOT / "build"), "--component", "commands", "--prefix", folder / "autopar"],
                   check=True, capture_output=True, timeout=60)
    return folder


def python(site: pathlib.Path, *words: str, path: str = os.defpath) -> "subprocess.CompletedProcess[str]":
    """Runs Python with the installed package before all others."""
    surroundings = {**os.environ, "PYTHONPATH": str(site), "PATH": path}
    for name in ("AUTOPAR_BIN", "AUTOPAR_LIB"):
        surroundings.pop(name, None)
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, env=surroundings, cwd=site, check=False)


def script(folder: pathlib.Path, name: str) -> str:
    """The script that pip makes of an entry of [project.scripts]."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!{sys.executable}\nimport sys\nfrom autopar.tools import run_command\nsys.exit(run_command())\n")
    file.chmod(0o755)
    return str(file)


def test_every_command_has_a_script() -> None:
    assert COMMANDS == sorted(folder.name for folder in (ROOT / "tools").iterdir() if folder.name != "autopar-plugin")


def test_it_compiles_and_runs(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    models.save("gpt2-124m", tmp_path / "gpt2.onnx", layers=1, hidden=32, heads=2, vocab=101)
    done = python(site, "-c", f"""
import autopar, numpy
autopar.compile("{tmp_path}/gpt2.onnx", "{tmp_path}/compiled.bin", bind={{"batch": 2, "seq": 8}}, ranks=2)
with autopar.Session("{tmp_path}/compiled.bin") as session:
    print(autopar.find_tool("autopar-compile"), session.run({{"input_ids": numpy.zeros((2, 8), numpy.int64)}})["logits"].shape)
""")
    assert done.stdout.split(" ", 1) == [str(site / "autopar" / "bin" / "autopar-compile"), "(2, 8, 101)\n"], done.stderr


def test_a_script_becomes_its_command(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = python(site, script(tmp_path / "bin", "autopar-translate"), "--help")
    assert done.returncode == 0 and "autopar-translate" in done.stdout


def test_a_script_without_its_command_says_so_and_does_not_run_itself(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    bare = tmp_path / "site"
    shutil.copytree(site / "autopar", bare / "autopar", ignore=shutil.ignore_patterns("bin"))
    file = script(tmp_path / "bin", "autopar-run")
    done = python(bare, file, path=str(pathlib.Path(file).parent))
    assert done.returncode == 69 and done.stderr.startswith("error: autopar-run was not found; build it"), done.stderr
