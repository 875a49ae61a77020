"""The report on how a Tenant will be deleted. Pure."""

from controller.plane.sections import Deletion
from controller.tenant.status import Report


def report(deletion: Deletion) -> Report:
    """None if nothing but the usual applies, so that the status of most Tenants does not have it."""
    if deletion == Deletion():
        return Report(fields={"deletion": None})
    policy = "Retain" if deletion.retain else "Delete"
    told = {"policy": policy, "confirm": deletion.confirm} | ({"retainFor": deletion.retain_for} if deletion.retain else {})
    return Report(fields={"deletion": told})
