# SPDX-License-Identifier: Apache-2.0
"""`autopar.compile`: autopar-compile as a function."""

import contextlib
import dataclasses
import json
import operator
import os
import pathlib
import subprocess
import tempfile
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .errors import EXIT_USAGE, Error
from .tools import find_tool
from .training import Train

PathLike = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What a compilation wrote. Usable wherever a path is."""

    path: pathlib.Path
    #: What --explain said; empty when it was not asked for.
    explanation: str = ""

    def __fspath__(self) -> str:
        return str(self.path)


def _extent(name: str, extent: Any) -> str:
    try:
        if isinstance(extent, tuple) and len(extent) in (2, 3):
            least, most, *step = map(operator.index, extent)
            return f"{least}..{most}" + "".join(f":{each}" for each in step)
        return str(operator.index(extent))
    except TypeError:
        raise Error(EXIT_USAGE, f"bind: the extent of '{name}' is a whole number, (least, most) or (least, most, step), not {extent!r}") from None


def compile(  # noqa: A001 - autopar.compile is the name users expect
    model: Union[PathLike, Any],
    output: PathLike = "compiled.bin",
    *,
    bind: Optional[Mapping[str, Union[int, Tuple[int, int]]]] = None,
    fix_inputs: Optional[Mapping[str, Union[bool, int, float]]] = None,
    ranks: Optional[int] = None,
    cluster: Optional[Union[PathLike, Mapping[str, Any]]] = None,
    threads: Optional[int] = None,
    train: Optional[Train] = None,
    beside: Optional[PathLike] = None,
    copy_weights: bool = False,
    explain: Union[bool, str] = False,
    options: Sequence[str] = (),
    timeout_s: Optional[float] = None,
) -> Compiled:
    """Compiles an ONNX model into one artifact for all ranks.

    model: a path, or an `onnx.ModelProto`. The artifact refers to the model file for its weights, so a ModelProto is
      written beside the artifact, to `<output without suffix>.weights/model.onnx`.
    bind: extents of symbolic dimensions, of the global batch: {"batch": 8}; a range where each step decides: {"seq": (1, 128)},
        or (least, most, step): {"height": (64, 640, 32)}.
    fix_inputs: inputs that are always this number, and constants of the program: {"sr": 16000}.
    ranks: number of ranks on this machine; or cluster: a cluster file or its JSON as a dict. Neither: one rank.
    threads: threads per rank that scratch is planned for; None: as many as each rank of this machine has cores, one on a cluster.
    train: makes a training step of the forward model: a run of it is one step and gives its metrics.
    beside: an artifact of the same model for other extents. Parameters and state are placed as there, so that sessions beside each
      other hold them once.
    copy_weights: the weights are copied beside the artifact, to `<output>.weights`, so that both can be moved together.
    explain: True for the text of the chosen plan, "json" for the same as JSON, in `.explanation`.
    options: further words for the command line of autopar-compile.
    Raises Error with the command's exit code and message, TimeoutError after timeout_s; no output is left behind then.
    """
    if ranks is not None and cluster is not None:
        raise Error(EXIT_USAGE, "ranks and cluster exclude each other; a cluster says how many ranks there are")
    if isinstance(options, str):
        raise Error(EXIT_USAGE, f"options are a list of words, such as ['--stages', '2'], not {options!r}")
    if train is not None and not isinstance(train, Train):
        raise Error(EXIT_USAGE, f"train is an autopar.Train, not {type(train).__name__}")
    with tempfile.TemporaryDirectory(prefix="autopar-") as folder, _model_file(model, pathlib.Path(output)) as path:
        command = [str(find_tool("autopar-compile")), path, "-o", os.fspath(output)]
        if bind:
            command += ["--bind", ",".join(f"{name}={_extent(name, extent)}" for name, extent in dict(bind).items())]
        for name, number in dict(fix_inputs or {}).items():
            command += ["--fix-input", f"{name}={str(number).lower()}"]
        if ranks is not None:
            command += ["--ranks", str(ranks)]
        if cluster is not None:
            command += ["--cluster", _cluster_file(cluster, folder)]
        if threads is not None:
            command += ["--threads", str(threads)]
        if train is not None:
            command += train.words()
        if beside is not None:
            command += ["--beside", os.fspath(beside)]
        if copy_weights:
            command.append("--copy-weights")
        if explain:
            command.append("--explain" if explain is True else f"--explain={explain}")
        explanation = run_tool(command + list(options), timeout_s)
    return Compiled(pathlib.Path(output), explanation if explain else "")


def update_onnx(model: PathLike, weights: PathLike, output: PathLike, *, adapters: str = "") -> None:
    """Writes an ONNX model with other weights, those of a training, for whatever else runs ONNX models.

    weights: a .safetensors file of `Session.export` or `autopar-run --export`; names that the model does not have are an
      Error. What it leaves out, such as frozen parameters, stays as it is in the model.
    adapters: what adapters the weights are, "lora(rank=8, alpha=16)"; they are added to the matrices beside which they were trained.
    output: the new model; where the old one has external data, the new one has it in `<output>.data`.
    """
    command = [str(find_tool("autopar-translate")), "--update-onnx", os.fspath(model), "--weights", os.fspath(weights), "-o", os.fspath(output)]
    run_tool(command + (["--adapters", adapters] if adapters else []))


def run_tool(command: List[str], timeout_s: Optional[float] = None) -> str:
    """Runs a command and returns its standard output; Error with its status and message, or TimeoutError, otherwise."""
    unwatched = {**os.environ, "AUTOPAR_PROGRESS_SECONDS": "1e8"}  # else progress would be told as a part of errors
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_s, env=unwatched)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{pathlib.Path(command[0]).name} ran longer than {timeout_s:g} s") from None
    if done.returncode != 0:
        raise Error(done.returncode, done.stderr.strip() or done.stdout.strip())
    return done.stdout


@contextlib.contextmanager
def _model_file(model: Union[PathLike, Any], output: pathlib.Path) -> Iterator[str]:
    """The model's path; a ModelProto is written beside the artifact. When compilation fails, what was there before is there again."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    if not hasattr(model, "SerializeToString"):
        raise Error(EXIT_USAGE, f"model must be a path or an onnx.ModelProto, not {type(model).__name__}")
    folder = output.with_suffix(".weights")
    path, new, old = (folder / name for name in ("model.onnx", f"model.onnx.tmp.{os.getpid()}", f"model.onnx.old.{os.getpid()}"))
    content, existed, is_replaced = model.SerializeToString(), folder.exists(), False
    if path.is_file() and path.read_bytes() == content:
        yield str(path)
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        new.write_bytes(content)
        if path.exists():
            os.replace(path, old)
        os.replace(new, path)
        is_replaced = True
        yield str(path)
    except BaseException:
        new.unlink(missing_ok=True)
        if old.exists():
            os.replace(old, path)
        elif is_replaced:
            path.unlink(missing_ok=True)
        if not existed:
            folder.rmdir()
        raise
    old.unlink(missing_ok=True)


def _cluster_file(cluster: Union[PathLike, Mapping[str, Any]], folder: str) -> str:
    """The cluster's path or preset name; a dict is written into `folder` first."""
    if not isinstance(cluster, Mapping):
        return os.fspath(cluster)
    path = os.path.join(folder, "cluster.json")
    with open(path, "w") as file:
        json.dump(cluster, file)
    return path
