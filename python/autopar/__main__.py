# SPDX-License-Identifier: Apache-2.0
"""`python -m autopar COMMAND ...`: the native commands under one name."""

import os
import sys
from typing import List

from .tools import become

COMMANDS = {
    "compile": "an ONNX model into compiled.bin",
    "run": "run, verify or measure a compiled.bin",
    "translate": "ONNX to MLIR, compiled.bin to text",
    "opt": "any pass or pipeline on a module",
    "profile": "this machine, measured, into cluster.json",
    "solve": "a cost graph from a file",
    "models": "write a model of the zoo",
}
EXIT_USAGE = 2


def main(arguments: List[str]) -> int:
    """Hands over to autopar-COMMAND; returns only on error or for help."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m autopar COMMAND [arguments]; each command has --help\n")
        print("\n".join(f"  {name:10} {what}" for name, what in COMMANDS.items()))
        return 0 if arguments else EXIT_USAGE
    command, rest = arguments[0], arguments[1:]
    if command == "models":
        os.execv(sys.executable, [sys.executable, "-m", "autopar.models", *rest])
    if command not in COMMANDS:
        print(f"error: no command '{command}'; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return EXIT_USAGE
    return become(f"autopar-{command}", rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
