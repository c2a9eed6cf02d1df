# SPDX-License-Identifier: Apache-2.0
"""`scripts/quickstart`: the main job from model to checked result, with the commands a user would type.

Everything it makes lies in build/quickstart. Exit status 0 only when the ranks computed what onnxruntime computes, and
when the loss of the training run fell.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from typing import Sequence

import numpy as np

from . import building, comparison, reference
from .building import BUILD, ROOT

TARGETS = ("autopar-compile", "autopar-run", "autopar-translate", "autopar-profile", "autopar_runtime")  # what the README goes on with
FOLDER = BUILD / "quickstart"
LAYERS, HIDDEN, HEADS, VOCABULARY = 4, 256, 8, 5000
BATCH, SEQ = 4, 64
RTOL = 1e-3
TRAIN_BATCH, STEPS = 8, 60


class QuickstartFailed(Exception):
    """A step did not do what it promises."""


def say(text: str) -> None:
    """A paragraph for the reader."""
    print(f"\n{text}", flush=True)


def show(command: Sequence[str]) -> float:
    """Prints a command as typed in the clone's root, runs it, returns its seconds; its output is the reader's."""
    words = [str(word) for word in command]
    print("  $ " + shlex.join(word.replace(str(ROOT) + "/", "") for word in words), flush=True)
    start = time.monotonic()
    status = subprocess.run(words, cwd=ROOT).returncode
    if status != 0:
        raise QuickstartFailed(f"the command above ended with exit status {status}")
    return time.monotonic() - start


def build() -> None:
    """Compiler and runtime, nothing else."""
    say("1. Build the compiler and the runtime (the first time takes minutes; log: build/logs/build.log).")
    print("  $ cmake --preset default && cmake --build build --target " + " ".join(TARGETS), flush=True)
    seconds = building.configure() + building.build(TARGETS)
    print(f"  built in {seconds:.0f} s")


def compare(ids: np.ndarray) -> None:
    """Holds what the ranks wrote against onnxruntime."""
    expected = reference.run(FOLDER / "gpt2.onnx", {"input_ids": ids})["logits"]
    path = FOLDER / "out" / "logits.npy"
    if not path.exists():
        raise QuickstartFailed(f"autopar-run left no {path.relative_to(ROOT)}; it wrote {os.listdir(path.parent)}")
    actual = np.load(path)
    fault = comparison.scaled_difference(actual, expected, RTOL)
    if fault:
        raise QuickstartFailed(f"the result is not onnxruntime's: {fault}")
    print(f"  logits {list(actual.shape)}: largest difference {np.abs(actual - expected).max():.2g} "
          f"at values up to {np.abs(expected).max():.2g}. Equal.")


def main_job(ranks: int) -> None:
    """Model, compilation, run, comparison."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    model, artifact, out = FOLDER / "gpt2.onnx", FOLDER / "compiled.bin", FOLDER / "out"
    bin_folder = BUILD / "bin"
    say(f"2. Write a GPT-2 with {LAYERS} layers and random weights, in the shape that exporters write. "
        "Its batch and sequence length are left open.")
    show([".venv/bin/python", "-m", "autopar.models", "gpt2-124m", "--layers", LAYERS, "--hidden", HIDDEN, "--heads", HEADS,
          "--vocab", VOCABULARY, "-o", model])
    say(f"3. Compile it for {ranks} ranks. --bind fixes the open dimensions (batch is the global batch), --explain says how "
        "each part is split and what that costs.")
    seconds = show([bin_folder / "autopar-compile", model, "--bind", f"batch={BATCH},seq={SEQ}", "--ranks", ranks,
                    "-o", artifact, "--explain"])
    print(f"  compiled in {seconds:.1f} s: {artifact.stat().st_size / 1e6:.1f} MB, one file for all ranks")
    say("4. Check the artifact and see what memory each rank will need, without running anything.")
    show([bin_folder / "autopar-run", "--dry-run", artifact])
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, SEQ)).astype(np.int64)
    np.save(FOLDER / "ids.npy", ids)
    say(f"5. Run all {ranks} ranks in one process. (mpirun -np {ranks} before the same words makes them {ranks} processes.)")
    seconds = show([bin_folder / "autopar-run", artifact, "--input", f"input_ids={FOLDER / 'ids.npy'}", "--output-dir", out])
    print(f"  ran in {seconds:.1f} s, loading included")
    say("6. Compare with onnxruntime, which runs the model whole.")
    compare(ids)


def train(ranks: int) -> None:
    """The same model learns the project's documents, byte by byte."""
    artifact, tokens, metrics = FOLDER / "train.bin", FOLDER / "tokens.bin", FOLDER / "metrics.jsonl"
    text = b"".join(path.read_bytes() for path in sorted((ROOT / "docs").glob("*.md")))
    np.frombuffer(text, np.uint8).astype(np.uint16).tofile(tokens)
    metrics.unlink(missing_ok=True)
    say("7. Train it: AutoPar adds loss, gradients and optimizer to the forward model, and plans the whole step.")
    show([BUILD / "bin" / "autopar-compile", FOLDER / "gpt2.onnx", "--bind", f"batch={TRAIN_BATCH},seq={SEQ}", "--ranks", ranks,
          "-o", artifact, "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-3)",
          "--clip-norm", "1"])
    say(f"8. {STEPS} steps on {ranks} ranks; the data is the text of docs/, a token per byte.")
    show([BUILD / "bin" / "autopar-run", artifact, "--data", tokens, "--fields", "input_ids=tokens[:-1], labels=tokens[1:]",
          "--steps", STEPS, "--metrics", metrics])
    losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
    for step in (*range(0, STEPS, STEPS // 6), STEPS - 1):
        print(f"  step {step + 1:3}  loss {losses[step]:.3f}  " + "#" * round(6 * losses[step]))
    if not losses[-1] < 0.6 * losses[0]:
        raise QuickstartFailed(f"the loss did not fall: {losses[0]:.3f} at first, {losses[-1]:.3f} at last")


def main() -> int:
    """Builds and goes through the main job."""
    parser = argparse.ArgumentParser(prog="scripts/quickstart", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4, help="ranks to split the model over (default 4)")
    parser.add_argument("--no-build", action="store_true", help="use what stands in build/")
    arguments = parser.parse_args()
    start = time.monotonic()
    try:
        if not arguments.no_build:
            build()
        main_job(arguments.ranks)
        train(arguments.ranks)
    except (QuickstartFailed, building.StepFailed) as failure:
        print(f"\nquickstart failed: {failure}", file=sys.stderr)
        return 1
    say(f"Done in {time.monotonic() - start:.0f} s. Next: README.md, or the same from Python: docs in `import autopar`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
