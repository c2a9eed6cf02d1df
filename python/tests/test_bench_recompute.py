# SPDX-License-Identifier: Apache-2.0
"""`scripts/bench recompute` on a small model: operations against the best choice of layers, which is the best of all their subsets."""

import itertools
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))

from checks import bench_recompute  # noqa: E402

#: Only memory and simulated time are looked at: kernels for the CPU are compiled in a quarter of the time.
JOB = bench_recompute.Job("gpt2-124m", "presets:h100x1", "batch=64,seq=256", "data=1", options=("--target", "cpu"),
                          sizes={"layers": 3, "hidden": 256, "heads": 4, "vocab": 512, "positions": 256})


def test_layers_are_read_off_a_plan():
    layers = bench_recompute.layers_of(["/h.2/b", "h.3.w/bf16", "/h.1/b", "h.2.w/bf16"])
    assert layers == [["/h.1/b", "h.2.w/bf16"], ["/h.2/b", "h.3.w/bf16"]]
    rules = bench_recompute.rules(layers)
    assert rules["all of it"](1) == ["/h.1/b", "h.2.w/bf16"]
    assert rules["parameters stay gathered"](2) == ["/h.1/b", "/h.2/b"]
    assert rules["all parameters gathered again"](1) == ["/h.1/b", "h.2.w/bf16", "h.3.w/bf16"]
    assert bench_recompute.layers_of(["/h.2/b", "/h.1/b", "/h.2/a", "/h.1/a"]) == [["/h.1/b", "/h.2/a"], ["/h.1/a"], ["/h.2/b"]]
    for unlike in (["/h.2/b", "/h.2/c"], ["/h.3/b", "/h.2/b", "/h.1/b", "/h.1/c", "/h.0/b"]):
        with pytest.raises(ValueError, match="no layers that are alike"):
            bench_recompute.layers_of(unlike)


@pytest.mark.parametrize("least", [0, 3, 7, 8])
def test_the_fewest_that_fit_are_found(least):
    assert bench_recompute.fewest(7, lambda count: count >= least) == least


def test_operations_beat_every_subset_of_layers(tmp_path):
    judge = bench_recompute.Judge(JOB, tmp_path)
    (row,) = bench_recompute.compare(judge, shares=(1 / 2,))
    assert row["kept"] < row["operations"] < row["layers"]
    full = judge.searched("--recompute", "full")
    layers = bench_recompute.layers_of(full["recompute"])
    assert len(layers) == row["of"] >= 3
    subsets = itertools.chain.from_iterable(itertools.combinations(layers, count) for count in range(len(layers) + 1))
    found = [judge.recomputing(full, [name for layer in subset for name in layer], row["limit"]) for subset in subsets]
    assert row["layers"] <= min(each.us for each in found) * 1.001
