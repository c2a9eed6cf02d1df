# SPDX-License-Identifier: Apache-2.0
"""What the package itself refuses, before or after the native code: each message, whole."""

import copy
import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any, Dict, List

import numpy as np
import onnx
import pytest

import autopar
from autopar import compiler, element_types, models, runtime_library
from autopar.models.graph import GraphBuilder
from autopar.models.weights import normal
from conftest import Example

ROOT = pathlib.Path(__file__).resolve().parents[2]


def refusal(code: int, act: Any, *words: Any, **options: Any) -> str:
    """The message of the Error that the call raises with this code."""
    with pytest.raises(autopar.Error) as raised:
        act(*words, **options)
    assert raised.value.code == code, raised.value
    return str(raised.value)


def test_names_that_the_package_does_not_have() -> None:
    with pytest.raises(AttributeError, match="^module 'autopar' has no attribute 'bake'$"):
        autopar.bake


def test_compilations_that_make_no_sense(tmp_path: pathlib.Path) -> None:
    assert refusal(2, autopar.compile, "x.onnx", ranks=2, cluster="presets:cpux2") == (
        "ranks and cluster exclude each other; a cluster says how many ranks there are")
    assert refusal(2, autopar.compile, "x.onnx", bind={"batch": "x"}) == "bind: the extent of 'batch' is a whole number, (least, most) or (least, most, step), not 'x'"
    assert refusal(2, autopar.compile, "x.onnx", options="--explain") == "options are a list of words, such as ['--stages', '2'], not '--explain'"
    assert refusal(2, autopar.compile, "x.onnx", train="loss") == "train is an autopar.Train, not str"
    assert refusal(2, autopar.compile, "x.onnx", train=autopar.Train("")).startswith('autopar-compile: error: --train: expected "loss=..."')
    assert refusal(2, autopar.compile, 3, tmp_path / "x.bin") == "model must be a path or an onnx.ModelProto, not int"
    with pytest.raises(TimeoutError, match="^sleep ran longer than 0.1 s$"):
        compiler.run_tool(["sleep", "5"], timeout_s=0.1)


def test_a_refused_compilation_leaves_the_weights_of_the_artifact_before_it(gpt2: Example, tmp_path: pathlib.Path) -> None:
    model, other = onnx.load(gpt2.path), onnx.load(gpt2.path)
    other.doc_string = "another"
    artifact = autopar.compile(model, tmp_path / "a.bin", bind=gpt2.bind).path
    for again in (model, other):
        refusal(65, autopar.compile, again, artifact, bind={"nothing": 3})
        autopar.Session(artifact).close()
        assert [path.name for path in (tmp_path / "a.weights").iterdir()] == ["model.onnx"]
    refusal(65, autopar.compile, model, tmp_path / "b.bin", bind={"nothing": 3})
    assert not (tmp_path / "b.weights").exists()
    autopar.Session(autopar.compile(other, artifact, bind=gpt2.bind)).close()
    assert [path.name for path in (tmp_path / "a.weights").iterdir()] == ["model.onnx"]


def test_sessions_that_make_no_sense(gpt2: Example, tmp_path: pathlib.Path) -> None:
    done = autopar.compile(gpt2.path, tmp_path / "compiled.bin", bind=gpt2.bind)
    assert refusal(2, autopar.Session, done, on_nan="hope") == "on_nan is 'stop' or 'skip', not 'hope'"
    for threads in (-1, "2", 1 << 40):
        assert refusal(2, autopar.Session, done, threads=threads) == f"threads is a whole number from 0 to 4096, not {threads!r}"
    for initializer in (None, 3):
        says = f"initializer is a text such as '*=normal(0.02)' or a .safetensors file, '' for the model's own, not {initializer!r}"
        assert refusal(2, autopar.Session, done, initializer=initializer) == says
    elsewhere = pathlib.Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.bin"))
    elsewhere.write_bytes(pathlib.Path(done).read_bytes())
    with autopar.Session(elsewhere) as session:
        assert session.run(gpt2.inputs)
    with autopar.Session(done) as session:
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            assert refusal(2, act, session) == "a session is neither copied nor pickled; open the artifact again"
        assert refusal(65, session.run, {}) == "no value for input input_ids"
        assert refusal(65, session.run, {"input_ids": np.zeros((4, 16), np.complex64)}).startswith(
            "input 'input_ids': arrays of complex64 cannot enter a program; there are bool, int8")
        for steps in (0, 1.5, True, 1 << 64):
            assert refusal(2, session.run, gpt2.inputs, steps=steps) == f"steps is a whole number from 1 to 1099511627776, not {steps!r}"
        for name in (3, None, "input_ids\0"):
            assert refusal(2, session.run, {name: gpt2.inputs["input_ids"]}) == f"inputs are arrays by name; {name!r} is no name"
        assert refusal(65, session.run, {"\udcff": gpt2.inputs["input_ids"]}).startswith("there is no input '?'; the inputs are input_ids")
        assert refusal(2, session.run, None) == "inputs are arrays by name, such as {'input_ids': array}, not NoneType"
        assert refusal(2, session.set_learning_rate, "a") == "the learning rate is a number, not 'a'"
        assert refusal(2, session.set_learning_rate, 10**400) == "the learning rate is larger than any float"
        assert refusal(2, session.broadcast, [1]).startswith("broadcast takes an array of numbers")
        assert refusal(2, autopar.Session, done, beside=5) == "beside is a Session, not int"
        assert refusal(2, autopar.Session, done, world=5) == "world is an autopar.World, not int"
        assert refusal(2, autopar.Session, None) == "a path is a text or a pathlib.Path, not None"
        for act in (autopar.Session, session.export, session.save_checkpoint, session.load_weights):
            assert refusal(2, act, "a\0b") == "a path holds no NUL byte: 'a\\x00b'"
        for act in (session.save_checkpoint, session.load_checkpoint, session.export):
            assert refusal(65, act, tmp_path / "kept").startswith("this program keeps nothing from step to step")
        assert not (tmp_path / "kept").exists()
    assert refusal(2, session.run, gpt2.inputs) == "the session is closed; open the artifact again"
    assert refusal(2, session.__enter__) == "the session is closed; open the artifact again"


