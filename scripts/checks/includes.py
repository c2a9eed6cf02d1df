# SPDX-License-Identifier: Apache-2.0
"""Whether files include what they use, which precompiled headers hide: compiles each as it is built, but without them, and keeps
nothing. `scripts/run-check includes` reads all files of a build (20 minutes on two cores), `scripts/run-check includes --since HEAD~3`
the C++ files that changed. Names the files that do not compile, with their first error."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
from typing import Dict, List, Optional, Set

ROOT = pathlib.Path(__file__).resolve().parents[2]


def without_precompiled(command: str) -> List[str]:
    """A compiler's words, less what they include beforehand and write."""
    words = shlex.split(command)
    while "ccache" in words[0] or "=" in words[0]:
        del words[0]
    kept: List[str] = []
    at = 0
    while at < len(words):
        if words[at:at + 2] in (["-Xclang", "-include-pch"], ["-Xclang", "-include"]):
            at += 4
        elif words[at] == "-o":
            at += 2
        else:
            kept.append("-fsyntax-only" if words[at] == "-c" else words[at])
            at += 1
    return kept


def changed(since: str) -> Set[pathlib.Path]:
    names = subprocess.run(["git", "diff", "--name-only", since], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {ROOT / name for name in names.split()}


def first_error(entry: Dict[str, str]) -> Optional[str]:
    done = subprocess.run(without_precompiled(entry["command"]), cwd=entry["directory"], capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if "error:" in line]
    return None if done.returncode == 0 else (lines or [entry["file"] + ": the compiler failed"])[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="a folder that was built (its generated headers are read)")
    parser.add_argument("--since", metavar="COMMIT", help="files that differ from it alone")
    given = parser.parse_args()
    commands = given.build / "compile_commands.json"
    if not commands.exists():
        parser.error(f"no {commands}; build the project first: cmake --preset default && cmake --build build")
    entries = [entry for entry in json.loads(commands.read_text()) if "cmake_pch" not in entry["file"]]
    if given.since:
        wanted = changed(given.since)
        entries = [entry for entry in entries if pathlib.Path(entry["file"]) in wanted]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, error in enumerate(pool.map(first_error, entries), 1):
            if error:
                failed += 1
                print(error, flush=True)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(entries)} files", end="", file=sys.stderr)
    print(f"{len(entries)} files, {failed} do not include what they use")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
