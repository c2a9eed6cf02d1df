# SPDX-License-Identifier: Apache-2.0
"""What the default search finds on zoo models at full size without being told: the parallelisms that people write by
hand, each where the default cost model says it is cheapest, and another one where a link or the memory changes."""

import json
import pathlib
import re
import subprocess
from typing import Any, Dict, List

import pytest

import autopar
from autopar import models

CLUSTER = "presets:h100x8"


class Found:
    """A plan and how to ask it for degrees of parallelism."""

    def __init__(self, plan: Dict[str, Any]) -> None:
        self.plan = plan
        self.sizes = {axis["name"]: axis["size"] for mesh in plan["meshes"].values() for axis in mesh["axes"]}

    def degree(self, axes: List[str]) -> int:
        """Ranks along some axes."""
        product = 1
        for axis in axes:
            product *= self.sizes[axis]
        return product

    def sharding(self, pattern: str) -> List[List[int]]:
        """Per matching tensor, the degree along each dimension; fails when nothing matches."""
        matches = [shard for name, shard in self.plan["shard"].items() if re.fullmatch(pattern, name)]
        assert matches, f"no tensor matches {pattern}"
        return [[self.degree(axes) for axes in dims] for dims in matches]

    def factors(self, pattern: str) -> List[List[int]]:
        """Per matching operation, the degree along each factor."""
        matches = [factors for name, factors in self.plan["ops"].items() if re.fullmatch(pattern, name)]
        assert matches, f"no operation matches {pattern}"
        return [[self.degree(axes) for axes in factors] for factors in matches]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory):
    """Models without weights, each made once."""
    folder = tmp_path_factory.mktemp("zoo")

    def make(name: str) -> pathlib.Path:
        path = folder / f"{name}.onnx"
        if not path.exists():
            models.save(name, path, weights=False)
        return path

    return make


def search(model: pathlib.Path, bind: str, *options: str, cluster: str = CLUSTER, until: str = "search") -> Found:
    """The plan of the default search, or of its program where that is planned too."""
    plan = model.parent / "plan.json"
    subprocess.run([autopar.find_tool("autopar-compile"), model, "--bind", bind, "--cluster", cluster, "--stop-after", until,
                    "--emit-plan", plan, "--quiet", *options], check=True, timeout=300)
    return Found(json.loads(plan.read_text()))


def one_node(folder: pathlib.Path, bytes_per_s: float) -> str:
    """A cluster file: eight devices joined by one kind of link."""
    path = folder / f"cluster-{bytes_per_s:g}.json"
    path.write_text(json.dumps({
        "kind": "autopar.cluster", "version": 1, "name": "eight",
        "device_types": [{"name": "device", "peak_flops_per_s": {"f32": 6.69e13}, "compute_efficiency": 0.6,
                          "memory_bytes_per_s": 3.35e12, "memory_efficiency": 0.8, "memory_bytes": 80_000_000_000,
                          "reserved_bytes": 2 << 30, "launch_us": 4}],
        "nodes": [{"count": 1, "devices_per_node": 8, "device_type": "device"}],
        "levels": [{"name": "inside", "latency_us": 5, "bytes_per_s": bytes_per_s}]}))
    return str(path)


def test_large_batches_of_a_convolution_network_are_data_parallel(zoo) -> None:
    found = search(zoo("resnet50"), "batch=256")
    assert found.sharding("input") == [[8, 1, 1, 1]]
    assert all(set(dims) == {1} for dims in found.sharding(r".*(conv|downsample|fc).*weight"))


def test_few_tokens_of_a_large_model_take_megatrons_column_and_row_pair(zoo, tmp_path: pathlib.Path) -> None:
    found = search(zoo("gpt3-6.7b"), "batch=1,seq=64", cluster=one_node(tmp_path, 3.7e11))
    columns, rows = found.sharding(r".*mlp\.c_fc\.weight"), found.sharding(r".*mlp\.c_proj\.weight")
    assert len(columns) == len(rows) == 32
    for (whole, column), (row, other) in zip(columns, rows):
        assert whole == other == 1
        assert column == row > 1
    # Attention is split by heads in the same way: projections in by column, out by row.
    assert all(dims[-1] > 1 and dims[0] == 1 for dims in found.sharding(r".*attn\.c_attn\.weight"))
    assert all(dims[0] > 1 and dims[-1] == 1 for dims in found.sharding(r".*attn\.c_proj\.weight"))


def test_between_the_pairs_norms_are_split_along_the_sequence(zoo, tmp_path: pathlib.Path) -> None:
    found = search(zoo("gpt3-6.7b"), "batch=1,seq=64", cluster=one_node(tmp_path, 3.7e11))
    assert all(factors[:2] == [1, 8] for factors in found.factors(r".*/ln_[12]/LayerNormalization"))


def test_one_long_sequence_is_sequence_parallel_with_attention_by_heads(zoo) -> None:
    found = search(zoo("gpt3-6.7b"), "batch=1,seq=2048")
    assert all(set(dims) == {1} for dims in found.sharding(r".*mlp\.c_(fc|proj)\.weight"))
    assert all(factors[:2] == [1, 8] for factors in found.factors(r".*/mlp/c_fc/Gemm"))
    # Softmax, of a block of rows each, couples the keys of a head, so heads are spread there: factors are batch, head, query, key.
    assert all(factors[1] > 1 and factors[3] == 1 for factors in found.factors(r".*/attn/.*/rows\.\d+\.softmax"))


