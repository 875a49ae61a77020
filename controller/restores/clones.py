"""What follows from a TenantRestore for its clone. Pure."""

import uuid

from bulkhead.api.objects import Obj
from bulkhead.api.slurmmode import has_slurm
from bulkhead.snapshots.manifest import Manifest
from controller.plane.sections import Cloned


def cloned(found: Manifest, restore: str, tenant: Obj) -> Cloned:
    """How the data of a snapshot becomes that of this Tenant. The UID is the same however often it is asked for."""
    return Cloned(found.service_slice, str(uuid.uuid5(uuid.UUID(restore), "kube-system")), slurm=has_slurm(tenant))


def abandoned(tenant: str, of: str) -> str:
    """Why nothing is built for a Tenant whose clone was not made."""
    return (
        f"the Tenant was made for a clone of {of[:300]}, and its TenantRestore has failed or is gone; an empty plane is not "
        f"made instead. Delete the Tenant, kubectl delete tenant {tenant}, and run the command again"
    )
