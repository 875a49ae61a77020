"""Turns observations into one finding for each check. Pure: no network, no clock.

`CHECKS` is the whole list, in the order in which an admin repairs: the installation, the controller, then tenants. A check that
needs something unobserved is skipped with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from workstation.doctor.facts import Seen
from workstation.doctor.judge import controller, dns, installed, tenants
from workstation.preflight.facts import NotSeenError, Unseen, need
from workstation.preflight.findings import Checked, Finding, skipped
from workstation.preflight.judge import Judge as OfCluster
from workstation.preflight.judge import cores, existing, server
from workstation.preflight.values import merged, parse

Judge = Callable[[Seen], Finding]
_NO_VALUES: Final = parse(merged([]))


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name for scripts, its title, and the function that judges."""

    name: str
    title: str
    judge: Judge


def _of_cluster(judge: OfCluster, seen: Seen) -> Finding:
    """A finding by one of preflight's judges, which need only the cluster."""
    return judge(seen.cluster, _NO_VALUES)


def _cores(seen: Seen) -> Finding:
    """Preflight's, with the nodes that the installed chart gives to planes."""
    selector = {} if isinstance(seen.release, Unseen) else seen.release.planes_selector
    return cores.finding(need(seen.cluster, "nodes"), need(seen.cluster, "classes"), selector)


CHECKS: Final[tuple[Check, ...]] = (
    Check("release.version", "one release, whole, of one version", installed.version),
    Check("release.objects", "every object of the chart is there", installed.objects),
    Check("release.policies", "the admission policies are there, bound and as the chart wrote them", installed.policies),
    Check("release.rights", "roles and network rules are as the chart wrote them", installed.rights),
    Check("release.alerts", "the alerts are loaded", installed.alerts),
    Check("definitions.versions", "definitions are served, and store no version that is gone", installed.definitions),
    Check("identity.key", "the key that signs planes is there", installed.identity),
    Check("cluster.webhooks", "no foreign webhook decides on tenants' objects", partial(_of_cluster, existing.webhooks)),
    Check("cluster.dns", "the cluster's DNS is where the policies expect it", dns.reachable),
    Check("cluster.clocks", "clocks agree", partial(_of_cluster, server.clocks)),
    Check("cluster.cores", "nodes have more cores than one plane may use", _cores),
    Check("running.pods", "the controller runs", controller.pods),
    Check("running.leads", "one controller leads", controller.leads),
    Check("running.reconciles", "reconciles succeed", controller.reconciles),
    Check("running.clock", "the controller trusts its clock", controller.clock),
    Check("tenants.ready", "every Tenant is Ready", tenants.ready),
    Check("tenants.followed", "every change of a Tenant was acted on", tenants.followed),
    Check("tenants.certificates", "no certificate ends soon", tenants.certificates),
    Check("tenants.syncers", "syncers run, with the controller's image", tenants.syncers),
    Check("tenants.snapshots", "no snapshot is overdue", tenants.snapshots),
    Check("tenants.quota", "nodes offer what tenants were promised", tenants.quota),
)


def judge(seen: Seen) -> tuple[Checked, ...]:
    """The finding of every check."""
    return tuple(Checked(check.name, check.title, _one(check.judge, seen)) for check in CHECKS)


def _one(decide: Judge, seen: Seen) -> Finding:
    try:
        return decide(seen)
    except NotSeenError as error:
        return skipped(f"could not be read: {error}", "use a kubeconfig with the right to read it, or check it by hand")
