# SPDX-License-Identifier: Apache-2.0
"""Command line of the model zoo: `python3 -m autopar.models NAME -o FILE`.

Exit codes: 0 written, 2 the request cannot be built (unknown name or option, value that does not fit), 74 the file
cannot be written.
"""

import argparse
import dataclasses
import sys
from typing import Dict, List, Tuple

from . import catalogue, describe, writing
from .family import ModelError
from .graph import DEFAULT_OPSET, WEIGHT_BITS
from .weights import DTYPES

EXIT_USAGE = 2
EXIT_IO = 74

EXAMPLES = """\
examples:
  python3 -m autopar.models --list
  python3 -m autopar.models gpt2-124m -o gpt2.onnx
  python3 -m autopar.models gpt2-124m --layers 2 --hidden 64 --heads 4 --vocab 1000 -o tiny.onnx
  python3 -m autopar.models gpt3-175b --no-weights -o gpt3.onnx      (shapes only: can be planned, not run)
  python3 -m autopar.models llama3-8b --weight-bits 4 --opset 24 --cache 4096 --no-weights -o int4.onnx
  python3 -m autopar.models llama3-8b --layers 4 --seq 128 --batch 1 --dtype float16 -o llama.onnx
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser with the common options and those of every family; a family refuses options it does not have."""
    parser = argparse.ArgumentParser(
        prog="python3 -m autopar.models",
        description="Writes a well-known architecture as an ONNX model in the shape exporters produce, with random "
        "weights. Weights above 2 GB go to FILE.data.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("name", nargs="?", help="model to write, see --list")
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write")
    parser.add_argument("--list", action="store_true", help="list all models with their parameter counts and exit")
    parser.add_argument("--no-weights", action="store_true", help="leave the weights out: dims and types only")
    parser.add_argument("--external-data", action="store_true", help="weights to FILE.data even below 2 GB")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights (default 0)")
    parser.add_argument("--opset", type=int, default=DEFAULT_OPSET, help=f"operator set (default {DEFAULT_OPSET})")
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES), help="type of weights and activations")
    parser.add_argument("--weight-bits", type=int, default=0, choices=[0, *WEIGHT_BITS],
                        help="quantize the weights of linear layers, in blocks of 32 (default 0: they stay floats)")
    parser.add_argument("--batch", type=int, default=0, help="fix the batch dimension (default: symbolic 'batch')")
    parser.add_argument("--seq", type=int, default=0, help="fix the sequence dimension (default: symbolic 'seq')")
    group = parser.add_argument_group("architecture, by family (default: the published value)")
    for field, families in family_options():
        add_option(group, field, families)
    return parser


def family_options() -> List[Tuple[dataclasses.Field, List[str]]]:
    """Every option of any family once, with the families that have it."""
    found: Dict[str, Tuple[dataclasses.Field, List[str]]] = {}
    for family in catalogue.FAMILIES:
        for field in dataclasses.fields(family.config):
            found.setdefault(field.name, (field, []))[1].append(family.name)
    return list(found.values())


def add_option(group, field: dataclasses.Field, families: List[str]) -> None:
    """Adds one field of the families' configurations; left out, the named size decides."""
    flag = "--" + field.name.replace("_", "-")
    everywhere = len(families) == len(catalogue.FAMILIES)
    help_text = field.metadata["help"] + ("" if everywhere else f" [{', '.join(families)}]")
    settings = {"dest": field.name, "default": argparse.SUPPRESS, "help": help_text}
    if isinstance(field.default, bool):
        group.add_argument(flag, action=argparse.BooleanOptionalAction, **settings)
    else:
        kind = type(field.default)
        metavar = None if field.metadata["choices"] else {int: "N"}.get(kind, "X")
        group.add_argument(flag, type=kind, choices=field.metadata["choices"], metavar=metavar, **settings)


def print_list() -> None:
    """One line per model: name, parameters, family summary."""
    for family in catalogue.FAMILIES:
        for name in family.sizes:
            print(f"{name:18} {describe(name).parameter_count():>16,}  {family.summary}")


def main(arguments: List[str]) -> int:
    """Runs the command line; returns the exit code."""
    parser = make_parser()
    options = vars(parser.parse_args(arguments))
    name, path = options.pop("name"), options.pop("output")
    weights, seed = not options.pop("no_weights"), options.pop("seed")
    external_data = options.pop("external_data")
    if options.pop("list"):
        print_list()
        return 0
    if name is None:
        raise ModelError("no model given, add a name (--list shows all)")
    graph = describe(name, **options)
    if path is None:
        raise ModelError("no output file given, add -o FILE")
    for written in writing.save(graph, path, weights, seed, external_data):
        print(f"wrote {written}")
    absent = "" if weights else ", weights absent"
    print(f"{name}: {graph.parameter_count():,} parameters, {len(graph.nodes)} nodes{absent}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ModelError as error:
        print(f"autopar.models: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except OSError as error:
        name = f"'{error.filename}'" if error.filename else "to standard output"
        print(f"autopar.models: cannot write {name}: {error.strerror}", file=sys.stderr)
        sys.exit(EXIT_IO)
