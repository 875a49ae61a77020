"""The cluster's DNS, judged as preflight does, by the peers that the running controller has. Pure."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from bulkhead.api.untrusted import mapping, mappings, text
from workstation.doctor.facts import Seen
from workstation.preflight.facts import need
from workstation.preflight.findings import Finding
from workstation.preflight.judge import dns
from workstation.preflight.values import merged, parse

VARIABLE: Final = "BULKHEAD_CLUSTER_DNS"
_TEXT_CHARACTERS: Final = 65_536


def reachable(seen: Seen) -> Finding:
    """The pods of the cluster's DNS that no peer matches, and addresses of its caches that no peer has."""
    values = parse(merged([]))
    told = _told(need(seen.cluster, "controllers"))
    return dns.reachable(seen.cluster, values if told is None else replace(values, dns=told))


def _told(deployments: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...] | None:
    """The peers in the controller's environment; None where it has none, as one of an older release."""
    for deployment in deployments[:1]:
        pod = mapping(mapping(mapping(deployment.get("spec")).get("template")).get("spec"))
        for container in mappings(pod.get("containers"), 8):
            for variable in mappings(container.get("env"), 256):
                if variable.get("name") == VARIABLE:
                    return _peers(text(variable.get("value")))
    return None


def _peers(told: str) -> tuple[Mapping[str, Any], ...]:
    try:
        return tuple(mappings(json.loads(told[:_TEXT_CHARACTERS]), 16))
    except (ValueError, RecursionError):
        return ()