def test_libraries_that_do_not_fit(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of an older interface is told by its version, not by the function that it lacks."""
    source = tmp_path / "old.c"
    source.write_text("int autoparApiVersion(void) { return 1; }\n")
    library = tmp_path / runtime_library.FILE
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    monkeypatch.setenv("AUTOPAR_LIB", str(tmp_path))
    load = runtime_library.load.__wrapped__
    assert refusal(78, load) == (f"{library} offers version 1 of the interface, this package needs {runtime_library.API_VERSION}; "
                                 "build both from one tree")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / library.name).write_text("no library")
    monkeypatch.setenv("AUTOPAR_LIB", str(tmp_path / "text"))
    said = refusal(69, load)
    assert said.startswith(f"{runtime_library.FILE} cannot be opened (")
    assert said.endswith("; build it (cmake --build build) or set AUTOPAR_LIB to the folder that holds it")


@pytest.mark.parametrize("number, name", [(10, "bfloat16"), (13, "float8_e4m3fn")])
def test_types_that_numpy_lacks_need_their_package(number: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert refusal(69, element_types.to_numpy, number) == f"{name} arrays need the Python package ml_dtypes; install it"


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert refusal(69, autopar.find_tool, "autopar-bake") == (
        "autopar-bake was not found; build it (cmake --preset default && cmake --build build) or set AUTOPAR_BIN to the folder "
        "that holds it")


@pytest.mark.parametrize("name, options, says", [
    ("gpt2-124m", {"batch": -1}, "batch and seq must be >= 0 (0 is symbolic), got batch=-1, seq=0"),
    ("resnet50", {"seq": 8}, "model 'resnet50' has no sequence dimension, leave seq out"),
    ("gpt2-124m", {"opset": 3}, "operator set 3 is not available, expected "),
    ("gpt2-124m", {"dtype": "float8"}, "unknown data type 'float8', expected one of: float32, float16, bfloat16"),
    ("gpt2-124m", {"dtype": "bfloat16", "opset": 13}, "bfloat16 needs operator set "),
    ("gpt2-124m", {"weight_bits": 4}, "'gpt2-124m' has no layers whose weights the zoo quantizes; llama3, "),
    ("llama3-8b", {"weight_bits": 3}, "weights cannot have 3 bits, expected one of: 2, 4, 8"),
    ("gpt2-124m", {"seq": 4096}, "seq=4096 is longer than positions=1024, lower seq or raise positions"),
    ("resnet50", {"blocks": "3,x"}, "blocks='3,x' must be positive numbers with commas, such as 3,4,6,3"),
    ("llama3-8b", {"hidden": 96, "heads": 32, "kv_heads": 32}, "rotary attention needs an even head size, got 3, change hidden or heads"),
    ("llama3-8b", {"positions": 1 << 24}, "'llama3-8b' would keep a table of "),
    ("t5-770m", {"buckets": 6}, "buckets must be a multiple of 4 and distance more than half of it, got buckets=6, distance=128"),
])
def test_models_that_cannot_be_described(name: str, options: Dict[str, Any], says: str) -> None:
    with pytest.raises(models.ModelError) as raised:
        models.describe(name, **options)
    assert str(raised.value).startswith(says), raised.value


def test_models_that_cannot_be_built(tmp_path: pathlib.Path) -> None:
    with pytest.raises(models.ModelError, match=r"^seed must be >= 0, got -1$"):
        models.save("gpt2-124m", tmp_path / "x.onnx", seed=-1)
    with pytest.raises(models.ModelError, match=r"^weights of 'llama3-8b' take [\d.]+ GB, more than one message holds, write them "
                                                r"with save\(\)$"):
        models.build("llama3-8b")


def test_one_weight_of_two_shapes() -> None:
    graph = GraphBuilder("m")
    graph.param("w", [2, 3], normal(1))
    with pytest.raises(models.ModelError, match=r"^parameter 'w' is used with shapes \(2, 3\) and \(3,\)$"):
        graph.param("w", [3], normal(1))


@pytest.mark.parametrize("words, code, says", [
    ([], 2, "autopar.models: no model given, add a name (--list shows all)"),
    (["gpt2-124m"], 2, "autopar.models: no output file given, add -o FILE"),
    (["gpt2-124m", "--no-weights", "-o", "/no/such/folder/x.onnx"], 74, "autopar.models: cannot write '/no/such/folder/x.onnx"),
])
def test_words_that_the_zoo_refuses(words: List[str], code: int, says: str) -> None:
    done = subprocess.run([sys.executable, "-m", "autopar.models", *words], capture_output=True, text=True, timeout=60, check=False,
                          env=dict(os.environ, PYTHONPATH=str(ROOT / "python")))
    assert done.returncode == code and done.stderr.startswith(says), done


def test_a_list_that_cannot_be_printed_is_an_error() -> None:
    with open("/dev/full", "w", encoding="utf-8") as device:
        done = subprocess.run([sys.executable, "-m", "autopar.models", "--list"], stdout=device, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 74 and done.stderr == "autopar.models: cannot write to standard output: No space left on device\n"
