# SPDX-License-Identifier: Apache-2.0
"""How lit runs the tests of this folder: one behaviour per file, FileCheck or expected diagnostics."""
import os
import shutil
import subprocess
import sys

import lit.formats

config.name = "AutoPar"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.autopar_test_root

config.environment["PATH"] = os.pathsep.join(
    [config.autopar_tools_dir, config.llvm_tools_dir, config.environment.get("PATH", "")])
config.environment["PYTHONPATH"] = os.path.join(config.autopar_source_root, "python")
config.environment["AUTOPAR_TOOLS"] = config.autopar_tools_dir


def python_with_onnx():
    """An interpreter that can make and read ONNX models; nothing where none is found."""
    candidates = [os.environ.get("AUTOPAR_PYTHON"), os.path.join(config.autopar_source_root, ".venv", "bin", "python"),
                  sys.executable, shutil.which("python3")]
    for python in filter(None, candidates):
        if os.path.exists(python) and subprocess.run([python, "-c", "import numpy, onnx"], capture_output=True).returncode == 0:
            return python
    return None


python = python_with_onnx()
if python:
    config.available_features.add("onnx")
    if subprocess.run([python, "-c", "import onnxruntime"], capture_output=True).returncode == 0:
        config.available_features.add("onnxruntime")
config.substitutions.append(("%python", python or sys.executable))
config.substitutions.append(("%autopar_build", os.path.dirname(config.autopar_test_root)))
for tool in ("autopar-opt", "autopar-compile", "autopar-translate", "autopar-run", "autopar-solve"):
    if os.path.exists(os.path.join(config.autopar_tools_dir, tool)):
        config.available_features.add(tool)
if os.path.exists(os.path.join(config.autopar_library_dir, "AutoParPlugin.so")):
    config.available_features.add("plugin")
    config.substitutions.append(("%plugin", os.path.join(config.autopar_library_dir, "AutoParPlugin.so")))
if shutil.which("mpirun"):
    config.available_features.add("mpi")
with open("/proc/cpuinfo") as cpu:
    flags = set(cpu.read().split())
    if "avx512dq" in flags:
        config.available_features.add("avx512")
    if "avx512_vnni" in flags:
        config.available_features.add("avx512vnni")
if shutil.which("nvidia-smi"):
    config.available_features.add("cuda")
