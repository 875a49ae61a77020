"""Taking the host down while some of its nodes are lost leaves nothing of any node. It runs last: the host is gone then."""

import json

from e2e import commands, machine
from e2e.api import Api
from e2e.poll import NotYetError, until
from e2e.scenarios.nodes.places import REAL, SECOND, THIRD
from workstation.hostcluster import cgroups, mounts


def _traces() -> set[str]:
    """The traces of a further node on this machine."""
    links = json.loads(commands.run(["ip", "-j", "link"]).out)
    found = {link["ifname"] for link in links if link["ifname"].startswith(("bulkhead-n", "veth"))}
    routes = commands.run(["ip", "route"]).out.splitlines()
    found |= {line for line in routes if line.startswith("10.244.") or "172.31.255." in line}
    table = mounts.TABLE.read_text().splitlines()
    found |= {line for line in table if any(name in line for name in REAL) or "/run/bulkhead" in line}
    found |= {str(group) for group in cgroups.groups()}
    found |= {str(process) for process in machine.processes_of_host()}
    return found | {str(folder) for folder in (machine.DATA / "nodes").glob("*")}


def test_nothing_is_left_of_any_node(host: Api) -> None:
    assert host.ready()
    commands.bulkhead("host", "node", "lose", SECOND, "--how", "killed")
    commands.bulkhead("host", "node", "lose", THIRD, "--how", "paused")
    before = _traces()
    assert any(THIRD in line for line in before), "a host that is up has no traces: this looks at the wrong places"
    commands.bulkhead("host", "down", seconds=180)

    def none() -> None:
        if left := _traces():
            raise NotYetError("\n".join(sorted(left)))

    until("all traces to be gone", none, seconds=10)  # the kernel removes the network of the last processes with some delay
