"""One tenant's cluster on a plane and a slurmrestd that are not real: its objects, and what is reported of it."""

from dataclasses import replace
from typing import cast

from bulkhead.api.conditions import Reason
from controller.inside.calls import Plane
from controller.slurm.cluster import Cluster, Order
from controller.slurm.decide.status import READY, UNASKED, Found, verdict
from controller.slurm.keygen import make_auth_key
from controller.slurm.spec import AccountingSpec, TopologySpec, UserSpec
from controller.slurm.spec.keys import staged
from controller.verdict import Verdict
from tests.controller.slurm_runtime.bed import KEYS, Bed
from tests.controller.slurm_runtime.slurmrestd import node
from tests.controller.slurm_runtime.world import node_set, slurm_spec


async def test_a_cluster_at_rest_costs_no_write(bed: Bed) -> None:
    for _ in range(3):
        await bed.reconcile(node_set(minimum=1, maximum=1))
        bed.register(*bed.workers())
    bed.plane.writes.clear()
    bed.fake.calls.clear()
    for _ in range(3):
        await bed.reconcile(node_set(minimum=1, maximum=1))
    assert bed.plane.writes == []
    assert {method for method, _, _ in bed.fake.calls} == {"GET"}


async def test_it_is_known_since_when_the_plane_has_had_a_key(bed: Bed) -> None:
    await bed.reconcile(node_set())
    began = bed.clock.now()
    bed.clock.advance(200)
    await bed.reconcile(node_set())
    had = dict.fromkeys((key.kid for key in KEYS.auth), began)
    assert bed.cluster.spread == had
    fresh = staged(KEYS, make_auth_key())
    order = Order(slurm_spec(node_set()), fresh)
    await bed.cluster.reconcile(cast(Plane, bed.plane), order)
    assert bed.cluster.spread == had | {fresh.auth[1].kid: bed.clock.now()}


async def test_it_is_known_since_when_login_nodes_have_had_a_key_of_certificates(bed: Bed) -> None:
    spec = replace(slurm_spec(node_set()), users=(UserSpec("alice", 10001, identities=("corp:ada",)),))
    await bed.cluster.reconcile(cast(Plane, bed.plane), Order(spec, KEYS, trusted=("ssh-ed25519 AAAA",)))
    began = bed.clock.now()
    bed.clock.advance(200)
    both = Order(spec, KEYS, trusted=("ssh-ed25519 AAAA", "ssh-ed25519 BBBB"))
    bed.plane.refused.add("slurm-ssh-trust")
    await bed.cluster.reconcile(cast(Plane, bed.plane), both)
    had = dict.fromkeys([*(key.kid for key in KEYS.auth), "ssh-ed25519 AAAA"], began)
    assert bed.cluster.spread == had
    bed.plane.refused.clear()
    await bed.cluster.reconcile(cast(Plane, bed.plane), both)
    assert bed.cluster.spread == had | {"ssh-ed25519 BBBB": bed.clock.now()}


