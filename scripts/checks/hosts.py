# SPDX-License-Identifier: Apache-2.0
"""Hosts on a network of their own, all on this machine: a network namespace each, joined by a switch in this process.

The switch hands packets on after the time that a link of a given rate and latency takes. Needs root, iproute2 and /dev/net/tun.
"""

import ctypes
import fcntl
import heapq
import itertools
import os
import select
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET, _PR_SET_TIMERSLACK = 0x40000000, 29
#: Where rank 0 listens.
PORT = 29500
#: Bytes of the largest packet take this long, so that nothing waits long behind one.
_PACKET_S = 500e-6
#: What a host may have under way before the switch stops reading from it.
_BACKLOG_S = 0.05
#: Of the networks of this process.
_NUMBERS = itertools.count()


def why_not() -> str:
    """Why hosts cannot be made here; empty where they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip"):
        return "the program ip is missing (Debian: iproute2)"
    if not os.path.exists("/dev/net/tun"):
        return "/dev/net/tun is missing (kernel module tun)"
    name = f"autopar-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"ip netns add: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


class Network:
    """`hosts` hosts, host i at 192.168.77.(i+1) with the name host<i>; each has a link of `mbit` Mbit/s both ways, and packets take
    `latency_us` from one to another. Without `mbit` only this machine limits it."""

    def __init__(self, hosts: int = 2, mbit: Optional[float] = None, latency_us: float = 0) -> None:
        self.count = hosts
        self._bytes_per_s = mbit * 1e6 / 8 if mbit else float("inf")
        self._latency_s = latency_us * 1e-6
        own = f"{os.getpid()}-{next(_NUMBERS)}"
        self._names = [f"autopar-{own}-{host}" for host in range(hosts)]
        self._links: List[int] = []
        self._folder = tempfile.mkdtemp(prefix="autopar-hosts-")
        #: Whether a packet between two hosts is lost: called with its bytes.
        self.loses: Callable[[bytes], bool] = lambda packet: False
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._forward, daemon=True)
        try:
            for host, name in enumerate(self._names):
                self._links.append(self._add(host, name))
        except Exception:
            self._remove()
            raise
        self._thread.start()

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._stopped, b"x")
        self._thread.join()
        self._remove()

    def address(self, host: int) -> str:
        """The address of a host."""
        return f"192.168.77.{host + 1}"

    def start(self, host: int, words: Sequence[object], env: Optional[Dict[str, str]] = None, **more: Any) -> "subprocess.Popen[str]":
        """A command on a host; it sees the host's name, and a file of hosts that knows all of them."""
        script = 'hostname "$0"; exec "$@"'
        full = ["ip", "netns", "exec", self._names[host], "unshare", "--uts", "sh", "-c", script, f"host{host}", *map(str, words)]
        return subprocess.Popen(full, env={**os.environ, **(env or {})}, text=True, **more)

    def start_ranks(self, words: Sequence[object], ranks: Optional[int] = None, env: Optional[Dict[str, str]] = None,
                    **more: Any) -> List["subprocess.Popen[str]"]:
        """One rank on each of the first hosts, told by torchrun's variables; rank 0 is on host 0."""
        count = ranks or self.count
        common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "host0", "MASTER_PORT": str(PORT), "LOCAL_RANK": "0", **(env or {})}
        return [self.start(rank, words, {**common, "RANK": str(rank)}, **more) for rank in range(count)]

    def start_mpirun(self, words: Sequence[object], env: Optional[Dict[str, str]] = None, **more: Any) -> "subprocess.Popen[str]":
        """mpirun of Open MPI on host 0, with a rank on each host. In place of ssh an agent starts commands on the others."""
        agent = os.path.join(self._folder, "agent")
        with open(agent, "w", encoding="utf-8") as file:
            cases = "".join(f"host{host}) own={name};;\n" for host, name in enumerate(self._names))
            file.write(f'#!/bin/sh\nhost=$1; shift\ncase $host in\n{cases}esac\n'
                       'exec ip netns exec "$own" unshare --uts sh -c "hostname $host; $*"\n')
        os.chmod(agent, 0o755)
        hosts = ",".join(f"host{host}" for host in range(self.count))
        common = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **(env or {})}
        return self.start(0, ["mpirun", "-np", self.count, "--host", hosts, "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self", *words],
                          env=common, **more)

    def set_hosts(self, host: int, text: str) -> None:
        """What /etc/hosts says on a host."""
        with open(f"/etc/netns/{self._names[host]}/hosts", "w", encoding="utf-8") as file:
            file.write(text)

    def cut(self, host: int, up: bool = False) -> None:
        """Takes the link of a host down, or up again."""
        _ip("-n", self._names[host], "link", "set", "link0", "up" if up else "down")

    def _add(self, host: int, name: str) -> int:
        os.makedirs(f"/etc/netns/{name}")
        self.set_hosts(host, "127.0.0.1 localhost\n" + "".join(f"{self.address(i)} host{i}\n" for i in range(self.count)))
        _ip("netns", "add", name)
        link = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        device = f"ap{os.getpid() % 1000000}.{host}"
        fcntl.ioctl(link, _TUNSETIFF, struct.pack("16sH14x", device.encode(), _IFF_TUN | _IFF_NO_PI))
        bytes_of_packet = int(min(64000, max(1500, self._bytes_per_s * _PACKET_S)))
        _ip("link", "set", device, "netns", name, "name", "link0")
        _ip("-n", name, "link", "set", "link0", "mtu", str(bytes_of_packet))
        _ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "link0")
        _ip("-n", name, "link", "set", "link0", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        return link

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        for link in self._links:
            os.close(link)
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)

    def _forward(self) -> None:
        """The switch. A packet leaves when those before it have left, and arrives when those before it have arrived."""
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
        left, arrived = [0.0] * self.count, [0.0] * self.count
        under_way: List[Tuple[float, int, int, bytes]] = []
        number = 0
        while True:
            now = time.monotonic()
            while under_way and under_way[0][0] <= now:
                _, _, host, packet = heapq.heappop(under_way)
                try:
                    os.write(self._links[host], packet)
                except OSError:
                    pass  # The link is down.
            readers = [link for host, link in enumerate(self._links) if left[host] < now + _BACKLOG_S]
            limit = max(0.0, under_way[0][0] - time.monotonic()) if under_way else 1.0
            for link in select.select([*readers, self._stop], [], [], min(limit, 0.01) if len(readers) < self.count else limit)[0]:
                if link == self._stop:
                    return
                try:
                    packet = os.read(link, 65536)
                except OSError:
                    continue
                host, to = self._links.index(link), packet[19] - 1 if packet[0] >> 4 == 4 else -1
                if not 0 <= to < self.count or packet[16:19] != b"\xc0\xa8\x4d" or self.loses(packet):
                    continue
                duration = len(packet) / self._bytes_per_s
                left[host] = max(time.monotonic(), left[host]) + duration
                arrived[to] = max(left[host] + self._latency_s, arrived[to] + duration)
                number += 1
                heapq.heappush(under_way, (arrived[to], number, to, packet))


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
