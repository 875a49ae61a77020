"""Real nodes of one machine: what is each one's own, which may be lost, and what the supervisor does about a lost one."""

import ipaddress
import json
import os
import shlex
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hostcluster.context import make_context
from tests.hostcluster.test_supervisor import House, _alive, _shell, _until
from workstation.hostcluster import cluster, namespaces, outage, state, upstream
from workstation.hostcluster.component import NODE_NAME, REAL_POD_RANGE, CommandHealth, Component, HostContext
from workstation.hostcluster.node import NODE_RANGE, nodes_of, present

SECOND = f"{NODE_NAME}-2"


def _three(folder: Path) -> HostContext:
    ctx = make_context(folder)
    return replace(ctx, options=replace(ctx.options, nodes=3))


def test_nodes_share_nothing(tmp_path: Path) -> None:
    nodes = nodes_of(_three(tmp_path))
    for own in ("name", "address", "pod_range", "cgroup", "data_dir", "run_dir", "kubelet_dir", "volume_dir", "link"):
        assert len({getattr(node, own) for node in nodes}) == len(nodes), own
    ranges = [ipaddress.ip_network(node.pod_range) for node in nodes]
    assert not any(one.overlaps(other) for one in ranges for other in ranges if one != other)
    assert all(each.subnet_of(ipaddress.ip_network(REAL_POD_RANGE)) for each in ranges)  # type: ignore[arg-type]
    within = ipaddress.ip_network(NODE_RANGE, strict=False)
    assert all(ipaddress.ip_address(node.address) in within for node in nodes)


def test_a_node_knows_the_way_to_the_pods_of_the_others_and_gives_nothing_back(tmp_path: Path) -> None:
    machine, second, third = nodes_of(_three(tmp_path))
    commands = [" ".join(command) for command in namespaces.network_commands(second)]
    assert f"ip route replace {third.pod_range} via {third.address}" in commands
    assert f"ip route replace default via {machine.address}" in commands
    assert f"ip route replace unreachable {second.pod_range}" in commands


def test_a_command_of_a_node_runs_in_its_groups_and_namespaces(tmp_path: Path) -> None:
    second = nodes_of(_three(tmp_path / "a b"))[1]
    script = namespaces.enter_script(second, [Path("/sys/fs/cgroup/cpu")])
    words = shlex.split(script, comments=True)
    assert f"/sys/fs/cgroup/cpu/{second.cgroup}/system/cgroup.procs;" in " ".join(words)
    assert {f"--net={second.network}", f"--mount={second.mounts}"} <= set(words)


def test_what_starts_containers_has_a_group_of_its_own_on_every_node(tmp_path: Path) -> None:
    """With the weight of the host's API server, each start of a container made all planes wait."""
    ctx = _three(tmp_path)
    parts = {item.name: item for item in upstream.components(ctx)}
    for node in nodes_of(ctx):
        script = namespaces.enter_script(node, [Path("/sys/fs/cgroup/cpu")], "agents")
        assert f"/sys/fs/cgroup/cpu/{node.cgroup}/agents/cgroup.procs" in script
        assert ("nsenter" in script) is not node.is_machine
        for name in ("containerd", "kubelet"):
            assert parts[node.component(name)].argv[:2] == node.enter_as_agent


def test_only_a_further_node_can_be_lost(tmp_path: Path) -> None:
    ctx = _three(tmp_path)
    assert outage.find(ctx, SECOND).index == 2
    with pytest.raises(cluster.HostError, match="has the host's control plane"):
        outage.find(ctx, NODE_NAME)
    for name in ("", "../etc", "bulkhead-host-4"):
        with pytest.raises(cluster.HostError, match=f"those are: {SECOND}, {NODE_NAME}-3"):
            outage.find(ctx, name)
    with pytest.raises(cluster.HostError, match="--nodes 3"):
        outage.find(make_context(tmp_path), SECOND)


def test_a_lost_node_is_not_present(tmp_path: Path) -> None:
    ctx = replace(_three(tmp_path), lost={SECOND: "cut"})
    assert [node.index for node in present(ctx)] == [1, 3]


def test_nodes_are_listed_by_their_own_components(tmp_path: Path) -> None:
    components = [
        state.ComponentState("kubelet", "ready"),
        state.ComponentState(f"{SECOND}/kubelet", "lost"),
        state.ComponentState(f"{NODE_NAME}-3/kubelet", "restarting"),
        state.ComponentState(f"{NODE_NAME}-3/gpu", "ready"),
    ]
    options = state.options_to_json(_three(tmp_path).options)
    found = state.HostState(1, "running", 0.0, options, components=components, lost={SECOND: "paused"})
    shown = [(node.name, node.state, node.detail) for node in outage.overview(found)]
    assert shown == [
        (NODE_NAME, "ready", ""),
        (SECOND, "paused", ""),
        (f"{NODE_NAME}-3", "not ready", "kubelet restarting"),
    ]


