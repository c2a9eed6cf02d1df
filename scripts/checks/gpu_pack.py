# SPDX-License-Identifier: Apache-2.0
"""`scripts/gpu-pack FOLDER`: binaries, artifacts for CUDA and what the CPU computes with them, for `scripts/gpu-check FOLDER`.

Models have no weights in the folder: they are drawn from a seed when they are loaded, the same on every machine.
"""

import argparse
import dataclasses
import json
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any, Dict, List, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

import autopar
from autopar import models

from .building import BUILD

MOST_BYTES = 60 << 20
INIT = "*=normal(0.05), seed=7"
LOSS = "softmax_cross_entropy(logits, labels)"
SMALL = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 101, "positions": 64}
#: Of a decoder, whose caches are state.
CARRIED = ["--carry", "present.*=past_key_values.*"]
#: Of the system's C library; all other libraries go into the folder.
SYSTEM = re.compile(r"^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread)\.so)")
#: Taken where a machine's own are missing or too old, since newer ones serve older programs, not the other way round.
GNU = re.compile(r"^lib(stdc\+\+|gcc_s|gomp)\.so")


def token_inputs(batch: int, seq: int, vocab: int, names: List[str]) -> Dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    mask = np.ones((batch, seq), np.int64)
    mask[1:, seq - seq // 4:] = 0
    made = {"attention_mask": mask, "token_type_ids": np.zeros((batch, seq), np.int64)}
    return {name: made.get(name, random.integers(0, vocab, (batch, seq), dtype=np.int64)) for name in names}


def decoded(case: Dict[str, Any]) -> Dict[str, Any]:
    """A token of each sample per step."""
    batch, steps = case["bind"]["batch"], 6
    tokens = np.random.default_rng(2).integers(0, case["sizes"]["vocab"], (steps * batch, 1), dtype=np.int64)
    return dict(case, bind={"batch": batch, "seq": 1}, inputs={}, steps=steps, data={"input_ids": tokens, "cache_length": np.repeat(np.arange(steps), batch)})


def small_cases() -> List[Dict[str, Any]]:
    """Numerics: what is compiled, run and compared. Ranks of one case share its expected results."""
    train = autopar.Train(LOSS, autopar.AdamW(lr=1e-3), clip_norm=1.0)
    gpt2 = {"model": "gpt2-124m", "sizes": SMALL, "bind": {"batch": 4, "seq": 32}, "inputs": token_inputs(4, 32, 101, ["input_ids"])}
    step = dict(gpt2, train=train, steps=5, inputs=token_inputs(4, 32, 101, ["input_ids", "labels"]))
    bert = {"model": "bert-base", "sizes": dict(SMALL, inner=128), "bind": {"batch": 4, "seq": 32},
            "inputs": token_inputs(4, 32, 101, ["input_ids", "attention_mask", "token_type_ids"])}
    # Heads share keys and values.
    llama = {"model": "llama3-8b", "sizes": {"layers": 1, "hidden": 128, "heads": 4, "kv_heads": 2, "vocab": 101, "inner": 128}, "bind": {"batch": 4, "seq": 40},
             "inputs": token_inputs(4, 40, 101, ["input_ids"])}
    # Wide enough that reductions are divided, and odd, so that products are padded.
    odd = {"layers": 1, "hidden": 512, "heads": 8, "vocab": 515, "positions": 64, "inner": 512}
    images = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    resnet = {"model": "resnet50", "sizes": {"channels": 8, "classes": 10, "image": 32}, "bind": {"batch": 2}, "inputs": {"input": images},
              "init": "*running_var=ones, *=normal(0.05), seed=7"}
    # Gradients of convolutions; without running statistics, the batch is normalized by its own.
    labels = np.random.default_rng(1).integers(0, 10, (2,), dtype=np.int64)
    images_step = dict(resnet, sizes=dict(resnet["sizes"], blocks="1,1,1,1"), steps=3, inputs={"input": images, "labels": labels},
                       train=autopar.Train("softmax_cross_entropy(output, labels)", autopar.AdamW(lr=1e-3)))
    # A number of keys whose gradient every cuDNN has.
    long = {"sizes": dict(SMALL, positions=128), "bind": {"batch": 2, "seq": 128}, "inputs": token_inputs(2, 128, 101, ["input_ids", "labels"])}
    # Beside a mask that differs by sample.
    masked = dict(bert, train=autopar.Train("softmax_cross_entropy(last_hidden_state, labels)", autopar.AdamW(lr=1e-3)), steps=3,
                  inputs=token_inputs(4, 32, SMALL["hidden"], ["input_ids", "attention_mask", "token_type_ids", "labels"]))
    # Experts without capacity, forward and both gradients: products of a kernel of ours.
    experts = {"model": "mixtral-8x7b", "sizes": {"layers": 1, "hidden": 64, "heads": 4, "kv_heads": 2, "vocab": 101, "inner": 64, "experts": 4, "dispatch": "dropless"},
               "bind": {"batch": 4, "seq": 32}, "train": train, "steps": 3, "inputs": token_inputs(4, 32, 101, ["input_ids", "labels"])}
    # A text token by token, whose keys and values stay on the GPU; in the second heads share them.
    gpt2_steps = decoded(dict(gpt2, sizes=dict(SMALL, cache=40, opset=24)))
    llama_steps = decoded(dict(llama, sizes=dict(llama["sizes"], cache=40, opset=24)))
    # Prompts of 20 tokens behind what caches hold, which is a call for attention behind a mask.
    prompts = dict(llama_steps, bind={"batch": 4, "seq": 20}, steps=2,
                   data={"input_ids": np.random.default_rng(2).integers(0, 101, (8, 20), dtype=np.int64), "cache_length": np.repeat([0, 20], 4)})
    return [
        dict(gpt2, name="gpt2", ranks=[1, 4], tolerance=1e-4),
        dict(bert, name="bert", ranks=[1, 4], tolerance=1e-4),
        dict(bert, name="bert-bf16", ranks=[1], tolerance=3e-2, options=["--precision", "bf16"]),
        dict(masked, name="bert-training-bf16", ranks=[1], tolerance=3e-2, options=["--precision", "bf16"]),
        dict(llama, name="llama-bf16", ranks=[1, 4], tolerance=3e-2, options=["--precision", "bf16"]),
        dict(gpt2_steps, name="gpt2-decoding", ranks=[1, 4], tolerance=1e-4, options=CARRIED),
        dict(llama_steps, name="llama-decoding-bf16", ranks=[1], tolerance=3e-2, options=[*CARRIED, "--precision", "bf16"]),
        dict(prompts, name="llama-prompts-bf16", ranks=[1, 4], tolerance=3e-2, options=[*CARRIED, "--precision", "bf16"]),
        dict(resnet, name="resnet", ranks=[1], tolerance=1e-3),
        dict(resnet, name="resnet-bf16", ranks=[1], tolerance=5e-2, options=["--precision", "bf16"]),
        dict(images_step, name="resnet-training", ranks=[1], tolerance=2e-3),
        dict(step, name="gpt2-training", ranks=[1, 4], tolerance=1e-3),
        dict(step, name="gpt2-training-bf16", ranks=[1], tolerance=3e-2, options=["--precision", "bf16"]),
        # Sums of two products and a bias, and products that are thin.
        dict(step, name="gpt2-adapters-bf16", ranks=[1, 4], tolerance=3e-2, options=["--precision", "bf16"],
             train=dataclasses.replace(train, adapters="lora(rank=8, alpha=16)")),
        dict(experts, name="mixtral-dropless-training-bf16", ranks=[1, 4], tolerance=3e-2, options=["--precision", "bf16"]),
        # With none of the epilogues that a library may lack.
        dict(step, name="gpt2-training-kernels-bf16", ranks=[1], tolerance=3e-2, options=["--precision", "bf16", *GELU_KERNELS, *BIAS_KERNELS],
             cpu_options=["--precision", "bf16"]),
        dict(step, name="gpt2-training-128-bf16", ranks=[1], tolerance=3e-2, options=["--precision", "bf16"], **long),
        dict(step, name="gpt2-training-fp16", ranks=[1], tolerance=1e-2, options=["--precision", "fp16"]),
        dict(step, name="gpt2-training-odd-bf16", ranks=[1], tolerance=3e-2, options=["--precision", "bf16"], sizes=odd, bind={"batch": 8, "seq": 64}, steps=2,
             inputs=token_inputs(8, 64, 515, ["input_ids", "labels"])),
    ]


def process_cases() -> List[Dict[str, Any]]:
    """Of ranks with a GPU each: sums over all, and a pipeline, which sends messages and of which a rank is killed."""
    step = {"model": "gpt2-124m", "sizes": SMALL, "bind": {"batch": 8, "seq": 32}, "inputs": token_inputs(8, 32, 101, ["input_ids", "labels"]), "steps": 5,
            "train": autopar.Train(LOSS, autopar.AdamW(lr=1e-3), clip_norm=1.0), "tolerance": 1e-3, "ranks": [2, 4, 8]}
    return [
        dict(step, name="gpt2-training-gpus", is_killed=False),
        dict(step, name="gpt2-pipeline-gpus", options=["--stages", "2", "--micro-batches", "2"], cpu_options=[], is_killed=True),
    ]


def compile_case(case: Dict[str, Any], model: pathlib.Path, artifact: pathlib.Path, target: str, ranks: int) -> None:
    autopar.compile(model, artifact, bind=case["bind"], ranks=ranks, train=case.get("train"),
                    options=["--quiet", "--target", target, *case.get("options", [])])


def pack_files(case: Dict[str, Any], folder: pathlib.Path, scratch: pathlib.Path) -> List[str]:
    """Inputs, expected results and one artifact per number of ranks; returns what autopar-run is given, but for the steps."""
    own = folder / case["name"]
    (own / "expected").mkdir(parents=True)
    model = own / "model.onnx"  # where artifacts find what is no weight: a mask as long as the sequence
    models.save(case["model"], model, weights=False, **case["sizes"])
    arguments = ["--init", case.get("init", INIT)]
    for name, values in case["inputs"].items():
        np.save(own / f"{name}.npy", values)
        arguments += ["--input", f"{name}={name}.npy"]
    if "data" in case:
        np.savez(own / "data.npz", **case["data"])
        arguments += ["--data", "data.npz", "--in-order"]
    # Half the width of the machine that packs: kernels that are run a few times are compiled in half of the time.
    cpu_options = ["--target-cpu", "x86-64-v3", *case.get("cpu_options", case.get("options", []))]
    compile_case(dict(case, options=cpu_options), model, scratch / "cpu.bin", "cpu", 1)
    subprocess.run([autopar.find_tool("autopar-run"), scratch / "cpu.bin", *arguments, "--steps", str(case.get("steps", 1)), "--quiet",
                    "--output-dir", own / "expected"], cwd=own, check=True)
    for ranks in case["ranks"]:
        compile_case(case, model, own / f"{ranks}.bin", "cuda", ranks)
    return arguments


def pack_case(case: Dict[str, Any], folder: pathlib.Path, scratch: pathlib.Path) -> List[Dict[str, Any]]:
    """Returns the lines of cases.json: one per number of ranks."""
    arguments = [*pack_files(case, folder, scratch), "--steps", str(case.get("steps", 1)), "--quiet"]
    return [{"name": case["name"] + (f", {ranks} ranks on one GPU" if ranks > 1 else ""), "folder": case["name"], "artifact": f"{ranks}.bin",
             "arguments": arguments, "tolerance": case["tolerance"]} for ranks in case["ranks"]]


def pack_processes(case: Dict[str, Any], folder: pathlib.Path, scratch: pathlib.Path) -> Dict[str, Any]:
    """Returns the line of cases.json for ranks that are processes."""
    arguments = pack_files(case, folder, scratch)
    return {"name": case["name"], "folder": case["name"], "artifacts": {str(ranks): f"{ranks}.bin" for ranks in case["ranks"]}, "arguments": arguments,
            "steps": case["steps"], "tolerance": case["tolerance"], "is_killed": case["is_killed"]}


class Speed(NamedTuple):
    """A model at full size. `seq`: tokens of a sample; of one that decodes, those that its caches have room for."""

    title: str
    model: str
    mode: str
    dtype: str
    batch: int
    seq: int
    options: List[str] = []
    #: Whether PyTorch is to do the same, and whether ours is to be as fast.
    has_torch: bool = True
    is_goal: bool = True
    #: The title of what this one is where a library lacks something.
    instead_of: str = ""

    def in_parts(self) -> bool:
        """Whether its instructions are timed one by one too: of what is quick to run, in the type that matters most."""
        return self.has_torch and self.dtype == "bf16"

    def name(self, title: str) -> str:
        size = f"{self.batch} x 1 token behind {self.seq - 1}" if self.mode == "decode" else f"{self.batch} x {self.seq} tokens"
        return f"{title}, {self.dtype}, {size}"


STEP, GELU_KERNELS, BIAS_KERNELS = "gpt2-124m training step", ["--activation-gradients", "kernels"], ["--bias-gradients", "kernels"]
SPEED = [
    Speed(STEP, "gpt2-124m", "train", "bf16", 64, 1024),
    *(Speed(f"{STEP}, {what} by kernels", "gpt2-124m", "train", "bf16", 64, 1024, options, False, False, STEP)
      for what, options in (("gelus", GELU_KERNELS), ("gradients of biases", BIAS_KERNELS), ("gelus and gradients of biases", [*GELU_KERNELS, *BIAS_KERNELS]))),
    *(Speed(f"{name} inference", name, "infer", dtype, batch, seq)
      for dtype in ("bf16", "f32") for name, seq in (("gpt2-124m", 1024), ("bert-base", 512)) for batch in (1, 32)),
    *(Speed("gpt2-124m decoding", "gpt2-124m", "decode", "bf16", batch, 1024, CARRIED, True, False) for batch in (1, 32)),
]
#: What is no token.
MADE_UP = {"token_type_ids": "zeros", "attention_mask": "ones"}
#: One kernel each, on a matrix of 512 MiB; what the bytes per second of the others are held against comes first.
KERNELS = {
    "copy": [("Identity", ["x"], {})],
    "elementwise": [("Mul", ["x", "scale"], {}), ("Add", ["", "shift"], {})],
    "softmax": [("Softmax", ["x"], {"axis": -1})],
    "layer norm": [("LayerNormalization", ["x", "scale", "shift"], {"axis": -1})],
    "transpose": [("Transpose", ["x"], {"perm": [1, 0]})],
}
#: Instructions of a training step whose logits are its only parameter, of 512 MiB.
STEP_KERNELS = {"cross-entropy and its gradient": "^loss/cast", "AdamW": "^x/update/"}
#: Steps before those that are timed, and these: a GPU that was idle takes some hundred milliseconds to its full clock.
KERNEL_STEPS, SHORT_STEPS, LONG_STEPS = [200, 50], [400, 100], [20, 20]
#: Tokens of a step that is short.
FEW_TOKENS = 2048
#: Names, types, and rows of 8,192 elements that fill 512 MiB.
KERNEL_TYPES = (("f32", TensorProto.FLOAT, 16384), ("bf16", TensorProto.BFLOAT16, 32768))
COLUMNS = 8192


def kernel_model(nodes: List[Any], dtype: int, rows: int, columns: int) -> onnx.ModelProto:
    """Nodes one after the other; an operand without a name is what the one before yields."""
    made, value = [], "x"
    for number, (kind, operands, attributes) in enumerate(nodes):
        result = "y" if number == len(nodes) - 1 else f"t{number}"
        made.append(helper.make_node(kind, [operand or value for operand in operands], [result], **attributes))
        value = result
    vectors = sorted({operand for _, operands, _ in nodes for operand in operands} - {"", "x"})
    shapes = [("x", [rows, columns]), *((name, [columns]) for name in vectors)]
    out = [columns, rows] if nodes[-1][0] == "Transpose" else [rows, columns]
    graph = helper.make_graph(made, "kernel", [helper.make_tensor_value_info(name, dtype, shape) for name, shape in shapes],
                              [helper.make_tensor_value_info("y", dtype, out)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def step_model(dtype: int, rows: int) -> onnx.ModelProto:
    """A parameter, whose values are drawn at load, as logits."""
    parameter = TensorProto(name="x", data_type=dtype, dims=[rows, COLUMNS], data_location=TensorProto.EXTERNAL)
    parameter.external_data.add(key="location", value="absent")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["logits"])], "step", [], [helper.make_tensor_value_info("logits", dtype, [rows, COLUMNS])],
                              [parameter])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def require_instructions(artifact: pathlib.Path, wanted: str) -> None:
    """One that is timed has to be there, and to be a single one."""
    words = [autopar.find_tool("autopar-run"), artifact, "--simulate", "presets:h200x1", "--profile", "--json", "--quiet"]
    said = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[0])
    names = [op["op"] for op in said["ops"]]
    if len([name for name in names if re.search(wanted, name)]) != 1:
        raise RuntimeError(f"{artifact.name} has not one instruction '{wanted}' but {', '.join(names)}")


