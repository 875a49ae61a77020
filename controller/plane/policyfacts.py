"""What the host's admission policies read of a tenant on its work namespace (`bulkhead.api.policyfacts`)."""

from typing import Final

from bulkhead.api import policyfacts as facts
from controller.plane.spec import PlaneSpec

# Priority classes that syncers refuse whatever a class says: above the planes.
_SYSTEMS: Final = "system-"


def policy_facts(spec: PlaneSpec) -> dict[str, str]:
    """Every fact, also those that are empty; but for those of the ledger, which only its tenants have."""
    return _gated(spec) | {
        facts.NODE_ADDRESS: spec.shim_address,
        facts.SERVICE_SLICE: spec.service_slice,
        facts.NODE_SELECTOR: facts.pairs(spec.enforced_selector),
        facts.ALLOWED_TOLERATIONS: facts.listed(map(facts.toleration, (*spec.enforced_tolerations, *spec.allowed_tolerations))),
        facts.RUNTIME_CLASS: spec.runtime_class or "",
        facts.ALLOWED_RUNTIME_CLASSES: facts.listed(spec.allowed_runtime_classes),
        facts.PRIORITY_CLASS: spec.workload_priority_class or "",
        facts.ALLOWED_PRIORITY_CLASSES: facts.listed(
            name for name in spec.allowed_priority_classes if not name.startswith(_SYSTEMS)
        ),
        facts.USER_NAMESPACES: "true" if spec.user_namespaces else "",
        facts.SECCOMP_PROFILES: facts.listed(spec.seccomp_profiles),
        facts.APPARMOR_PROFILES: facts.listed(spec.apparmor_profiles),
        facts.MOST_PER_POD: facts.pairs((each.resource, each.most) for each in spec.pod_bounds if each.most),
        facts.MOST_LIMIT_RATIO: facts.pairs((each.resource, each.ratio) for each in spec.pod_bounds if each.ratio),
        facts.MOST_PER_CLAIM: spec.most_per_claim,
        facts.ALLOWED_INGRESS_CLASSES: facts.listed(spec.ingress_classes),
        facts.INGRESS_HOSTS: facts.listed(f"{spec.tenant}.{domain}" for domain in spec.ingress_domains),
        facts.ALLOWED_STORAGE_CLASSES: facts.listed(spec.allowed_storage_classes),
        facts.ALLOWED_SNAPSHOT_CLASSES: facts.listed(spec.allowed_snapshot_classes),
        facts.ALLOWED_DEVICE_CLASSES: facts.listed(name for name, _ in spec.device_classes),
        facts.ALLOWED_RESOURCES: facts.listed((*spec.gpu_resources, *spec.extended_resources)),
    }


def _gated(spec: PlaneSpec) -> dict[str, str]:
    found = {
        facts.GATED_RESOURCES: facts.listed(spec.gated_resources),
        facts.GATED_GANGS: "true" if spec.gated_gangs else "",
    }
    return {name: value for name, value in found.items() if value}