def test_experts_that_do_not_fit_are_spread_with_all_to_all(zoo, tmp_path: pathlib.Path) -> None:
    model = zoo("bert-switch")
    roomy = search(model, "batch=32,seq=512")
    assert all(set(dims) == {1} for dims in roomy.sharding(r".*experts\.w[io]\.weight"))
    tight = search(model, "batch=32,seq=512", "--memory-limit=600M", until="plan-memory")
    assert all(dims[0] > 1 and dims[1:] == [1, 1] for dims in tight.sharding(r".*experts\.w[io]\.weight"))
    assert max(tight.plan["believed"]["peak_bytes"]) <= 600 << 20
    local = tmp_path / "local.mlir"
    (tmp_path / "plan.json").write_text(json.dumps(tight.plan))
    subprocess.run([autopar.find_tool("autopar-compile"), model, "--bind=batch=32,seq=512", "--cluster", CLUSTER, "--quiet",
                    "--plan", tmp_path / "plan.json", "--stop-after=partition", "-o", local], check=True, timeout=300)
    # Tokens travel to their experts and back, in each layer that has experts.
    exchanges = re.findall(r'all_to_all .*autopar.id = "/encoder/layer.(\d+)/moe/', local.read_text())
    assert all(exchanges.count(layer) == 2 for layer in set(exchanges)) and len(set(exchanges)) >= 3


def test_stages_of_inference_are_searched_again_until_their_programs_fit(zoo) -> None:
    found = search(zoo("bert-switch"), "batch=32,seq=512", "--memory-limit=600M", "--stages=2", "--micro-batches=2", until="plan-memory")
    assert max(found.plan["believed"]["peak_bytes"]) <= 600 << 20


def test_where_no_program_fits_the_smallest_is_told(zoo) -> None:
    run = subprocess.run([autopar.find_tool("autopar-compile"), zoo("bert-switch"), "--bind=batch=32,seq=512", "--cluster", CLUSTER,
                          "--quiet", "--memory-limit=300M", "--stages=2", "--micro-batches=2", "--stop-after=plan-memory"],
                         capture_output=True, text=True, timeout=300)
    assert run.returncode != 0
    assert run.stderr.count("the leanest that was found needs") == 1, run.stderr


def test_experts_of_mixtral_are_spread(zoo) -> None:
    found = search(zoo("mixtral-8x7b"), "batch=8,seq=2048")
    # Where memory has room for a layer's experts in another way, that may be faster.
    spread = [dims[0] > 1 for dims in found.sharding(r".*experts\.w[123]\.weight")]
    assert len(spread) == 3 * 32 and sum(spread) >= 3 * 30


def test_a_link_ten_times_slower_flips_tensor_to_data_parallelism(zoo, tmp_path: pathlib.Path) -> None:
    model = zoo("gpt3-6.7b")
    fast = search(model, "batch=8,seq=24", cluster=one_node(tmp_path, 1.2e11))
    slow = search(model, "batch=8,seq=24", cluster=one_node(tmp_path, 1.2e10))
    assert all(dims[1] > 1 for dims in fast.sharding(r".*mlp\.c_fc\.weight"))
    assert all(set(dims) == {1} for dims in slow.sharding(r".*mlp\.c_fc\.weight"))
    assert slow.sharding("input_ids")[0][0] > 1


def test_a_model_too_large_for_the_cluster_is_refused_with_the_least_memory_found(zoo, tmp_path: pathlib.Path) -> None:
    answer = subprocess.run([autopar.find_tool("autopar-compile"), zoo("gpt3-175b"), "--bind=batch=8,seq=2048", "--cluster",
                             CLUSTER, "--plan-only", "-o", tmp_path / "plan.json"], capture_output=True, text=True, timeout=300)
    assert answer.returncode == 65
    assert re.search(r"no choice fits into \d+ bytes.*; the least found is \d+ bytes", answer.stderr)
    assert not (tmp_path / "plan.json").exists()


def test_what_only_repeats_takes_no_memory(tmp_path):
    """A llama of four layers in two micro-batches: positions of a split vocabulary took 2 x 2.1 GB of each rank from the first micro-batch to the last,
    weights of norms 34 MB each in every form in which they are read, and the search knew of neither. The smallest program had 11.6 GB."""
    path, limit = tmp_path / "m.onnx", 9 << 30
    models.save("llama3-8b", path, weights=False, layers=4)
    plan = tmp_path / "plan.json"
    command = [autopar.find_tool("autopar-compile"), path, "--bind=batch=16,seq=4096", "--cluster=presets:a100x8", "--precision=bf16", "--micro-batches=2",
               f"--memory-limit={limit}", "--train=loss=softmax_cross_entropy(logits, labels)", "--optimizer=adamw(lr=1e-4)", "--quiet",
               "--stop-after=plan-memory", f"--emit-plan={plan}"]
    subprocess.run([*map(str, command)], check=True, timeout=300)
    assert max(json.loads(plan.read_text())["believed"]["peak_bytes"]) <= limit


def test_parameters_are_split_so_that_shards_lie_one_behind_the_other(tmp_path: pathlib.Path) -> None:
    """Along any other dimension what is gathered is put in order by a kernel, and so is the gradient that is scattered."""
    models.save("llama3-8b", tmp_path / "m.onnx", weights=False, layers=4)
    found = search(tmp_path / "m.onnx", "batch=8,seq=4096", "--train", "loss=softmax_cross_entropy(logits, labels)",
                   "--optimizer", "adamw(lr=3e-4)", "--precision", "bf16")
    split = found.sharding(r"model\.layers\..*_proj\.weight")
    assert len(split) == 4 * 7 and all(dims[0] == 8 for dims in split)