def pack_kernel(folder: pathlib.Path, number: int, proto: onnx.ModelProto, train: Any) -> Dict[str, Any]:
    """Its place in the folder and what autopar-run is given."""
    model, artifact = folder / "kernels" / "model.onnx", f"kernels/{number}.bin"
    onnx.save(proto, model)
    autopar.compile(model, folder / artifact, cluster="presets:h200x1", train=train, options=["--quiet", "--target", "cuda"])
    model.unlink()
    inputs = [word for name in ([port.name for port in proto.graph.input] + ["labels"] * bool(train)) for word in ("--input", f"{name}=random")]
    return {"artifact": artifact, "arguments": (["--init", INIT] if train else []) + inputs, "steps": KERNEL_STEPS}


def pack_kernels(folder: pathlib.Path) -> List[Dict[str, Any]]:
    (folder / "kernels").mkdir()
    lines = []
    for title, nodes in KERNELS.items():
        for name, dtype, rows in KERNEL_TYPES:
            packed = pack_kernel(folder, len(lines), kernel_model(nodes, dtype, rows, COLUMNS), None)
            lines.append(dict(packed, name=f"{title}, {name}", instructions="."))
    for name, dtype, rows in KERNEL_TYPES:
        packed = pack_kernel(folder, len(lines), step_model(dtype, rows), autopar.Train(LOSS, autopar.AdamW(lr=1e-3)))
        lines += [dict(packed, name=f"{title}, {name}", instructions=instructions) for title, instructions in STEP_KERNELS.items()]
    for line in lines:
        require_instructions(folder / line["artifact"], line["instructions"])
    return lines


