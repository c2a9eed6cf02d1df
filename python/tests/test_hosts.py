# SPDX-License-Identifier: Apache-2.0
"""Ranks on hosts of their own, with a network between them: same bits as in one process, and what goes wrong there ends all of them."""

import json
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from typing import Iterator, List

import numpy as np
import pytest

import autopar
from conftest import Example

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))

from checks import hosts  # noqa: E402

pytestmark = pytest.mark.skipif(bool(hosts.why_not()), reason=hosts.why_not())

RUN = autopar.find_tool("autopar-run")
TIMEOUT_S = 60
#: Two names for one host: Debian's own file of hosts says of a machine's name that it is a loopback.
DEBIAN = "127.0.0.1 localhost\n127.0.1.1 host{own}\n192.168.77.{number} host{other}\n"


@pytest.fixture(scope="module")
def network() -> Iterator[hosts.Network]:
    with hosts.Network() as made:
        for own, other in ((0, 1), (1, 0)):
            made.set_hosts(own, DEBIAN.format(own=own, other=other, number=other + 1))
        yield made


@pytest.fixture(scope="module")
def job(gpt2: Example, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with gpt2 for two ranks, as it is and in training, and an input."""
    folder = tmp_path_factory.mktemp("job")
    autopar.compile(gpt2.path, folder / "compiled.bin", bind=gpt2.bind, ranks=2)
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-3))
    autopar.compile(gpt2.path, folder / "train.bin", bind=gpt2.bind, ranks=2, train=train)
    np.save(folder / "ids.npy", gpt2.inputs["input_ids"])
    return folder


def inference(job: pathlib.Path, out: pathlib.Path) -> List[object]:
    return [RUN, job / "compiled.bin", "--input", f"input_ids={job / 'ids.npy'}", "--output-dir", out]


def training(job: pathlib.Path, steps: int, *more: object) -> List[object]:
    return [RUN, job / "train.bin", "--data", "synthetic(vocab=500)", "--steps", steps, "--quiet", *more]


def start(network: hosts.Network, words: List[object], **env: str) -> "List[subprocess.Popen[str]]":
    return network.start_ranks(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def ends(ranks: "List[subprocess.Popen[str]]", within_s: float = TIMEOUT_S) -> List[str]:
    """What each rank said at its end, with its exit status in front."""
    limit = time.monotonic() + within_s
    try:
        return [f"{rank.returncode}: {errors}" for rank in ranks
                for _, errors in [rank.communicate(timeout=max(0.1, limit - time.monotonic()))]]
    finally:
        for rank in ranks:
            rank.kill()


def await_step(metrics: pathlib.Path) -> None:
    limit = time.monotonic() + TIMEOUT_S
    while not (metrics.exists() and metrics.stat().st_size):
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize("meeting", ["tcp", "folder"])
def test_inference_gives_the_same_bits(network: hosts.Network, job: pathlib.Path, tmp_path: pathlib.Path, meeting: str) -> None:
    subprocess.run([str(word) for word in inference(job, tmp_path / "alone")], check=True, capture_output=True)
    words = inference(job, tmp_path / "hosts")
    if meeting == "folder":
        flags = ["--world-size", 2, "--rendezvous", f"file://{tmp_path / 'meet'}"]
        ranks = [network.start(rank, [*words, "--rank", rank, *flags], stderr=subprocess.PIPE) for rank in range(2)]
    else:
        ranks = start(network, words)
    assert ends(ranks) == ["0: ", "0: "]
    np.testing.assert_array_equal(np.load(tmp_path / "hosts/logits.npy"), np.load(tmp_path / "alone/logits.npy"))


def test_training_goes_on_from_a_checkpoint_of_one_machine(network: hosts.Network, job: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def words(steps: int, kind: str) -> List[object]:
        return training(job, steps, "--checkpoint-dir", tmp_path / f"ckpt-{kind}", "--metrics", tmp_path / f"{kind}-{steps}.jsonl")

    def losses(name: str) -> List[str]:
        return [line.split('"loss":')[1].split(",")[0] for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]

    for steps in (2, 4):
        subprocess.run([str(word) for word in words(steps, "alone")], check=True, capture_output=True)
        assert ends(start(network, words(steps, "hosts"))) == ["0: ", "0: "]
        assert losses(f"hosts-{steps}") == losses(f"alone-{steps}")


@pytest.mark.parametrize("host", [0, 1])
def test_a_link_that_goes_down_ends_every_rank(network: hosts.Network, job: pathlib.Path, tmp_path: pathlib.Path, host: int) -> None:
    ranks = start(network, training(job, 10**8, "--metrics", tmp_path / "m.jsonl", "--hang-timeout", 2))
    await_step(tmp_path / "m.jsonl")
    network.cut(host)
    try:
        zero, one = ends(ranks, within_s=10)
    finally:
        network.cut(host, up=True)
    # Whoever hears of the other's end first says so.
    assert zero.startswith("75: [rank 0]") and re.search(r"rank 1 on host1 is (stuck \(no heartbeat for 2 s\)|gone)", zero)
    assert one.startswith("75: [rank 1]") and re.search(r"rank 0 on host0 \(host0:29500\) is (stuck \(no heartbeat for 2 s\)|gone)", one)


def test_a_stopped_rank_zero_ends_the_others(network: hosts.Network, job: pathlib.Path, tmp_path: pathlib.Path) -> None:
    zero, one = start(network, training(job, 10**8, "--metrics", tmp_path / "m.jsonl", "--hang-timeout", 2))
    await_step(tmp_path / "m.jsonl")
    zero.send_signal(signal.SIGSTOP)
    try:
        assert "rank 0 on host0 (host0:29500) is stuck" in ends([one], within_s=10)[0]
    finally:
        zero.kill()
        zero.communicate()


@pytest.mark.skipif(not shutil.which("mpirun"), reason="Open MPI is not installed")
@pytest.mark.parametrize("host", [0, 1])
def test_a_link_that_goes_down_ends_every_rank_under_mpirun(network: hosts.Network, job: pathlib.Path, tmp_path: pathlib.Path, host: int) -> None:
    # mpirun hears nothing of a rank whose host it does not reach, so each writes down how it ended.
    script = f'cd {tmp_path}; own=$OMPI_COMM_WORLD_RANK; "$@" 2>said.$own; echo $? >part.$own; mv part.$own code.$own'
    words = training(job, 10**8, "--metrics", tmp_path / "m.jsonl", "--hang-timeout", 2)
    mpirun = network.start_mpirun(["sh", "-c", script, "sh", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    codes = [tmp_path / f"code.{rank}" for rank in range(2)]
    try:
        await_step(tmp_path / "m.jsonl")
        network.cut(host)
        limit = time.monotonic() + 10
        while not all(code.exists() for code in codes):
            assert time.monotonic() < limit, [path.name for path in tmp_path.iterdir()]
            time.sleep(0.01)
    finally:
        mpirun.kill()
        mpirun.wait()
        network.cut(host, up=True)
    assert [code.read_text() for code in codes] == ["75\n", "75\n"]
    zero, one = ((tmp_path / f"said.{rank}").read_text() for rank in range(2))
    assert re.search(r"^\[rank 0\] autopar-run: .*rank 1 on host1 is (stuck|gone)", zero), zero
    assert re.search(r"^\[rank 1\] autopar-run: .*rank 0 on host0 \(192.168.77.1:\d+\) is (stuck|gone)", one), one


def test_a_firewall_that_lets_only_the_port_of_the_meeting_through(network: hosts.Network, job: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def is_other(packet: bytes) -> bool:
        header = (packet[0] & 15) * 4
        return hosts.PORT not in struct.unpack(">HH", packet[header:header + 4])

    network.loses = is_other
    try:
        said = ends(start(network, [*inference(job, tmp_path), "--arrival-timeout", 2]), within_s=15)
    finally:
        network.loses = lambda packet: False
    assert all(text.startswith("75") and "firewalls have to let the hosts connect at every port" in text for text in said), said
    # Whoever gives up first says it for both.
    assert all(f"rank {rank} at 192.168.77.{rank + 1}" in text for text in said for rank in range(2)), said


def test_a_link_is_measured_and_used_both_ways_at_once(tmp_path: pathlib.Path) -> None:
    profile = autopar.find_tool("autopar-profile")
    subprocess.run([profile, "--quick", "--quiet", "--ranks", "1", "--threads", "1", "-o", tmp_path / "host.json"], check=True)
    with hosts.Network(2, mbit=400, latency_us=2000) as slow:
        words = [profile, "--quick", "--quiet", "--hosts", tmp_path / "host.json", "-o", tmp_path / "cluster.json"]
        assert ends(start(slow, words)) == ["0: ", "0: "]
        refused = ends(start(slow, [profile, "-o", tmp_path / "none.json"]))
    cluster = json.loads((tmp_path / "cluster.json").read_text())
    assert cluster["nodes"] == [{"count": 2, "devices_per_node": 1, "device_type": "cpu"}]
    network = cluster["levels"][-1]
    # The receiver says that it is ready, then bytes come. One way after the other they would be half as fast.
    assert 2000 < network["latency_us"] < 20000
    assert 0.65 < network["bytes_per_s"] / 50e6 < 1.1
    assert 0 <= network.get("compute_loss", 0) < 20
    assert all(text.startswith("2: ") and "--hosts host.json" in text for text in refused), refused


def test_an_address_that_nobody_has(network: hosts.Network, job: pathlib.Path, tmp_path: pathlib.Path) -> None:
    zero, one = ends(start(network, [*inference(job, tmp_path), "--arrival-timeout", 2], MASTER_ADDR="192.168.77.99"), within_s=15)
    assert "75: [rank 0] autopar-run: only 1 of 2 ranks arrived at host0 within 2 s; missing is rank 1" in zero
    assert "75: [rank 1] autopar-run: cannot reach rank 0 at 192.168.77.99:29500: Connection timed out" in one
