"""The report on the identity of a plane, once its record counts. Pure."""

from controller.tenant.status import Report


def report(identity: str) -> Report:
    """`identity` is empty while the record is in doubt: the status keeps the one that it has."""
    return Report(fields={"planeIdentity": identity} if identity else {})