async def test_of_a_cluster_of_which_only_logins_are_ordered_nothing_else_changes(bed: Bed) -> None:
    fixed, alice = node_set(minimum=1, maximum=1), UserSpec("alice", 10001, ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",))
    files = {"ConfigMap", "Secret", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}
    for _ in range(2):
        await bed.reconcile(fixed, users=(alice, UserSpec("eve", 10002)))
    before = {key: obj for key, obj in bed.plane.objects.items() if key[0] not in files}
    bed.cluster = Cluster("team-a", bed.clock, lambda _: {}, bed.board)
    bed.clock.advance(1000)
    bed.fake.calls.clear()
    bed.plane.writes.clear()
    order = Order(replace(slurm_spec(), users=(alice,)), KEYS, logins_only=True)
    assert verdict(await bed.cluster.reconcile(cast(Plane, bed.plane), order), was=True).status == "True"
    assert {name for verb, _, name in bed.plane.writes if verb != "patch"} == {
        "slurm-keys",
        "slurm-users",
        "slurm-authorized-keys",
        # It may be there with earlier identities.
        "slurm-ssh-trust",
        "bulkhead:slurm-ssh",
    }
    assert bed.plane.objects["ConfigMap", "slurm-ssh-trust"]["data"] == {"user-ca.pub": ""}
    assert "eve" not in bed.plane.objects["ConfigMap", "slurm-users"]["data"]["passwd"]
    assert bed.fake.calls == []
    assert {key: obj for key, obj in bed.plane.objects.items() if key[0] not in files} == before
    assert bed.cluster.spread.keys() == {key.kid for key in KEYS.auth}


async def test_users_of_a_cluster_of_which_only_logins_are_ordered_reach_its_accounting_database(bed: Bed) -> None:
    """A user that the Tenant removes while it is refused would otherwise administer the database until it is accepted."""
    await bed.reconcile(node_set(), accounting=AccountingSpec())
    bed.cluster = Cluster("team-a", bed.clock, lambda _: {}, bed.board)
    bed.fake.written.clear()
    bed.fake.database = {
        "users": [{"name": "eve", "administrator_level": ["Administrator"]}],
        "associations": [{"cluster": "team-a", "account": "users", "user": user} for user in ("", "eve")],
    }
    order = Order(replace(slurm_spec(), users=(UserSpec("alice", 10001),)), KEYS, logins_only=True)
    await bed.cluster.reconcile(cast(Plane, bed.plane), order)
    (rights, joining) = bed.fake.written
    assert rights == ("users", {"users": [{"name": "eve", "administrator_level": ["None"]}]})
    assert (joining[0], joining[1]["association_condition"]["users"]) == ("users_association", ["alice"])
    # A plane without slurmrestd is not asked, and one with it is asked again later.
    bed.fake.written.clear()
    bed.clock.advance(31)
    slurmrestd = bed.plane.objects.pop(("Deployment", "slurmrestd"))
    other = replace(order, spec=replace(order.spec, users=(UserSpec("bob", 10002),)))
    await bed.cluster.reconcile(cast(Plane, bed.plane), other)
    assert bed.fake.written == []
    bed.plane.objects["Deployment", "slurmrestd"] = slurmrestd
    bed.clock.advance(31)
    await bed.cluster.reconcile(cast(Plane, bed.plane), other)
    assert [kind for kind, _ in bed.fake.written] == ["users", "users_association"]


async def test_what_a_tenant_deletes_is_there_again_within_the_resync(bed: Bed) -> None:
    await bed.reconcile(node_set(minimum=1, maximum=1))
    del bed.plane.objects["ConfigMap", "slurm-config"]
    await bed.reconcile(node_set(minimum=1, maximum=1))
    assert ("ConfigMap", "slurm-config") not in bed.plane.objects
    bed.clock.advance(121)
    await bed.reconcile(node_set(minimum=1, maximum=1))
    assert ("ConfigMap", "slurm-config") in bed.plane.objects


async def test_the_truth_of_slurm_shows_on_pods_and_node_sets(bed: Bed) -> None:
    for _ in range(2):
        await bed.reconcile(node_set(minimum=1, maximum=1))
        bed.register(*bed.workers())
    bed.fake.nodes["gpu-0"] |= {"state": ["IDLE", "DRAIN"], "reason": "fan\nbroken"}
    await bed.reconcile(node_set(minimum=1, maximum=1))
    conditions = {each["type"]: each for each in bed.plane.objects["Pod", "gpu-0"]["status"]["conditions"]}
    assert conditions["SlurmNodeStateIdle"]["status"] == conditions["SlurmNodeStateDrain"]["status"] == "True"
    assert conditions["SlurmNodeStateDrain"]["message"] == "fan broken"
    assert conditions["Ready"]["status"] == "True"
    status = bed.plane.objects["NodeSet", "gpu"]["status"]
    assert (status["replicas"], status["slurmDrain"], status["slurmIdle"], status["readyReplicas"]) == (1, 1, 0, 0)
    bed.fake.nodes["gpu-0"] |= {"state": ["MIXED"], "reason": ""}
    await bed.reconcile(node_set(minimum=1, maximum=1))
    conditions = {each["type"]: each for each in bed.plane.objects["Pod", "gpu-0"]["status"]["conditions"]}
    assert [conditions[f"SlurmNodeState{word}"]["status"] for word in ("Idle", "Drain", "Mixed")] == ["False", "False", "True"]


async def test_a_unit_of_the_network_that_slurm_was_told_of_is_never_taken_away(bed: Bed) -> None:
    """Slurmctld does not start while a node that it remembers stands in a unit that its configuration does not have."""
    tree = TopologySpec("tree")
    bed.plane.add_node("n1", **{"bulkhead.dev/nvlink-domain": "nvlink-7"})
    await bed.reconcile(node_set(), topology=tree)
    assert "- switch: nvlink-7" in bed.plane.objects["ConfigMap", "slurm-config"]["data"]["topology.yaml"]
    del bed.plane.objects["Node", "n1"]
    bed.plane.add_node("n2", **{"bulkhead.dev/nvlink-domain": "nvlink-8"})
    await bed.reconcile(node_set(), topology=tree)
    # A controller that has just started knows it too.
    bed.cluster = Cluster("team-a", bed.clock, lambda _: {}, bed.board)
    bed.fake.nodes["gpu-0"] = node("gpu-0") | {"topology": "platform:nvlink-9"}
    await bed.reconcile(node_set(), topology=tree)
    text = bed.plane.objects["ConfigMap", "slurm-config"]["data"]["topology.yaml"]
    assert [unit for unit in ("nvlink-7", "nvlink-8", "nvlink-9") if f"- switch: {unit}\n" in text] == [
        "nvlink-7",
        "nvlink-8",
        "nvlink-9",
    ]
    bed.plane.objects["ConfigMap", "slurm-config"]["data"]["topology.yaml"] += (
        "- switch: x\nInclude /etc/passwd\n - switch: A;b\n"
    )
    bed.cluster = Cluster("team-a", bed.clock, lambda _: {}, bed.board)
    await bed.reconcile(node_set(), topology=tree)
    assert "Include" not in bed.plane.objects["ConfigMap", "slurm-config"]["data"]["topology.yaml"]


async def test_login_nodes_that_are_no_longer_asked_for_go(bed: Bed) -> None:
    await bed.reconcile(node_set())
    assert "login" in bed.plane.of("StatefulSet")
    bed.clock.advance(61)
    await bed.reconcile(node_set(), login=None)
    assert "login" not in bed.plane.of("StatefulSet")
    await bed.reconcile(node_set())
    assert "login" in bed.plane.of("StatefulSet"), "asked for again a moment later"
    assert "slurmctld" in bed.plane.of("StatefulSet")


async def test_files_of_a_part_that_is_no_longer_asked_for_go(bed: Bed) -> None:
    named = (UserSpec("alice", 10001, identities=("corp:ada",)),)
    files = {"slurm-database", "slurm-ssh-host-keys", "slurm-authorized-keys", "slurm-ssh-trust"}

    def there() -> set[str]:
        return {name for kind in ("Secret", "ConfigMap") for name in bed.plane.of(kind)}

    await bed.reconcile(node_set(), accounting=AccountingSpec(), users=named)
    always = there() - files
    assert there() == always | files
    copy = bed.plane.objects["Secret", "slurm-database"]
    bed.plane.objects["Secret", "of-the-tenant"] = copy | {"metadata": copy["metadata"] | {"name": "of-the-tenant"}}
    bed.clock.advance(121)
    bed.plane.refused.add("slurmctld")
    await bed.reconcile(node_set(), login=None, users=named)
    assert there() == always | files | {"of-the-tenant"}, "a daemon may still mount them"
    bed.plane.refused.clear()
    bed.clock.advance(61)
    await bed.reconcile(node_set(), login=None, users=named)
    assert there() == always | {"of-the-tenant"}
    await bed.reconcile(node_set(), accounting=AccountingSpec(), users=named)
    assert there() == always | files | {"of-the-tenant"}, "asked for again a moment later"


async def test_an_object_that_the_plane_refuses_holds_up_no_other(bed: Bed) -> None:
    await bed.reconcile(node_set())
    bed.plane.refused.add("slurm-config")
    bed.clock.advance(121)
    condition = verdict(await bed.reconcile(node_set(), node_set("more"), login=None), was=True)
    assert (condition.status, condition.reason) == ("False", "SlurmRefused")
    assert "admission webhook denied slurm-config" in condition.message
    assert "more" in bed.plane.of("NodeSet")
    assert "login" not in bed.plane.of("StatefulSet")
    bed.plane.refused = {"slurm"}
    bed.clock.advance(121)
    bed.plane.writes.clear()
    await bed.reconcile(node_set())
    assert "apply" not in {verb for verb, kind, _ in bed.plane.writes if kind == "ConfigMap"}, "without its namespace"


async def test_a_cluster_without_a_rest_api_is_ready_when_its_daemons_are(bed: Bed) -> None:
    fixed = node_set(minimum=1, maximum=1)
    bed.plane.add_daemon("slurmctld", ready=False)
    bed.plane.add_daemon("login")
    condition = verdict(await bed.reconcile(fixed, rest_api=None), was=False)
    assert (condition.status, condition.message) == ("False", "not ready: slurmctld")
    bed.plane.add_daemon("slurmctld")
    assert verdict(await bed.reconcile(fixed, rest_api=None), was=False) == Verdict("True", Reason.READY, UNASKED)
    assert bed.workers() == ["gpu-0"]
    assert bed.fake.calls == []


async def test_the_condition_says_what_is_left_undone_without_a_rest_api(bed: Bed) -> None:
    for name in ("slurmctld", "slurmdbd", "mariadb", "login"):
        bed.plane.add_daemon(name)
    found = await bed.reconcile(node_set("a"), node_set("b", minimum=1, maximum=1), rest_api=None, accounting=AccountingSpec())
    assert verdict(found, was=False) == Verdict(
        "True",
        Reason.READY,
        f"{UNASKED}; no worker of a is created for a job or given back; "
        "users, their rights and QOS are not written to the accounting database: set spec.scheduling.slurm.restApi.enabled",
    )
    assert (await bed.reconcile(node_set("a"))).kept == ""


async def test_the_condition_says_what_the_tenant_asks_for_and_does_not_get(bed: Bed) -> None:
    order = Order(slurm_spec(node_set()), KEYS, kept="the cluster keeps its name")
    for name in ("slurmctld", "slurmrestd", "login"):
        bed.plane.add_daemon(name)
    condition = verdict(await bed.cluster.reconcile(cast(Plane, bed.plane), order), was=False)
    assert (condition.status, condition.message) == ("True", f"{READY}; the cluster keeps its name")


def test_the_condition_says_what_holds_up_the_removal_of_a_cluster() -> None:
    condition = verdict(Found(trouble="the plane did not answer: a webhook refuses", plane_down=True), was=True, on=False)
    assert (condition.status, condition.reason) == ("False", Reason.TERMINATING)
    assert condition.message == "Slurm is switched off: it is not removed yet: the plane did not answer: a webhook refuses"
    assert verdict(Found(leaving=2), was=True, on=False).message == "Slurm is switched off: 2 workers are being released"


async def test_the_condition_tells_the_story(bed: Bed) -> None:
    bed.fake.mood = "gone"
    found = await bed.reconcile(node_set())
    condition = verdict(found, was=False)
    assert (condition.status, condition.reason) == ("False", "WaitingForSlurm")
    assert "slurmctld" in condition.message
    for name in ("slurmctld", "slurmrestd", "login"):
        bed.plane.add_daemon(name)
    bed.fake.mood = "well"
    assert verdict(await bed.reconcile(node_set()), was=False).status == "True"
    bed.fake.mood = "gone"
    condition = verdict(await bed.reconcile(node_set()), was=True)
    assert (condition.reason, condition.message.startswith("slurmrestd: ")) == ("SlurmUnreachable", True)
    bed.fake.mood = "well"
    bed.plane.add_daemon("slurmctld", ready=False)
    assert verdict(await bed.reconcile(node_set()), was=True).message == "not ready: slurmctld"
