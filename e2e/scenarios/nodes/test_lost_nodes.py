"""A node is killed, paused or cut off, and returns: other nodes' pods keep running, and its own come back."""

import json
import signal
from functools import partial

import pytest

from e2e import commands, machine, tenants, workloads
from e2e.api import Api, UnreachableError
from e2e.names import GPU
from e2e.poll import holds, until
from e2e.scenarios.nodes.places import FIRST, FLAGS, PORT, REAL, SECOND, THIRD, fetch, gets, lost, on, ready, web
from e2e.tenants import Tenant
from e2e.workloads import is_ready


@pytest.fixture(scope="module")
def pair(alice: Tenant) -> dict[str, str]:
    """Two pods of alice behind the Service `pair`, the far one on the node that is lost. Returns the UIDs of both."""
    for name, node in (("near", FIRST), ("far", SECOND)):
        pod = web(name, where=on(node))
        pod["metadata"]["labels"]["group"] = "pair"
        alice.api.apply(pod)
    service = workloads.service("pair", "", PORT)
    service["spec"]["selector"] = {"group": "pair"}
    alice.api.apply(service)
    return {name: str(workloads.wait_running(alice.api, name)["metadata"]["uid"]) for name in ("near", "far")}


def _restarts(tenant: Tenant, name: str) -> int:
    return int(tenant.api.get("Pod", name, "default")["status"]["containerStatuses"][0]["restartCount"])


def _address(tenant: Tenant, name: str) -> str:
    address = tenant.api.get("Pod", name, "default")["status"].get("podIP", "")
    workloads.expect(bool(address), f"{name} has no address")  # a restarted pod has none for a while
    return str(address)


def _states() -> dict[str, str]:
    listed = commands.bulkhead("host", "node", "list", "-o", "json", check=False).out
    return {node["name"]: node["state"] for node in json.loads(listed)}


def _answers(tenant: Tenant) -> bool:
    try:
        return tenant.api.ready()
    except UnreachableError:
        return False


@pytest.mark.parametrize("how", ["killed", "paused", "cut"])
def test_a_node_is_lost_and_returns(host: Api, alice: Tenant, bob: Tenant, pair: dict[str, str], how: str) -> None:
    tenants.wait_ready(host, [alice.name, bob.name], seconds=60)
    bob.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": how, "namespace": "default"}})
    until("both to answer", lambda: gets(alice, "near", _address(alice, "far"), "far"), seconds=20)
    before = _restarts(alice, "far")
    with lost(host, SECOND, how):
        assert _states() == {FIRST: "ready", SECOND: how, THIRD: "ready"}
        assert not _answers(bob), "the lost node's plane answers: the node is not lost"
        holds("the plane on another node to answer", partial(_expect_answer, alice), seconds=2)
        until("the Service to be without the lost pod", partial(_served_by_near_alone, alice), seconds=30)
        alice.api.apply(workloads.pod(f"during-{how}", workloads.pod_spec(where=on(THIRD))))
        workloads.wait_running(alice.api, f"during-{how}")
    assert ready(host, SECOND)
    until("the far pod to answer again", lambda: gets(alice, "near", _address(alice, "far"), "far"), seconds=60)
    workloads.wait_running(alice.api, "far", seconds=60)
    assert {name: alice.api.get("Pod", name, "default")["metadata"]["uid"] for name in pair} == pair
    # After a power failure it runs a second time; a pod that was paused or cut off simply continues.
    assert _restarts(alice, "far") - before == (1 if how == "killed" else 0)
    until("the plane that was lost to answer", partial(_expect_answer, bob), seconds=90)
    assert bob.api.get("ConfigMap", how, "default")
    tenants.wait_ready(host, [alice.name, bob.name], seconds=120)
    until("its GPUs to be back", partial(_gpus, host), seconds=30)
    assert set(_states().values()) == {"ready"}


def _expect_answer(tenant: Tenant) -> None:
    workloads.expect(_answers(tenant), "no answer")


def _served_by_near_alone(tenant: Tenant) -> None:
    seen = [fetch(tenant, "near", "pair.default.svc.cluster.local") for _ in range(4)]
    workloads.expect(set(seen) == {"near"}, str(seen))


def _gpus(host: Api) -> None:
    found = [host.get("Node", node)["status"]["allocatable"].get(GPU) for node in REAL]
    workloads.expect(found == ["8"] * len(REAL), str(found))


def test_the_machine_itself_is_not_lost_and_a_host_does_not_shrink(host: Api) -> None:
    assert ready(host, FIRST)
    for words, said in (
        (("node", "lose", FIRST), "has the host's control plane"),
        (("node", "lose", "nobody"), SECOND),
        (("up", "--nodes", "2"), "cannot shrink"),
    ):
        refused = commands.bulkhead("host", *words, check=False)
        assert refused.code == 1
        assert said in refused.text.replace("\n", " ")


def test_all_nodes_come_back_after_a_power_cut_that_finds_some_lost(host: Api, alice: Tenant, bob: Tenant) -> None:
    for name, node in (("one", FIRST), ("two", SECOND), ("three", THIRD)):
        alice.api.apply(web(name, where=on(node)))
        workloads.wait_running(alice.api, name)
    commands.bulkhead("host", "node", "lose", SECOND, "--how", "paused")
    commands.bulkhead("host", "node", "lose", THIRD, "--how", "cut")
    for _ in range(3):  # a supervisor that still lives may start something in between
        for process in machine.processes_of_host():
            process.send(signal.SIGKILL)
    until("the host's API to be gone", lambda: workloads.expect(not machine.is_up(), "it answers"), seconds=30)
    machine.bring_up(lambda line: print(line, flush=True), *FLAGS)  # it knows how many nodes it has
    assert set(_states().values()) == {"ready"}
    tenants.wait_ready(host, [alice.name, bob.name], seconds=180)

    def again() -> None:
        for name in ("one", "two", "three"):
            pod = alice.api.get("Pod", name, "default")
            workloads.expect(is_ready(pod) and _restarts(alice, name) == 1, workloads.describe(pod))

    until("the pods of all nodes to run again", again, seconds=120)
    until("they reach each other", lambda: gets(alice, "one", _address(alice, "three"), "three"), seconds=30)