def inputs_of(timing: Speed, folder: pathlib.Path) -> List[str]:
    fields = ["input_ids"] + ["labels"] * (timing.mode == "train") + ["attention_mask", "token_type_ids"] * (timing.model == "bert-base")
    words = [word for field in fields for word in ("--input", f"{field}={MADE_UP.get(field, 'random')}")]
    if timing.mode == "decode":
        held = f"speed/held-{timing.batch}.npy"
        np.save(folder / held, np.full(timing.batch, timing.seq - 1))
        words += ["--input", f"cache_length={held}"]
    return words


def pack_speed(folder: pathlib.Path) -> List[Dict[str, Any]]:
    """Models at full size, with what torch_speed.py is to be asked for the same."""
    (folder / "speed").mkdir()
    lines = []
    for timing in SPEED:
        decodes = timing.mode == "decode"
        model, artifact = folder / "speed" / f"{timing.model}{'-cache' * decodes}.onnx", f"speed/{len(lines)}.bin"
        if not model.exists():
            models.save(timing.model, model, weights=False, **({"cache": timing.seq, "opset": 24} if decodes else {}))
        train = autopar.Train(LOSS, autopar.AdamW(lr=3e-4), clip_norm=1.0) if timing.mode == "train" else None
        precision = ["--precision", "bf16"] if timing.dtype == "bf16" else []
        autopar.compile(model, folder / artifact, bind={"batch": timing.batch, "seq": 1 if decodes else timing.seq}, cluster="presets:h200x1", train=train,
                        options=["--quiet", "--target", "cuda", *precision, *timing.options])
        tokens = timing.batch * (1 if decodes else timing.seq)
        lines.append({"name": timing.name(timing.title), "artifact": artifact, "tokens": tokens, "steps": SHORT_STEPS if tokens <= FEW_TOKENS else LONG_STEPS,
                      "arguments": ["--init", INIT, *inputs_of(timing, folder)], "is_goal": timing.is_goal, "in_parts": timing.in_parts(),
                      "instead_of": timing.name(timing.instead_of) if timing.instead_of else "",
                      "torch": [timing.model, timing.mode, timing.dtype, str(timing.batch), str(timing.seq)] if timing.has_torch else []})
    return lines


