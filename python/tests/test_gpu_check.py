# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-pack and scripts/gpu-check, against the emulated GPU, so that they are whole when a real one is at hand."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import List, Sequence

import numpy as np
import pytest

from emulated_cuda import LIBRARIES

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"
SUITES = ("CudaDeviceTest", "CudaAttentionTest", "CudaConvolutionTest", "CudaConformanceTest")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("pack") / "gpu"
    done = subprocess.run([SCRIPTS / "gpu-pack", folder, "--no-speed"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def check(folder: pathlib.Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    libraries = os.path.relpath(LIBRARIES)  # from here, although programs run in the folder
    return subprocess.run([sys.executable, SCRIPTS / "gpu-check", folder, "--cuda-libraries", libraries, *options], capture_output=True, text=True,
                          env=dict(os.environ, **environment))


def rows(text: str) -> List[str]:
    return [line for line in text.splitlines() if line.startswith(("ok ", "met ", "MISSED ", "FAILED ", "not there "))]


def packed_with(packed: pathlib.Path, folder: pathlib.Path, **parts: list) -> pathlib.Path:
    """A copy of the folder with other cases."""
    shutil.copytree(packed, folder)
    cases = json.loads((packed / "cases.json").read_text())
    (folder / "cases.json").write_text(json.dumps({"cases": [], "processes": [], "speed": [], **{name: cases.get(name) for name in parts}, **parts}))
    return folder


def replace(program: pathlib.Path, text: str) -> None:
    program.unlink(missing_ok=True)
    program.write_text(f"#!/bin/sh\n{text}")
    program.chmod(0o755)


def replace_suites(folder: pathlib.Path, text: str, programs: Sequence[str] = SUITES) -> None:
    """The programs of tests, where the test at hand is not about them."""
    for program in programs:
        replace(folder / "bin" / program, text)


def test_all_rows_hold_and_what_cannot_be_measured_says_why(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """For speed a small model in place of the large ones; neither PyTorch nor NVIDIA's tools are to be found."""
    folder = tmp_path / "gpu"
    shutil.copytree(packed, folder)
    cases = json.loads((packed / "cases.json").read_text())["cases"]
    arguments = next(case for case in cases if case["name"] == "gpt2")["arguments"]
    timing = {"name": "small", "artifact": "gpt2/1.bin", "tokens": 128, "arguments": [*arguments[:2], "--input", "input_ids=random"], "torch": ["none"] * 5, "in_parts": True}
    kernels = [dict(timing, name=name, instructions="/attn/") for name in ("copy, f32", "other, f32")]
    (folder / "cases.json").write_text(json.dumps({"cases": cases, "speed": [timing, dict(timing, name="alone", torch=[])], "kernels": kernels}))
    done = check(folder, "--json", str(tmp_path / "json"), PATH=str(tmp_path))
    assert not any(line.startswith("FAILED") for line in rows(done.stdout)), done.stdout + done.stderr
    names = [line for line in rows(done.stdout) if line.startswith("ok ")]
    assert len([line for line in names if "conformance" in line]) == 5
    assert any("NCCL, world size 1 only" in line and "7 tests" in line for line in names)
    assert len([line for line in names if " numerics " in line]) == len(cases) >= 21
    assert any("4 ranks on one GPU" in line for line in names)
    assert any("small: " in line and " ms a step, " in line and "a captured step" in line for line in names), done.stdout
    assert len([line for line in names if "kernels" in line and "f32: " in line and line.endswith("100% of a copy in float32")]) == 2, done.stdout
    assert any("small: its " in line and " instructions take " in line for line in names)
    # An emulated GPU's clock says nothing of a real one's.
    goals = {goal["name"]: goal["verdict"] for goal in json.loads((tmp_path / "json").read_text())["goals"]}
    assert goals == {"other, f32": "met", "launches of a small": goals["launches of a small"], "memory of a small": "not there"}, done.stdout
    assert any(" /transformer/h.*/ln_*/LayerNormalization: " in line and line.endswith("% of a copy") for line in names), done.stdout
    missing = [line for line in rows(done.stdout) if line.startswith("not there ")]
    assert not any("alone, PyTorch" in line for line in missing)
    assert any("small, PyTorch beside it: not measured: " in line for line in missing), done.stdout
    assert any("small: not measured: neither nvidia-smi nor the driver tells of a GPU" in line for line in missing), done.stdout


def test_another_result_is_a_failure(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cases = json.loads((packed / "cases.json").read_text())["cases"]
    folder = packed_with(packed, tmp_path / "gpu", cases=[case for case in cases if case["name"].startswith(("gpt2", "resnet"))])
    replace_suites(folder, "echo '[==========] 1 test ran.'")
    logits = folder / "gpt2" / "expected" / "logits.npy"
    values = np.load(logits)
    values.flat[3] += 0.01 * np.abs(values).max()
    np.save(logits, values)
    (folder / "resnet" / "1.bin").write_bytes(b"no artifact")
    done = check(folder, "--no-torch")
    assert done.returncode == 1
    failed = [line for line in rows(done.stdout) if line.startswith("FAILED")]
    assert [line.split()[2].rstrip(":,") for line in failed] == ["gpt2", "gpt2", "resnet"], done.stdout


def test_what_cannot_be_run_or_has_no_time_hides_nothing_behind_it(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """An output of another shape ends its part alone; the folder is not written to; once time is up every row is still there."""
    cases = json.loads((packed / "cases.json").read_text())["cases"]
    folder = packed_with(packed, tmp_path / "gpu", cases=cases[:3])
    replace_suites(folder, "echo '[==========] 1 test ran.'")
    np.save(folder / "gpt2" / "expected" / "logits.npy", np.zeros(7, np.float32))
    before = sorted(folder.rglob("*"))
    done = check(folder)
    assert done.returncode == 1
    assert sorted(folder.rglob("*")) == before
    assert [line.split()[0] for line in rows(done.stdout) if " numerics " in line] == ["FAILED", "FAILED", "ok"], done.stdout
    assert "ValueError: operands could not be broadcast" in done.stdout
    late = check(folder, "--limit", "1")
    assert late.returncode == 0, late.stdout + late.stderr
    assert len([line for line in rows(late.stdout) if line.endswith("not measured: no time was left")]) >= 7, late.stdout


def test_programs_that_are_not_timed_run_at_once(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Each of the first two ends when the other has begun; rows keep their order."""
    folder = packed_with(packed, tmp_path / "gpu")
    replace_suites(folder, "echo '[==========] 1 test ran.'")
    for own, other in (SUITES[:2], SUITES[1::-1]):
        replace(folder / "bin" / own, f"touch {tmp_path}/{own}\nuntil [ -e {tmp_path}/{other} ]; do sleep 0.1; done\necho '[==========] 1 test ran.'")
    done = check(folder, "--no-torch", "--limit", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0].split()[2] for line in rows(done.stdout)][:4] == ["the", "attention", "convolutions", "staged"], done.stdout


def test_libraries_lie_in_packages(tmp_path: pathlib.Path) -> None:
    """Of CUDA 13 all in one folder but cuDNN and NCCL, of CUDA 12 each in one of its own."""
    for name in ("cu13", "cudnn", "nccl", "cublas", "cuda_nvrtc"):
        (tmp_path / "nvidia" / name / "lib").mkdir(parents=True)
    words = [sys.executable, "-c", "from checks.gpu.machine import library_folders; print(library_folders())"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ, PYTHONPATH=f"{tmp_path}:{SCRIPTS}")).stdout
    for name in ("cu13", "cudnn", "nccl", "cublas", "cuda_nvrtc"):
        assert str(tmp_path / "nvidia" / name / "lib") in said


def test_the_check_imports_nothing_but_numpy_and_python() -> None:
    """On its machine there is nothing else, and nothing of the repository but scripts."""
    program = ("import runpy, sys\nhad = set(sys.modules)\nrunpy.run_path(sys.argv[1], run_name='check')\n"
               "print(*{name.split('.')[0] for name in set(sys.modules) - had} - set(sys.stdlib_module_names))")
    done = subprocess.run([sys.executable, "-c", program, SCRIPTS / "gpu-check"], capture_output=True, text=True, check=False)
    names = {name for name in done.stdout.split() if "cython" not in name}  # which is in NumPy
    assert names == {"checks", "numpy"}, done.stdout + done.stderr


def test_ranks_as_processes_compute_the_same_and_end_when_one_is_lost(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    processes = json.loads((packed / "cases.json").read_text())["processes"]
    folder = packed_with(packed, tmp_path / "gpu", processes=processes)
    replace_suites(folder, "exit 1", SUITES[:-1])
    done = check(folder, "--no-torch", AUTOPAR_EMULATED_CUDA_DEVICES="4", AUTOPAR_EMULATED_NCCL_FOLDER=str(tmp_path))
    found = [line for line in rows(done.stdout) if " processes " in line or "NCCL" in line]
    assert any("NCCL, world sizes up to 4" in line and "28 tests" in line for line in found), done.stdout
    assert [line.split()[0] for line in found] == ["ok"] * 4, done.stdout
    assert "gpt2-training-gpus, 4 processes: " in found[1] and "differs from the CPU" in found[1]
    assert "gpt2-pipeline-gpus, rank 3 of 4 is killed: all others ended within " in found[3]
    alone = check(packed_with(packed, tmp_path / "alone", processes=processes), "--no-torch")
    assert alone.stdout.count("it takes 2 GPUs or more, NCCL has 1") == 2, alone.stdout


def test_a_library_that_is_too_old_is_no_failure_of_ours(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    old = "rank 0: cuDNN is too old: it is 9.8.0, needed is 9.11.0 or newer"
    newer = "the gradient of attention with 32 keys, no multiple of 128, needs cuDNN 9.16 or newer"
    case = {"name": "old", "folder": "gpt2", "artifact": "1.bin", "arguments": [], "tolerance": 1}
    folder = packed_with(packed, tmp_path / "gpu", cases=[case])

    def tests(*reasons: str) -> str:
        failed = [f"T.cpp:1: Failure\n{reason}\n\n[  FAILED  ] A.B{i} (3 ms)" for i, reason in enumerate(reasons)]
        return "cat <<'END'\n" + "\n".join([*failed, "[==========] 9 tests from 1 test suite ran.", "[  FAILED  ] 2 tests, listed below:"]) + "\nEND\nexit 1\n"

    replace(folder / "bin" / "CudaDeviceTest", tests("3 is not 4"))
    replace(folder / "bin" / "CudaAttentionTest", tests(old, newer))
    replace(folder / "bin" / "CudaConvolutionTest", tests(old, "3 is not 4"))
    replace(folder / "bin" / "CudaConformanceTest", tests("NCCL is too old: it is 2.10.3, needed is 2.14.0 or newer"))
    replace(folder / "bin" / "autopar-run", f"echo 'autopar-run: error: {newer}' >&2; exit 78\n")
    done = check(folder, "--no-torch")
    said = rows(done.stdout)
    assert [line[:9].strip() for line in said[:6]] == ["FAILED", "not there", "FAILED", "not there", "not there", "not there"], done.stdout
    assert "T.cpp:1: Failure 3 is not 4" in said[0], done.stdout
    assert "cuDNN is too old: it is 9.8.0" in said[1] and "2.10.3" in said[3] and "needs cuDNN 9.16" in said[5], done.stdout


def test_the_sanitizer_does_not_report_what_libraries_try(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Libraries ask the driver for what it may not have; that is no error of theirs."""
    cases = json.loads((packed / "cases.json").read_text())["cases"]
    folder = packed_with(packed, tmp_path / "gpu", cases=cases[:1])
    replace_suites(folder, "exit 1")
    (tmp_path / "tools").mkdir()
    replace(tmp_path / "tools" / "compute-sanitizer", 'echo "========= $*"\n')
    done = check(folder, "--no-torch", PATH=f"{tmp_path}/tools:{os.environ['PATH']}")
    assert any(line.startswith("ok ") and "--tool memcheck --report-api-errors no" in line for line in rows(done.stdout)), done.stdout
    replace(tmp_path / "tools" / "compute-sanitizer", 'echo "========= Error: Device not supported. Please refer to the documentation"\nexit 1\n')
    done = check(folder, "--no-torch", PATH=f"{tmp_path}/tools:{os.environ['PATH']}")
    assert any(line.startswith("not there sanitizer") and "Device not supported" in line for line in rows(done.stdout)), done.stdout


def test_the_log_has_what_rows_have_no_room_for(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Also of a program that hangs, as far as it came."""
    folder = packed_with(packed, tmp_path / "gpu")
    replace(folder / "bin" / "CudaDeviceTest", "echo '[ RUN      ] A.Hangs'; sleep 60\n")
    done = check(folder, "--no-torch", "--limit", "5", "--log", str(tmp_path / "log"))
    assert any(line.startswith("FAILED") and "not done after " in line and "A.Hangs" in line for line in rows(done.stdout)), done.stdout
    log = (tmp_path / "log").read_text()
    assert "bin/CudaDeviceTest\n[ RUN      ] A.Hangs" in log and "ended with 124" in log and f"libraries in {LIBRARIES}" in log, log


def test_memory_is_the_gpus_where_the_process_is_not_told_of(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """As in containers, whose processes have other numbers. What a small model takes beyond its plan is not the plan's."""
    cases = [case for case in json.loads((packed / "cases.json").read_text())["cases"] if case["name"] == "gpt2-training-bf16"]
    folder = packed_with(packed, tmp_path / "gpu", cases=cases, speed=[{"name": "step", "artifact": "large.bin", "tokens": 1, "torch": [], "arguments": []}])
    replace_suites(folder, "exit 1")
    # Of 1,000 MiB planned it takes 1,600, the small one 551 of 1.
    used = tmp_path / "used"
    replace(folder / "bin" / "autopar-run", f"""case "$*" in
*large.bin*) planned=1000 used=2600 ;;
*) planned=1 used=1551 ;;
esac
echo $used > {used}; sleep 1; rm {used}
echo "{{\\"planned_bytes\\": $((planned << 20)), \\"step_ms\\": [1.0]}}"
""")
    (tmp_path / "tools").mkdir()
    replace(tmp_path / "tools" / "nvidia-smi", f"""case "$*" in
*compute-apps*) echo "999999999, 5" ;;
*index,memory.used*) echo "0, $(cat {used} 2>/dev/null || echo 1000)"; echo "1, [N/A]" ;;
esac
""")
    done = check(folder, "--no-torch", PATH=f"{tmp_path}/tools:{os.environ['PATH']}")
    assert [line for line in rows(done.stdout) if line.split()[1] == "memory" or " goal         memory" in line] == [
        "ok        memory       step: planned 1,000 MiB, the GPU has more in use than before: 1,600 MiB, +60.0% of the plan, 550 MiB of it what a small model "
        "takes beyond its plan; without it +5.0% of the plan",
        "MISSED    goal         memory of a step: 60.0%, wanted is the planned peak within 3% of what the driver counts"], done.stdout


STEP = "gpt2-124m training step, bf16, 64 x 1024 tokens"


def measured_by_others(packed: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder whose program says what it is said to have measured, with a PyTorch and an nvidia-smi that do so too: just enough, and with BAD=1 just not."""
    timing = {"name": STEP, "artifact": "step.bin", "tokens": 65536, "arguments": [], "is_goal": True, "in_parts": True, "torch": ["gpt2-124m", "train", "bf16", "64", "1024"]}
    kernels = [{"name": f"{name}, f32", "artifact": f"{name}.bin", "arguments": [], "instructions": wanted} for name, wanted in (("copy", "."), ("AdamW", "^x/"))]
    folder = packed_with(packed, tmp_path / "gpu", speed=[timing], kernels=kernels)
    replace_suites(folder, "echo '[==========] 1 test ran.'")
    used = tmp_path / "used"
    replace(folder / "bin" / "autopar-run", f"""good() {{ [ -z "$BAD" ] && echo $1 || echo $2; }}
op() {{ echo "{{\\"op\\": \\"$1\\", \\"key\\": \\"kernel/map:1\\", \\"calls\\": ${{4:-5}}, \\"ms_per_call\\": 999, \\"median_ms\\": $2, \\"bytes\\": $3}}"; }}
ops() {{ echo "{{\\"ops\\": [$1]}}"; }}
case "$*" in
copy.bin*) ops "$(op copy 1.0 1000)" ;;
AdamW.bin*) ops "$(op x/update/cast 1.0 $(good 851 849)), $(op loss/cast 9.0 1)" ;;
step.bin*--profile*) ops "$(op at-load 50 1 1), $(op one 0.4 1), $(op two $(good 97.5 96.5) 1), $(op three $(good 0.2 0.1) 1)" ;;
step.bin*"--steps 40"*) echo $((1000 + $(good 1029 1031))) > {used}; sleep 1; rm {used}; echo '{{"planned_bytes": 1048576000}}' ;;
step.bin*) echo '{{"step_ms": [100.0], "captured": true}}' ;;
esac
""")
    (tmp_path / "tools").mkdir()
    replace(tmp_path / "tools" / "nvidia-smi", f"""case "$*" in
*index,memory.used*) echo "0, $(cat {used} 2>/dev/null || echo 1000)" ;;
*query-gpu=name*) echo "NVIDIA ${{CHIP:-H200}}, 580.1, 143771, 1980" ;;
esac
""")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "import json, os, sys\nprint(json.dumps({'median_ms': 99.9 if os.environ.get('BAD') else 100.1, 'how': 'whole', 'version': '9'}))\nsys.exit(0)\n")
    return folder


def test_each_goal_is_met_or_missed(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Each just so: in the table, in the file, and by how the program ends."""
    folder = measured_by_others(packed, tmp_path)
    surroundings = {"PATH": f"{tmp_path}/tools:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    for verdict, bad in (("met", ""), ("MISSED", "1")):
        done = check(folder, "--json", str(tmp_path / "json"), BAD=bad, **surroundings)
        assert done.returncode == len(bad), done.stdout + done.stderr
        told = json.loads((tmp_path / "json").read_text())
        names = [STEP, "AdamW, f32", f"launches of a {STEP}", f"memory of a {STEP}"]
        assert [(goal["name"], goal["verdict"]) for goal in told["goals"]] == [(name, verdict) for name in names], done.stdout
        assert [line.split()[:2] for line in rows(done.stdout)[-4:]] == [[verdict, "goal"]] * 4, done.stdout
        assert told["machine"] == [["NVIDIA H200", "580.1", "143771", "1980"]] and len(told["rows"]) == len(rows(done.stdout))
    assert "1.00, wanted is at least 1.00 of PyTorch's speed; 655,360 tokens/s, aimed at are 550,000" in done.stdout
    assert [round(goal["value"], 3) for goal in told["goals"]] == [0.999, 0.849, 0.033, 0.031]


def test_a_step_that_a_library_refuses_is_judged_as_it_runs(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """What was refused is a failure all the same."""
    folder = measured_by_others(packed, tmp_path)
    cases = json.loads((folder / "cases.json").read_text())
    refused = dict(cases["speed"][0], artifact="refused.bin")
    other = dict(cases["speed"][0], name="by kernels", instead_of=STEP, is_goal=False, torch=[])
    (folder / "cases.json").write_text(json.dumps(dict(cases, speed=[refused, other])))
    program = folder / "bin" / "autopar-run"
    program.write_text(program.read_text().replace("case ", "case \"$*\" in refused.bin*) echo 'cuBLASLt has no such product' >&2; exit 78 ;; esac\ncase ", 1))
    done = check(folder, "--json", str(tmp_path / "json"), PATH=f"{tmp_path}/tools:{os.environ['PATH']}", PYTHONPATH=str(tmp_path))
    goals = json.loads((tmp_path / "json").read_text())["goals"]
    assert done.returncode == 1 and [goal["verdict"] for goal in goals] == ["met"] * 4, done.stdout
    assert goals[0]["more"].startswith("as by kernels: 655,360 tokens/s") and goals[3]["name"] == "memory of a by kernels"
    assert [line.split()[1] for line in rows(done.stdout) if line.startswith("FAILED")] == ["speed"], done.stdout


def test_pytorch_is_compared_with_an_earlier_call_on_the_same_machine(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = measured_by_others(packed, tmp_path)
    surroundings = {"PATH": f"{tmp_path}/tools:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    check(folder, "--no-torch", "--json", first, **surroundings)
    assert [goal["verdict"] for goal in json.loads(pathlib.Path(first).read_text())["goals"]] == ["not there", "met", "met", "met"]
    done = check(folder, "--torch-only", "--before", first, "--json", second, **surroundings)
    assert done.returncode == 0 and len(rows(done.stdout)) == 5, done.stdout + done.stderr
    assert [goal["verdict"] for goal in json.loads(pathlib.Path(second).read_text())["goals"]] == ["met"] * 4
    other = check(folder, "--torch-only", "--before", first, CHIP="H100", **surroundings)
    assert other.returncode == 2 and "it was measured with another machine" in other.stderr, other.stderr
    (folder / "more.bin").write_text("")
    other = check(folder, "--torch-only", "--before", first, **surroundings)
    assert other.returncode == 2 and "it was measured with another pack" in other.stderr, other.stderr


def test_pytorch_alone_trains_first_and_keeps_what_it_compiled(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With a PyTorch that only says where its cache is, and fails where a step is captured."""
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text(
        "import json, os, sys\n"
        "if sys.argv[2] == 'train' and len(sys.argv) < 7:\n    sys.exit('RuntimeError: it cannot be captured')\n"
        "how = ' '.join(sys.argv[6:]) or 'whole'\n"
        "print(json.dumps({'median_ms': 1.0, 'how': how, 'version': os.environ['TORCHINDUCTOR_CACHE_DIR']}))\nsys.exit(0)\n")
    speed = [{"name": mode, "artifact": "none", "tokens": 1, "arguments": [], "torch": ["bert-base", mode, "f32", "1", "8"]} for mode in ("infer", "train")]
    folder = packed_with(packed, tmp_path / "gpu", speed=speed)
    done = check(folder, "--torch-only", "--torch-cache", str(tmp_path / "kept"), PYTHONPATH=str(tmp_path))
    said = [line for line in rows(done.stdout) if " speed " in line]
    assert done.returncode == 0 and [line.split()[2] for line in said] == ["train,", "infer,"], done.stdout + done.stderr
    assert "captured it fails: RuntimeError: it cannot be captured" in said[0] and "whole" in said[1]
    assert all(str(tmp_path / "kept") in line for line in said) and (tmp_path / "kept").is_dir()


def test_the_models_beside_ours_take_what_ours_take() -> None:
    """Tiny ones on the CPU, by Debian's PyTorch, which has no compiler: a hidden token is not seen, types and pooler count, a step learns,
    and tokens one by one have the scores of all at once."""
    program = """
import math, sys, torch
sys.path.insert(0, sys.argv[1])
from torch.nn import functional
def attention(q, k, v, attn_mask=None, is_causal=False):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores if attn_mask is None else scores + attn_mask
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1) & is_causal
    return torch.softmax(scores.masked_fill(hidden, -math.inf), -1) @ v
if not hasattr(functional, "scaled_dot_product_attention"):
    functional.scaled_dot_product_attention = attention
import torch_speed
torch.manual_seed(0)
size = torch_speed.Size(vocab=31, positions=16, causal=False, hidden=32, heads=4, layers=2)
bert = torch_speed.make_model(size).eval()
ids, mask, types = torch_speed.make_inputs(size, 3, 8, "cpu")
mask[:] = 1
mask[:, 7] = 0
other = ids.clone()
other[:, 7] = (ids[:, 7] + 1) % 31
with torch.no_grad():
    (states, pooled), (again, _), (typed, _) = bert(ids, mask, types), bert(other, mask, types), bert(ids, mask, types + 1)
assert states.shape == (3, 8, 32) and pooled.shape == (3, 32) and pooled.abs().max() <= 1
assert torch.equal(states[:, :7], again[:, :7]) and not torch.equal(states, typed)
size = size._replace(causal=True)
gpt2 = torch_speed.make_model(size)
(ids,), labels = torch_speed.make_inputs(size, 3, 8, "cpu"), torch.randint(31, (3, 8))
assert gpt2(ids).shape == (3, 8, 31)
for block in gpt2.blocks:
    block.keep(3, 10)
with torch.no_grad():
    each = [gpt2(ids[:, [place]], torch.tensor([place])) for place in range(8)]
    assert torch.allclose(torch.cat(each, 1), gpt2(ids), atol=1e-5)
optimizer = torch.optim.AdamW(gpt2.parameters(), lr=1e-2)
losses = []
def loss():
    value = torch_speed.loss_of(gpt2, ids, labels)
    losses.append(float(value))
    return value
for _ in range(20):
    torch_speed.update(loss, gpt2, optimizer)
assert losses[-1] < losses[0] / 2, losses
"""
    done = subprocess.run(["/usr/bin/python3", "-c", program, SCRIPTS / "checks"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
