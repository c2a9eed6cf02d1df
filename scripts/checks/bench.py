# SPDX-License-Identifier: Apache-2.0
"""`scripts/bench TOPIC`: measures and ends with one JSON line {"topic": ..., "cases": [{"name", "value", "unit",
"reference", "ratio"}]}; ratio is value / reference."""

import argparse
import importlib
import json
import pathlib
import sys

TOPICS = {
    "inference": "whole models against onnxruntime, and the time to compile",
    "packages": "trained networks that packages on PyPI carry against onnxruntime",
    "ranges": "programs that take ranges of extents, given the most, against programs for just that",
    "generation": "a token of gpt2-124m with key/value caches against onnxruntime",
    "mixture": "a layer of 32 experts, float32 and 4 bits, against onnxruntime",
    "recurrent": "LSTM, GRU and RNN against onnxruntime, and their training steps on one core against PyTorch",
    "planning": "import and sharding of gpt3-175b for 64 devices, of gpt2-1.5b in training for 8",
    "memory": "planned peak memory against what the process used",
    "kernels": "softmax, layer norm and gelu against the machine's stream rate",
    "solver": "contest problems in a FOLDER at their time limits, best known cost / ours",
    "network": "a small gpt2 on two hosts (namespaces; needs root) under four plans and three links: predicted against measured steps",
    "pipeline": "a training step in two stages under every schedule, and messages hidden under compute",
    "prediction": "steps of ten models under three plans against what measured instructions say, and peaks of memory",
    "simulation": "what plans believe of their step against the simulation of what was compiled from them",
    "recompute": "operations computed again against the best choice of layers, gpt3-1.3b under three memory limits",
    "experts": "plans that experts published (docs/experts): simulated against published throughput, and our plan against theirs",
    "training": "steps of gpt2-124m on one core, and on four ranks against one",
}


def main() -> int:
    """Runs one topic; exit status 1 when a measurement could not be made."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="\n".join(f"{name:10} {what}" for name, what in TOPICS.items()))
    parser.add_argument("topic", choices=list(TOPICS))
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="for solver: NAME.json.gz files and README.md with their table")
    parser.add_argument("--only", metavar="NAME", help="for experts: rows with NAME in their name")
    parser.add_argument("--python", metavar="FILE", help="for training and recurrent: a Python with the PyTorch to compare with (default Debian's)")
    arguments = parser.parse_args()
    topic, folder = arguments.topic, arguments.folder
    if (topic == "solver") != (folder is not None):
        parser.error("solver takes a folder, other topics do not")
    if arguments.only and topic != "experts":
        parser.error("--only is for experts")
    if arguments.python and topic not in ("training", "recurrent"):
        parser.error("--python is for training and recurrent")
    found = []
    try:
        for case in importlib.import_module(f".bench_{topic}", __package__).cases(*[word for word in (folder, arguments.only, arguments.python) if word]):
            found.append(case)
            print(f"{case['name']:44} {case['value']:10} {case['unit']:5} reference {case['reference']}, ratio {case['ratio']}",
                  flush=True)
    except Exception as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        print(json.dumps({"topic": topic, "cases": found, "error": str(error)[:300]}))
        return 1
    print(json.dumps({"topic": topic, "cases": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
