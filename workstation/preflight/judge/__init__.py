"""Turns observations into one finding for each check. Pure: no network, no clock.

`CHECKS` is the whole list, in the order of the report. A check that needs something unobserved is skipped with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass

from workstation.preflight.facts import NotSeenError, Observed
from workstation.preflight.findings import Checked, Finding, skipped
from workstation.preflight.judge import backup, cores, dns, existing, gpus, images, network, nodes, ranges, server, storage
from workstation.preflight.values import Values

Judge = Callable[[Observed, Values], Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name for scripts, its title, and the function that judges."""

    name: str
    title: str
    judge: Judge


CHECKS: tuple[Check, ...] = (
    Check("server.version", "the API server is new enough", server.version),
    Check("server.servicecidrs", "ServiceCIDR API", server.service_cidrs),
    Check("server.admission", "ValidatingAdmissionPolicy API", server.admission_policies),
    Check("server.podsecurity", "Pod Security is enforced", server.pod_security),
    Check("server.rights", "these credentials may install", server.rights),
    Check("server.clock", "clocks agree", server.clocks),
    Check("server.apis", "aggregated APIs answer", server.aggregated),
    Check("existing.installation", "no other or incomplete installation", existing.installation),
    Check("existing.namespace", "nothing in the release namespace restricts Bulkhead", existing.namespace),
    Check("existing.webhooks", "no foreign webhook decides on tenants' objects", existing.webhooks),
    Check("ranges.overlap", "services.range overlaps nothing", ranges.overlap),
    Check("ranges.pods", "podNetworks contain all pods", ranges.pods),
    Check("network.pods", "pods reach each other", network.pods),
    Check("network.ingress", "NetworkPolicy is enforced for ingress", network.ingress),
    Check("network.egress", "NetworkPolicy is enforced for egress", network.egress),
    Check("network.hostapi", "pods reach the host's API through networkPolicy.hostAPI", network.host_api),
    Check("network.dns", "the cluster's DNS is where networkPolicy.dns expects it", dns.reachable),
    Check("storage.class", "the planes' StorageClass", storage.storage_class),
    Check("storage.provisioning", "a claim gets a volume", storage.provisioning),
    Check("storage.shared", "ReadWriteMany for Slurm", storage.shared),
    Check("storage.snapshots", "VolumeSnapshotClasses", storage.snapshots),
    Check("storage.backup", "snapshots of planes", backup.place),
    Check("nodes.seccomp", "seccomp", nodes.seccomp),
    Check("nodes.pids", "processes of a pod are limited", nodes.pids),
    Check("nodes.images", "private images that a node has need their credential", nodes.images),
    Check("nodes.pulls", "images are pulled side by side", nodes.pulling),
    Check("nodes.logs", "output of containers fits into their disk", nodes.logs),
    Check("nodes.cgroup", "cgroup version", nodes.cgroup),
    Check("nodes.userns", "user namespaces", nodes.user_namespaces),
    Check("nodes.cores", "nodes have more cores than one plane may use", cores.of_cluster),
    Check("gpus.resources", "nodes offer the GPUs of gpuResources", gpus.resources),
    Check("gpus.runtime", "no GPU without a request", gpus.runtime),
    Check("gpus.sharing", "GPUs are not shared or partitioned", gpus.sharing),
    Check("gpus.deviceclasses", "DeviceClasses", gpus.device_classes),
    Check("images.secrets", "pull secrets", images.secrets),
    Check("images.pull", "every image can be pulled", images.pulls),
)


def judge(observed: Observed, values: Values) -> tuple[Checked, ...]:
    """The finding of every check."""
    return tuple(Checked(check.name, check.title, _one(check.judge, observed, values)) for check in CHECKS)


def _one(decide: Judge, observed: Observed, values: Values) -> Finding:
    try:
        return decide(observed, values)
    except NotSeenError as error:
        return skipped(str(error), "use a kubeconfig with the rights to read or try it, or check it by hand")
