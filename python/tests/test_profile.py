# SPDX-License-Identifier: Apache-2.0
"""autopar-profile measures this machine; what it writes is a cluster that plans can be made for."""

import itertools
import json
import math
import os
import pathlib
import re
import subprocess
from typing import Any, Dict, NamedTuple, Tuple

import pytest

import autopar
from autopar import models
from conftest import Example

RANKS = 2
#: Generous: the machine may be slow, and busy with other tests.
BOUNDS = {"compute_efficiency": (0.01, 1), "memory_efficiency": (0.01, 1), "memory_bytes_per_s": (1e7, 1e12),
          "launch_us": (0.01, 1e4)}


class Profile(NamedTuple):
    """A cluster file and what was said while it was measured."""

    path: pathlib.Path
    cluster: Dict[str, Any]
    said: str


def profile(*words: object, timeout: float = 120) -> subprocess.CompletedProcess:
    """autopar-profile, whatever comes of it."""
    return subprocess.run([autopar.find_tool("autopar-profile"), *map(str, words)], capture_output=True, text=True, timeout=timeout)


def measure(folder: pathlib.Path, *words: object) -> Profile:
    """A quick profile, which must succeed."""
    path = folder / "cluster.json"
    done = profile("--quick", "-o", path, *words)
    assert done.returncode == 0, done.stderr
    assert [left.name for left in folder.iterdir()] == ["cluster.json"]
    return Profile(path, json.loads(path.read_text()), done.stderr)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return measure(tmp_path_factory.mktemp("profile"), "--ranks", RANKS)


def plan(cluster: pathlib.Path, model: Example, output: pathlib.Path) -> Dict[str, Any]:
    """The plan that the compiler makes for a cluster file."""
    bind = ",".join(f"{name}={value}" for name, value in model.bind.items())
    subprocess.run([autopar.find_tool("autopar-compile"), model.path, "--bind", bind, "--cluster", cluster, "--plan-only",
                    "-o", output, "--quiet"], check=True, timeout=120)
    return json.loads(output.read_text())


def test_figures_are_sane(measured: Profile) -> None:
    (device,) = measured.cluster["device_types"]
    (level,) = measured.cluster["levels"]
    assert 1e8 < device["peak_flops_per_s"]["f32"] < 1e14
    for key, (least, most) in BOUNDS.items():
        assert least <= device[key] <= most, (key, device[key])
    assert 0 <= level["latency_us"] < 1e5 and 1e6 < level["bytes_per_s"] < 1e13
    assert "avx512_bf16" not in pathlib.Path("/proc/cpuinfo").read_text() or device["peak_flops_per_s"]["bf16"] > 1e8


