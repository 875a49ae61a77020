"""Whether a Tenant has a Slurm cluster. Pure."""

from collections.abc import Mapping
from typing import Any

from bulkhead.api.untrusted import mapping


def has_slurm(tenant: Mapping[str, Any]) -> bool:
    """Whether the tenant has a Slurm cluster, with or without Kubernetes pods of its own."""
    scheduling = mapping(mapping(tenant.get("spec")).get("scheduling"))
    return scheduling.get("mode") == "Slurm" or isinstance(scheduling.get("slurm"), Mapping)
