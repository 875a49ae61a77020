"""Drops, limits and delays packets on this machine: nft tables, a token bucket, and a proxy inside a pod's network.

    one table `inet bulkhead-chaos` for all drops: its counters prove them, its deletion ends them
    a pod's network namespace is entered by the number of one of its processes

The kernel may lack netem, so delay comes from a TCP proxy to which the pod's own nft table redirects its connections.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e import machine
from e2e.api import Obj
from e2e.machine import Process

TABLE: Final = "bulkhead-chaos"
# Before the rules that the host itself has at priority 0, and on every way that a packet of a pod may take.
_HOOKS: Final = ("forward", "output", "input")


def run(*words: str, given: str | None = None, check: bool = True) -> str:
    """Run a tool of the system; returns its output. Raises `OSError` with its words if it fails."""
    done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=30, check=False)
    if check and done.returncode:
        raise OSError(f"{' '.join(words)}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def drops(rules: Sequence[str], *, percent: int = 100) -> str:
    """The text of a table that drops packets; each rule is a match such as `ip saddr 10.0.0.1`. Pure."""
    chance = "" if percent >= 100 else f"numgen random mod 100 < {percent} "
    lines = [f"table inet {TABLE} {{"]
    for hook in _HOOKS:
        lines.append(f"  chain {hook} {{ type filter hook {hook} priority -50; policy accept;")
        lines += [f"    {rule} {chance}counter drop" for rule in rules]
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def drop(rules: Sequence[str], *, percent: int = 100) -> None:
    clear()
    run("nft", "-f", "-", given=drops(rules, percent=percent))


def counted(text: str) -> int:
    """The packets of all counters in what `nft -j list table` prints. Pure."""
    found = 0
    for item in json.loads(text).get("nftables", []):
        for part in item.get("rule", {}).get("expr", []):
            found += int(part["counter"]["packets"]) if isinstance(part.get("counter"), dict) else 0
    return found


def dropped() -> int:
    """The packets that the table has dropped so far."""
    return counted(run("nft", "-j", "list", "table", "inet", TABLE))


def clear() -> None:
    """Remove the table; nothing happens if there is none."""
    if present():
        run("nft", "delete", "table", "inet", TABLE)


def present() -> bool:
    return f"table inet {TABLE}" in run("nft", "list", "tables")


def between(one: str, other: str) -> tuple[str, str]:
    """The matches of all packets between two addresses."""
    return f"ip saddr {one} ip daddr {other}", f"ip saddr {other} ip daddr {one}"


def address(pod: Obj) -> str:
    return str(pod["status"]["podIP"])


def any_process(pod: Obj) -> Process:
    """A process in the pod's namespaces."""
    found = machine.processes_of_pod(str(pod["metadata"]["uid"]))
    if not found:
        raise OSError(f"no process of pod {pod['metadata']['name']}")
    return found[0]


def inside(process: Process, *words: str) -> tuple[str, ...]:
    """A command in the network namespace of a pod."""
    return ("nsenter", "-t", str(process.pid), "-n", "--", *words)


def cable(pod: Obj) -> str:
    """The machine's end of the pod's network cable."""
    # In a network namespace of its own, /sys still shows the devices of the machine; `ip` asks the kernel.
    text = run(*inside(any_process(pod), "ip", "-j", "link", "show", "eth0"))
    number = int(json.loads(text)[0]["link_index"])
    links = {int(path.read_text()): path.parent.name for path in Path("/sys/class/net").glob("*/ifindex")}
    if number not in links:
        raise OSError(f"no device has the number {number}, which pod {pod['metadata']['name']} is connected to")
    return links[number]


def received(device: str) -> int:
    """The bytes that the machine has got through a pod's cable: what the pod has sent."""
    return int(Path("/sys/class/net", device, "statistics", "rx_bytes").read_text())


def limit_rate(device: str, rate: str) -> None:
    run("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "200ms")


def unlimit_rate(device: str) -> None:
    """Remove the limit, unless the device has gone with its pod."""
    if Path("/sys/class/net", device).exists() and "tbf" in run("tc", "qdisc", "show", "dev", device):
        run("tc", "qdisc", "delete", "dev", device, "root")


def overlimits(device: str) -> tuple[int, int]:
    """The packets that had to wait at a limited device, and those that it dropped."""
    found = json.loads(run("tc", "-s", "-j", "qdisc", "show", "dev", device))
    root = next(item for item in found if item["kind"] == "tbf")
    return int(root["overlimits"]), int(root["drops"])


def limited() -> list[str]:
    """The pods' devices that still have a limit."""
    found = json.loads(run("tc", "-j", "qdisc", "show"))
    return [item["dev"] for item in found if item["kind"] == "tbf" and item["dev"].startswith("veth")]


def detour(destination: str, port: int, through: int, mark: int) -> str:
    """The table, for a pod's namespace, that leads new connections to `destination` to a proxy on `through`. Pure.

    Connections from before are reset, so that the pod opens new ones. The proxy's own carry `mark`.
    """
    match = f"ip daddr {destination} tcp dport {port} meta mark != {mark}"
    return "\n".join(
        [
            f"table ip {TABLE} {{",
            "  chain nat { type nat hook output priority -150; policy accept;",
            f"    {match} counter redirect to :{through}",
            "  }",
            "  chain cut { type filter hook output priority -50; policy accept;",
            f"    {match} counter reject with tcp reset",
            "  }",
            "}",
            "",
        ]
    )


def open_detour(process: Process, destination: str, port: int, through: int, mark: int) -> None:
    close_detour(process)
    run(*inside(process, "nft", "-f", "-"), given=detour(destination, port, through, mark))


def close_detour(process: Process) -> None:
    run(*inside(process, "nft", "delete", "table", "ip", TABLE), check=False)


def start_proxy(process: Process, port: int, mark: int, delay: float, log: Path) -> subprocess.Popen[bytes]:
    """A proxy in the pod's network that passes on every piece `delay` seconds late, and logs what it passed on."""
    words = (
        "setpriv",
        "--pdeathsig",
        "TERM",
        "--",
        *inside(process, sys.executable, "-m", "e2e.chaos.faults.proxy", str(port), str(mark), str(delay), str(log)),
    )
    return subprocess.Popen(words)
