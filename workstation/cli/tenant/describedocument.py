"""A tenant's description as JSON or YAML, for programs: complete, with no text cut. Pure."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from bulkhead.api.untrusted import mapping
from workstation.cli.tenant.description import Description, Inside, event_lines, gpus_asked, pod_lines, quota_lines, unlimited
from workstation.cli.trouble import Trouble


def document_of(found: Description) -> dict[str, Any]:
    """The document; times are RFC 3339, and quantities are written as Kubernetes does."""
    spec, status = mapping(found.tenant.get("spec")), mapping(found.tenant.get("status"))
    meta = found.tenant["metadata"]
    quotas = quota_lines(found.quotas)
    return {
        "name": meta["name"],
        "class": spec.get("class"),
        "mode": mapping(spec.get("scheduling")).get("mode"),
        "kubernetesVersion": mapping(status.get("versions")).get("kubernetes") or spec.get("kubernetesVersion"),
        "endpoint": status.get("endpoint"),
        "gpus": dict(mapping(status.get("gpus"))),
        "dedicated": dict(mapping(status.get("dedicated"))),
        "serviceSlice": status.get("serviceSlice"),
        "createdAt": meta.get("creationTimestamp"),
        "deletingSince": meta.get("deletionTimestamp"),
        "conditions": list(status.get("conditions") or ()),
        "plane": {
            "namespace": found.plane,
            "pods": [
                {
                    "name": line.name,
                    "readyContainers": line.ready,
                    "containers": line.containers,
                    "phase": line.phase,
                    "restarts": line.restarts,
                    "node": line.node,
                }
                for line in pod_lines(found.pods)
            ],
            "warnings": _warnings(found.troubles),
        },
        "quota": [{"resource": name, "used": used, "limit": limit} for name, used, limit in quotas],
        "unlimited": unlimited(name for name, *_ in quotas) if quotas else [],
        "events": [
            {"at": line.when, "type": line.type, "reason": line.reason, "object": line.object, "message": line.message}
            for line in event_lines(found.events)
        ],
        "pendingPods": _inside(found.inside),
    }


def _inside(found: Inside) -> dict[str, Any]:
    return {
        "unknown": found.unknown or None,
        "refused": [
            {
                "namespace": pod["metadata"].get("namespace"),
                "pod": pod["metadata"]["name"],
                "gpus": gpus_asked(pod),
                "reason": condition.get("reason"),
                "message": condition.get("message"),
            }
            for pod, condition in found.refused
        ],
        "warnings": _warnings(found.troubles),
    }


def _warnings(found: Iterable[Trouble]) -> list[dict[str, str]]:
    return [asdict(item) for item in found]