def compress(library: pathlib.Path, packed: pathlib.Path) -> None:
    if not packed.exists():
        packed.write_bytes(lzma.compress(library.read_bytes(), preset=0))


def copy_libraries(program: pathlib.Path, folder: pathlib.Path, own: str) -> None:
    """The libraries that not every machine has, compressed: one of them is larger than all else together."""
    for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        if path and not SYSTEM.match(name):
            compress(pathlib.Path(path.split(" ")[0]), folder / ("lib-gnu" if GNU.match(name) else own) / f"{name}.xz")


def copy_gloo(folder: pathlib.Path) -> None:
    """By which ranks that are processes meet. Apart: what it takes of the network is also NCCL's, which wants the machine's own."""
    plugin = BUILD / "lib" / "libautopar_gloo.so"
    compress(plugin, folder / "lib-gloo" / f"{plugin.name}.xz")
    copy_libraries(plugin, folder, "lib-gloo")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/gpu-pack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="new folder")
    parser.add_argument("--no-speed", action="store_true", help="leave the models at full size out")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    folder: pathlib.Path = arguments.folder.resolve()
    scratch = folder / "scratch"
    for part in ("bin", "lib", "lib-gnu", "lib-gloo", "scratch"):
        (folder / part).mkdir(parents=True)
    tests = [BUILD / "unittests" / name for name in ("CudaDeviceTest", "CudaAttentionTest", "CudaConvolutionTest", "CudaConformanceTest")]
    for program in (autopar.find_tool("autopar-run"), *tests):
        shutil.copy2(program, folder / "bin" / program.name)
        copy_libraries(program, folder, "lib")
    copy_gloo(folder)
    cases = [line for case in small_cases() for line in pack_case(case, folder, scratch)]
    processes = [pack_processes(case, folder, scratch) for case in process_cases()]
    speed = [] if arguments.no_speed else pack_speed(folder)
    kernels = pack_kernels(folder)
    shutil.rmtree(scratch)
    (folder / "cases.json").write_text(json.dumps({"cases": cases, "processes": processes, "speed": speed, "kernels": kernels}, indent=1) + "\n")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {len(cases) + len(processes)} cases, {len(speed) + len(kernels)} timings, {size / 2**20:.1f} MiB")
    if size > MOST_BYTES:
        print(f"error: more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
