"""The controller: its pods, its lease, and what the leader's metrics say. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from bulkhead.api.untrusted import mapping, mappings, text
from workstation.doctor.facts import Seen
from workstation.preflight.facts import NotSeenError, Unseen, need
from workstation.preflight.findings import Finding, failed, ok, warning

# A leader renews every two seconds.
_LEASE_OLD: Final = timedelta(seconds=60)
_MANY_RESTARTS: Final = 5
_FAILING: Final = 0.5
_LOGS: Final = "kubectl -n {} logs -l app.kubernetes.io/component=controller --prefix --tail=50"


def pods(seen: Seen) -> Finding:
    """At least one pod is ready, and none restarts again and again."""
    deployments = need(seen.cluster, "controllers")
    if not deployments:
        return failed("there is no Deployment of the controller", "install the chart: docs/install.md")
    wanted = _count(mapping(deployments[0].get("spec")).get("replicas"))
    ready = _count(mapping(deployments[0].get("status")).get("readyReplicas"))
    trouble = []
    found = seen.cluster.lists.get("controller pods", ())
    for pod in () if isinstance(found, Unseen) else found:
        name = text(mapping(pod.get("metadata")).get("name"))
        for container in mappings(mapping(pod.get("status")).get("containerStatuses"), 8):
            restarts = _count(container.get("restartCount"))
            last = mapping(mapping(container.get("lastState")).get("terminated"))
            waiting = mapping(mapping(container.get("state")).get("waiting"))
            if waiting.get("reason"):
                trouble.append(f"{name}: {text(waiting.get('reason'))} {text(waiting.get('message'))}".strip())
            elif restarts >= _MANY_RESTARTS:
                trouble.append(
                    f"{name}: {restarts} restarts, the last time {text(last.get('reason')) or 'for no reason given'}"
                )
    cure = f"kubectl -n {seen.namespace} describe pods -l app.kubernetes.io/component=controller"
    if wanted == 0:
        cure = f"kubectl -n {seen.namespace} scale deploy/bulkhead-controller --replicas=2"
        return failed("the controller is scaled to 0", cure)
    if not ready:
        return failed(f"none of {wanted} pods of the controller is ready", cure, trouble)
    if ready < wanted or trouble:
        return warning(f"{ready} of {wanted} pods of the controller are ready", cure, trouble)
    return ok(f"{ready} of {wanted} ready")


def leads(seen: Seen) -> Finding:
    """The lease is held, and was renewed lately by the API server's clock."""
    leases = need(seen.cluster, "lease")
    spec = mapping(leases[0].get("spec")) if leases else {}
    holder = text(spec.get("holderIdentity"))
    cure = _LOGS.format(seen.namespace)
    if not holder:
        return failed("no controller holds the lease: nothing that changes is acted on", cure)
    renewed, now = _moment(text(spec.get("renewTime"))), seen.cluster.there
    if renewed is None or now is None:
        return ok(f"{holder} holds the lease")
    if now - renewed > _LEASE_OLD:
        return failed(f"{holder} holds the lease and has not renewed it since {renewed:%Y-%m-%d %H:%M:%S} UTC", cure)
    return ok(f"{holder}, renewed {max(0, round((now - renewed).total_seconds()))} s ago")


def reconciles(seen: Seen) -> Finding:
    """Most reconciles since the leader began have succeeded, and few Tenants wait."""
    results = {sample.labels["result"]: sample.value for sample in leader(seen, "bulkhead_controller_reconciles_total")}
    every = sum(results.values())
    if not every:
        return warning("the leader has not reconciled anything yet", "wait a minute, and run this again")
    share = results.get("failed", 0.0) / every
    cause = f"{results.get('failed', 0):.0f} of {every:.0f} reconciles failed since the leader began"
    if share > _FAILING:
        return failed(cause, _LOGS.format(seen.namespace))
    return ok(cause)


def clock(seen: Seen) -> Finding:
    """The leader's clock is the host API server's."""
    if any(sample.value for sample in leader(seen, "bulkhead_controller_clock_wrong")):
        cure = "correct the time service of the controller's node"
        return failed("the controller's clock has jumped or differs from the host's: no certificate is renewed", cure)
    return ok("it does")


def leader(seen: Seen, name: str) -> tuple[Sample, ...]:
    """The samples of a metric of the pod that leads. Raises NotSeenError if no pod's metrics show that it leads."""
    reasons = []
    for pod, found in seen.metrics.items():
        if isinstance(found, Unseen):
            reasons.append(f"metrics of {pod}: {found.reason}")
            continue
        samples = list(_samples(found))
        if any(sample.name == "bulkhead_controller_leading" and sample.value for sample in samples):
            return tuple(sample for sample in samples if sample.name == name)
        reasons.append(f"{pod} does not lead")
    raise NotSeenError("; ".join(reasons) or "no pod of the controller runs")


def _samples(text_of: str) -> Iterator[Sample]:
    try:
        for family in text_string_to_metric_families(text_of):
            yield from family.samples
    except ValueError:
        return


def _moment(stamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC)
    except ValueError:
        return None


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