def test_ranks_share_the_memory_of_the_machine(measured: Profile) -> None:
    (device,) = measured.cluster["device_types"]
    (group,) = measured.cluster["nodes"]
    total_kib = int(re.search(r"MemTotal:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text())[1])
    assert group["devices_per_node"] == RANKS
    assert 0 < device["reserved_bytes"] < device["memory_bytes"] <= total_kib * 1024 * 1.01 / RANKS


def test_every_measurement_has_a_line(measured: Profile) -> None:
    lines = measured.said.splitlines()
    assert all(line.startswith("autopar-profile: ") for line in lines)
    for what in ("product f32 1024x1024x1024", "product f64: left out", "memory, copy", "smallest instructions", "link"):
        assert any(what in line for line in lines), what


@pytest.mark.parametrize("kind", ["permute", "all_reduce"])
def test_messages_of_all_sizes_take_their_time(measured: Profile, kind: str) -> None:
    times = {int(kib): float(us) for kib, us in re.findall(rf"{kind} (\d+) KiB among {RANKS} ranks: ([\d.]+) us", measured.said)}
    assert min(times) == 1 and max(times) == 64 << 10
    assert times[64 << 10] > 10 * times[1] > 0
    # The formulas of docs/CostModel.md: of two ranks, a permute is one step and an all-reduce two with half of the bytes.
    (level,) = measured.cluster["levels"]
    steps = 1 if kind == "permute" else 2
    predicted = [steps * level["latency_us"] + 1e6 * kib * 1024 / level["bytes_per_s"] for kib in sorted(times)]
    assert all(small < large for small, large in zip(predicted, predicted[1:]))
    # Nearer to what was measured than any constant would be.
    off = [abs(math.log(guess / times[kib])) for guess, kib in zip(predicted, sorted(times))]
    assert sum(off) / len(off) < math.log(4)


def test_the_compiler_plans_for_it(measured: Profile, gpt2: Example, tmp_path: pathlib.Path) -> None:
    found = plan(measured.path, gpt2, tmp_path / "plan.json")
    assert found["devices"] == RANKS and found["cluster"] == measured.cluster["name"]
    assert found["believed"]["step_us"] > 0
    # What is measured counts: on a device of half the speed the same step is slower.
    cluster = json.loads(measured.path.read_text())
    cluster["device_types"][0]["peak_flops_per_s"] = {"f32": measured.cluster["device_types"][0]["peak_flops_per_s"]["f32"] / 100}
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps(cluster))
    assert plan(slow, gpt2, tmp_path / "slow-plan.json")["believed"]["step_us"] > found["believed"]["step_us"]


def test_one_rank_of_several_threads(gpt2: Example, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    one = measure(folder, "--ranks", 1, "--threads", 2, "--quiet")
    assert one.said == "" and one.cluster["nodes"][0]["devices_per_node"] == 1
    assert one.cluster["levels"][0]["bytes_per_s"] > 0
    assert plan(one.path, gpt2, tmp_path / "plan.json")["devices"] == 1


@pytest.mark.parametrize("words, named", [
    (("-o", "c.json", "--ranks", 0), "--ranks"), (("-o", "c.json", "--ranks", -3), "--ranks"),
    (("-o", "c.json", "--threads", 0), "--threads"), (("-o", "c.json", "--ranks", "two"), "--ranks"), (("--quick",), "-o cluster.json")])
def test_wrong_words_are_usage_errors(words, named: str) -> None:
    done = profile(*words)
    assert done.returncode == 2 and named in done.stderr, (done.returncode, done.stderr)


def host_file(folder: pathlib.Path, devices: int, hosts: int = 1) -> pathlib.Path:
    """A cluster file as --hosts takes it, for one host."""
    path = folder / f"{hosts}x{devices}.json"
    link = {"latency_us": 1, "bytes_per_s": 1e10}
    path.write_text(json.dumps({
        "kind": "autopar.cluster", "version": 1, "levels": [link] * (2 if hosts > 1 else 1),
        "device_types": [{"name": "cpu", "peak_flops_per_s": {"f32": 1e11}, "memory_bytes_per_s": 1e10, "memory_bytes": 1 << 33}],
        "nodes": [{"count": hosts, "devices_per_node": devices, "device_type": "cpu"}]}))
    return path


@pytest.mark.parametrize("devices, hosts, code, says", [
    (1, 1, 78, "rank 1 is on a host that has ranks enough: expected one for each device of the cluster file, 1, on each host, host by host"),
    (2, 1, 78, "expected two hosts or more with a rank for each device of the cluster file, 2, got 2 ranks"),
    (1, 2, 65, "2x1.json' has 2 nodes; --hosts takes the file of one host, as autopar-profile writes it there"),
])
def test_ranks_that_are_not_as_many_on_each_host_are_refused(tmp_path: pathlib.Path, devices: int, hosts: int, code: int, says: str) -> None:
    words = ["--quick", "--hosts", host_file(tmp_path, devices, hosts), "-o", tmp_path / "cluster.json", "--world-size", RANKS,
             "--rendezvous", f"file://{tmp_path / 'meet'}"]
    ranks = [subprocess.Popen([autopar.find_tool("autopar-profile"), *map(str, words), "--rank", str(rank)], stderr=subprocess.PIPE,
                              text=True, env=dict(os.environ, AUTOPAR_HOST="127.0.0.1")) for rank in range(RANKS)]
    said = [(rank.communicate(timeout=60)[1], rank.returncode) for rank in ranks]
    assert all(says in text and ended == code for text, ended in said), said
    assert not (tmp_path / "cluster.json").exists()


def test_what_belongs_to_launchers_is_refused_without_and_with_them(tmp_path: pathlib.Path) -> None:
    host = host_file(tmp_path, 1)
    done = profile("--hosts", host, "-o", tmp_path / "c.json")
    assert done.returncode == 2 and "--hosts needs one process per rank, on several hosts: start it by a launcher" in done.stderr, done
    ranks = ["--rank", 0, "--world-size", 2, "--rendezvous", f"file://{tmp_path / 'meet'}", "-o", tmp_path / "c.json"]
    done = profile(*ranks)
    assert done.returncode == 2 and "this is rank 0 of 2 that a launcher started; without one, measure a host: -o host.json" in done.stderr, done
    done = profile(*ranks, "--hosts", host, "--database", tmp_path / "db.json")
    assert done.returncode == 2 and "--database measures one host; it does not go with --hosts" in done.stderr, done


def test_an_output_that_cannot_be_written_is_refused_before_measuring(tmp_path: pathlib.Path) -> None:
    for path in (tmp_path / "none" / "cluster.json", tmp_path):
        done = profile("-o", path)
        assert done.returncode == 73 and f"cannot create '{path}'" in done.stderr, (done.returncode, done.stderr)
        assert "product" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_stopped_leaves_the_file_as_it_was(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text("before")
    with subprocess.Popen([autopar.find_tool("autopar-profile"), "--quick", "-o", path], stderr=subprocess.PIPE, text=True) as running:
        assert "autopar-profile" in running.stderr.readline()
        running.terminate()
    assert running.returncode != 0
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def measured_database(folder: pathlib.Path) -> Dict[str, pathlib.Path]:
    """A cluster and a profile database of this machine, and a model for two ranks."""
    done = profile("--quick", "--quiet", "--ranks", RANKS, "--threads", 1, "-o", folder / "cluster.json", "--database", folder / "profile.json",
                   timeout=400)  # 20 s on a quiet machine
    assert done.returncode == 0, done.stderr
    models.save("gpt2-124m", folder / "m.onnx", layers=1, hidden=128, heads=4, vocab=500)
    return {"cluster": folder / "cluster.json", "profile": folder / "profile.json", "model": folder / "m.onnx"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, pathlib.Path]:
    return measured_database(tmp_path_factory.mktemp("database"))


def compiled(database: Dict[str, pathlib.Path], output: pathlib.Path, *words: object) -> pathlib.Path:
    """The artifact of a step for the measured cluster, by the measured times."""
    subprocess.run([autopar.find_tool("autopar-compile"), database["model"], "--bind", "batch=4,seq=64", "--cluster", database["cluster"],
                    "--profile", database["profile"], "-o", output, "--quiet", *words], check=True, timeout=120)
    return output


def simulated(artifact: pathlib.Path, cluster: pathlib.Path, profile_database: pathlib.Path, *words: object) -> subprocess.CompletedProcess:
    """A step in virtual time, by measured times."""
    return subprocess.run([autopar.find_tool("autopar-run"), artifact, "--simulate", cluster, "--profile-database", profile_database, "--json", *words],
                          capture_output=True, text=True, timeout=120)


def predicted_ms(artifact: pathlib.Path, cluster: pathlib.Path, profile_database: pathlib.Path) -> float:
    done = simulated(artifact, cluster, profile_database)
    assert done.returncode == 0, done.stderr
    (step_ms,) = json.loads(done.stdout)["step_ms"]
    return step_ms


def test_a_database_of_this_machine_plans_and_predicts(database: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    """Other tests run meanwhile, and ranks that wait for a core measure that: such a database is made anew, as a person would.
    How near it is on a quiet machine: scripts/bench prediction."""
    found = []
    for attempt in range(3):
        (tmp_path / str(attempt)).mkdir()
        own = measured_database(tmp_path / str(attempt)) if attempt else database
        artifact = compiled(own, tmp_path / str(attempt) / "m.bin")
        ran = subprocess.run([autopar.find_tool("autopar-run"), artifact, "--input", "input_ids=zeros", "--threads", "1", "--benchmark", "--steps", "9",
                              "--warmup", "2", "--quiet"], check=True, capture_output=True, text=True)
        found.append((predicted_ms(artifact, own["cluster"], own["profile"]), json.loads(ran.stdout.splitlines()[-1])["median_ms"]))
        if found[-1][1] / 8 < found[-1][0] < found[-1][1] * 8:
            return
    pytest.fail(f"predicted and measured, ms: {found}")


def test_what_was_measured_counts(database: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    """Where everything takes ten times as long, the step does."""
    artifact = compiled(database, tmp_path / "m.bin")
    profile_database = json.loads(database["profile"].read_text())
    for instruction in profile_database["instructions"]:
        instruction["us"] = [10 * us for us in instruction["us"]]
    for collective in profile_database["collectives"]:
        collective["times"] = [{"bytes": time["bytes"], "us": 10 * time["us"]} for time in collective["times"]]
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps(profile_database))
    predicted = predicted_ms(artifact, database["cluster"], database["profile"])
    assert predicted_ms(artifact, database["cluster"], slow) == pytest.approx(10 * predicted, rel=0.02)


def times(profile_database: Dict[str, Any], key: str) -> Dict[Tuple[float, ...], float]:
    """Microseconds of a class by its sizes."""
    (one,) = (one for one in profile_database["instructions"] if one["key"] == key)
    return dict(zip(itertools.product(*(extent["values"] for extent in one["extents"])), one["us"]))


@pytest.mark.parametrize("kind", ["map", "rows"])
def test_small_kernels_read_what_is_in_a_cache(database: Dict[str, pathlib.Path], kind: str) -> None:
    us = times(json.loads(database["profile"].read_text()), f"kernel/{kind}")
    # A 64th of the bytes: at most four times as long for each as where no cache helps.
    assert 16 * us[(float(256 << 10),)] < us[(float(16 << 20),)], us


@pytest.mark.parametrize("kind", ["forward", "gradient"])
def test_a_causal_mask_costs_what_its_rows_see(database: Dict[str, pathlib.Path], kind: str) -> None:
    us = times(json.loads(database["profile"].read_text()), f"attention/f32/{kind}/causal")
    # Few columns of many rows, which no mask has, do not raise what triangles take.
    assert 2 * us[(64, 256, 16, 128)] < us[(64, 256, 256, 128)], us


def test_a_hole_is_named_and_filled_only_when_told_to(database: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    profile_database = json.loads(database["profile"].read_text())
    profile_database["instructions"] = [one for one in profile_database["instructions"] if not one["key"].startswith("attention/f32")]
    holed = tmp_path / "holed.json"
    holed.write_text(json.dumps(profile_database))
    artifact = compiled(database, tmp_path / "m.bin")
    done = simulated(artifact, database["cluster"], holed)
    assert done.returncode != 0
    assert re.search(r'the profile database has no time for "attention/f32/forward/causal:\d+x64x33x\d+": nobody measured operations of this kind; '
                     r"measure it, or allow formulas with --profile-fallback analytical", done.stderr), done.stderr
    assert simulated(artifact, database["cluster"], holed, "--profile-fallback", "analytical").returncode == 0
