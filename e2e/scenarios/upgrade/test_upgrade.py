"""An upgrade from the older chart and image: only what has to restart does, and a removal leaves the tenants whole.

The tests run in this order: the last ones change the installation.
"""

from pathlib import Path

import pytest

from e2e import commands, install, machine, names, tenants, workloads
from e2e.commands import kubectl
from e2e.names import RELEASE
from e2e.progress import stopwatch
from e2e.scenarios.upgrade import former, seen
from e2e.scenarios.upgrade.conftest import DEFINITIONS, EVERYBODY, OFTEN, Upgraded, settle
from e2e.slurm import jobs

# The parts that an upgrade from the older Bulkhead replaces, each listed in docs/upgrading.md; no other part may restart.
RESTARTED = (seen.SYNCER, seen.PLANE, seen.DNS)
# How long a plane of one pod may be away for that, in seconds.
AWAY_SECONDS = 60.0
SYSTEM = ("--namespace", names.SYSTEM_NAMESPACE)


def test_nothing_restarts_that_need_not(upgraded: Upgraded) -> None:
    # Of each tenant: its plane, DNS and syncer, and six pods of its own; Slurm has at least four.
    assert len(upgraded.before) >= len(upgraded.tenants) * (3 + 6) + 3 + 4
    assert seen.replaced(upgraded.before, upgraded.after, but=RESTARTED) == []
    # The positive control: the syncers were replaced, so the comparison notices a replaced pod.
    replaced = seen.replaced(upgraded.before, upgraded.after)
    assert sum(f": {seen.SYNCER} " in item for item in replaced) == len(EVERYBODY)
    assert sum(f": {seen.PLANE} " in item for item in replaced) == len(EVERYBODY)


def test_what_restarts_is_named_where_admins_read(upgraded: Upgraded) -> None:
    said = Path("docs/upgrading.md").read_text().partition("**What an upgrade restarts.**")[2].partition("\n\n")[0]
    assert upgraded.tenants
    assert all(part in said.lower() for part in RESTARTED)


def test_users_of_a_tenant_were_answered_but_for_the_one_restart_of_its_plane(upgraded: Upgraded) -> None:
    assert {name: probe.known for name, probe in upgraded.probes.items()} == dict.fromkeys(upgraded.probes, True)
    for name, probe in upgraded.probes.items():
        # An API server that has just started refuses all users for a moment.
        assert len(probe.gaps) <= 2, f"{name}: away {probe.gaps} seconds; {probe.failures}"
        assert sum(probe.gaps) < AWAY_SECONDS, f"{name}: {probe.failures}"
    assert all(probe.answers > 10 for probe in upgraded.probes.values())


def test_a_job_runs_on_and_the_one_behind_it_starts_after_it(upgraded: Upgraded) -> None:
    cluster, before = upgraded.slurm.cluster, upgraded.slurm.running
    assert jobs.find(cluster, before.number) == before
    # It still writes, and has not restarted from the beginning.
    written = jobs.output(cluster, before.number)
    later = jobs.wait_output(cluster, before.number, lambda text: len(text) > len(written))
    assert later.startswith("1\n2\n")
    assert later.count("\n1\n") == 0
    assert jobs.done(cluster, "hostname", "--partition=cpu").strip() == "cpu-0"
    cluster.run("scancel", str(before.number))
    jobs.wait(cluster, upgraded.slurm.waiting.number)
    assert jobs.output(cluster, upgraded.slurm.waiting.number) == "after\n"


def test_definitions_are_of_this_release_and_their_objects_are_the_same(upgraded: Upgraded) -> None:
    for name in DEFINITIONS:
        found = upgraded.host.get("CustomResourceDefinition", name)
        assert found["metadata"]["uid"] == upgraded.definitions[name]
        assert found["metadata"]["annotations"][RELEASE]
    # The older definition dropped this field silently.
    narrowed = {"spec": {"controlPlane": {"nodeSelector": {"kubernetes.io/hostname": machine.NODE}}}}
    made = {"apiVersion": names.API_VERSION, "kind": "TenantClass", "metadata": {"name": "up-narrow"}} | narrowed
    assert upgraded.host.create(made)["spec"]["controlPlane"]["nodeSelector"]
    upgraded.host.delete("TenantClass", "up-narrow")


def test_work_goes_on_for_old_tenants_and_new_ones(upgraded: Upgraded) -> None:
    for tenant in upgraded.tenants.values():
        tenant.api.create(workloads.pod("later"))
    tenants.create(upgraded.host, "up-new", gpus=1)
    tenants.remove(upgraded.host, "up-new")
    for tenant in upgraded.tenants.values():
        workloads.wait_running(tenant.api, "later")
        assert kubectl(tenant.kubeconfig, "exec", "later", "--", "echo", "here").out == "here\n"
        tenant.api.delete("Pod", "later", "default")


def test_an_uninstallation_is_refused_and_without_hooks_it_leaves_tenants_whole(upgraded: Upgraded) -> None:
    note = stopwatch()
    before = upgraded.running()
    refused = commands.helm(machine.KUBECONFIG, "uninstall", install.RELEASE, *SYSTEM, check=False)
    assert refused.code != 0
    assert "nothing was uninstalled" in refused.text
    commands.helm(machine.KUBECONFIG, "uninstall", install.RELEASE, *SYSTEM, "--no-hooks", "--wait")
    # Syncers still have their rights, and the host still has its policies.
    tenant = upgraded.tenants["up-one"]
    tenant.api.create(workloads.pod("orphan"))
    workloads.wait_running(tenant.api, "orphan")
    tenant.api.delete("Pod", "orphan", "default")
    with pytest.raises(commands.CommandError, match=r"it needs tenants\.bulkhead\.dev"):
        former.kubectl("delete", "crd", "tenants.bulkhead.dev")
    install.install_chart(note, **OFTEN)
    settle(upgraded.host, list(EVERYBODY))
    assert seen.replaced(before, upgraded.running(), but=()) == []


def test_a_value_that_restarts_planes_is_seen_to(upgraded: Upgraded) -> None:
    """The positive control for all the others; and planes move to the nodes that they are assigned."""
    before = upgraded.running()
    where = {"planes.nodeSelector.kubernetes\\.io/hostname": machine.NODE}
    install.install_chart(stopwatch(), **OFTEN, **where)
    settle(upgraded.host, list(EVERYBODY))
    found = seen.replaced(before, upgraded.running())
    assert any(": plane " in item for item in found)
    assert not any(f": {seen.WORK} " in item for item in found)
    for pod in upgraded.host.list("Pod", names.plane_namespace("up-one")):
        assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": machine.NODE}
