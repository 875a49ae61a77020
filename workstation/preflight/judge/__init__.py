"""From what was seen to one finding for each check. Pure: no network, no clock.

`CHECKS` is the whole list, in the order of the report. A check that needs what was not seen is skipped with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass

from workstation.preflight.facts import NotSeenError, Observed
from workstation.preflight.findings import Checked, Finding, skipped
from workstation.preflight.judge import existing, gpus, images, network, nodes, ranges, server, storage
from workstation.preflight.values import Values

Judge = Callable[[Observed, Values], Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name for scripts, what it asks, and who answers."""

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
    Check("existing.installation", "no other or half installation", existing.installation),
    Check("existing.namespace", "nothing in the release namespace is in the way", existing.namespace),
    Check("existing.webhooks", "no webhook of others decides on tenants' objects", existing.webhooks),
    Check("ranges.overlap", "services.range overlaps nothing", ranges.overlap),
    Check("ranges.pods", "podNetworks name where pods are", ranges.pods),
    Check("network.pods", "pods reach each other", network.pods),
    Check("network.ingress", "NetworkPolicy is enforced on what comes in", network.ingress),
    Check("network.egress", "NetworkPolicy is enforced on what goes out", network.egress),
    Check("network.hostapi", "pods reach the host's API through networkPolicy.hostAPI", network.host_api),
    Check("storage.class", "the planes' StorageClass", storage.storage_class),
    Check("storage.provisioning", "a claim gets a volume", storage.provisioning),
    Check("storage.shared", "ReadWriteMany for Slurm", storage.shared),
    Check("storage.snapshots", "VolumeSnapshotClasses", storage.snapshots),
    Check("nodes.seccomp", "seccomp", nodes.seccomp),
    Check("nodes.pids", "processes of a pod are bounded", nodes.pids),
    Check("nodes.cgroup", "cgroup version", nodes.cgroup),
    Check("nodes.userns", "user namespaces", nodes.user_namespaces),
    Check("gpus.resources", "nodes offer what gpuResources name", gpus.resources),
    Check("gpus.runtime", "no GPU without asking for one", gpus.runtime),
    Check("gpus.sharing", "GPUs are whole", gpus.sharing),
    Check("gpus.deviceclasses", "DeviceClasses", gpus.device_classes),
    Check("images.secrets", "pull secrets", images.secrets),
    Check("images.pull", "every image can be pulled", images.pulls),
)


def judge(observed: Observed, values: Values) -> tuple[Checked, ...]:
    """Every check's finding."""
    return tuple(Checked(each.name, each.title, _one(each.judge, observed, values)) for each in CHECKS)


def _one(decide: Judge, observed: Observed, values: Values) -> Finding:
    try:
        return decide(observed, values)
    except NotSeenError as error:
        return skipped(str(error), "give a kubeconfig that may read or try it, or check it by hand")