def _tell(house: House, lost: dict[str, str]) -> None:
    """What `host node lose` and `return` tell the supervisor."""
    values = {
        "options": state.options_to_json(house.ctx.options),
        "binaries": {},
        "cache_dir": str(house.ctx.cache_dir),
        "lost": lost,
    }
    (house.ctx.run_dir / "host.json").write_text(json.dumps(values))
    house.board.reload()


async def test_what_a_lost_node_ran_is_left_alone_until_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = _shell("here", "exec sleep 60"), _shell(f"{SECOND}/there", "exec sleep 60", node=SECOND)
    house = House(_three(tmp_path), monkeypatch, here, there)
    await _until(lambda: house.board.state.phase == "running")
    kept, killed = house.line(here.name).pid, house.line(there.name).pid
    _tell(house, {SECOND: "killed"})
    await _until(lambda: house.line(there.name).phase == "lost")
    assert house.line(there.name).detail == "node killed"
    os.kill(killed, signal.SIGKILL)
    await _until(lambda: not _alive(killed))
    os.kill(kept, signal.SIGKILL)  # one that is not lost is started again meanwhile
    await _until(lambda: house.line(here.name).restarts == 1 and house.line(here.name).phase == "ready")
    assert house.line(there.name).phase == "lost"
    assert house.board.state.phase == "running"
    _tell(house, {})
    await _until(lambda: house.line(there.name).phase == "ready")
    assert house.line(there.name).pid != killed
    await house.stop()


async def test_what_is_added_for_a_lost_node_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(_three(tmp_path), monkeypatch, _shell("here", "exec sleep 60"))
    await _until(lambda: house.board.state.phase == "running")
    late: Component = _shell(f"{SECOND}/late", "exec sleep 60", node=SECOND)
    house.plan = (*house.plan, late)
    _tell(house, {SECOND: "paused"})
    await _until(lambda: any(item.name == late.name and item.phase == "lost" for item in house.board.state.components))
    assert house.line(late.name).pid == 0
    _tell(house, {})
    await _until(lambda: house.line(late.name).phase == "ready")
    await house.stop()


async def test_what_changes_for_a_paused_node_waits_for_it_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `host up` renews certificates that end soon: a frozen kubelet cannot end, and the API server has to restart."""
    here, there = _shell("here", "exec sleep 60"), _shell(f"{SECOND}/there", "exec sleep 60", node=SECOND)
    house = House(_three(tmp_path), monkeypatch, there, here)
    await _until(lambda: house.board.state.phase == "running")
    restarted, frozen = house.line(here.name).pid, house.line(there.name).pid
    _tell(house, {SECOND: "paused"})
    await _until(lambda: house.line(there.name).phase == "lost")
    house.plan = tuple(replace(component, env={"BULKHEAD_CONFIG": "renewed"}) for component in (there, here))
    _tell(house, {SECOND: "paused"})
    await _until(lambda: house.line(here.name).pid not in {0, restarted} and house.line(here.name).phase == "ready")
    assert (house.line(there.name).pid, house.line(there.name).phase) == (frozen, "lost")
    assert _alive(frozen)
    _tell(house, {})
    await _until(lambda: house.line(there.name).pid not in {0, frozen} and house.line(there.name).phase == "ready")
    assert not _alive(frozen)
    await house.stop()


async def test_one_that_is_ill_because_its_node_is_paused_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sick, asked = tmp_path / "sick", tmp_path / "asked"
    here = _shell("here", "exec sleep 60", health=CommandHealth(("sh", "-c", f"echo >> {asked}")))
    there = _shell(f"{SECOND}/there", "exec sleep 60", node=SECOND, health=CommandHealth(("test", "!", "-e", str(sick))))
    house = House(_three(tmp_path), monkeypatch, here, there)
    await _until(lambda: house.board.state.phase == "running")
    pid = house.line(there.name).pid
    _tell(house, {SECOND: "paused"})
    await _until(lambda: house.line(there.name).phase == "lost")
    sick.touch()
    until = len(asked.read_text()) + 10  # many more than end one that is ill
    await _until(lambda: len(asked.read_text()) > until)
    assert house.line(there.name).phase == "lost"
    sick.unlink()
    _tell(house, {})
    await _until(lambda: house.line(there.name).phase == "ready")
    assert (house.line(there.name).pid, house.line(there.name).restarts) == (pid, 0)
    await house.stop()
