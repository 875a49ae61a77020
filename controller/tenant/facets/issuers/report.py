"""The report on the identity providers of a tenant's users. Pure."""

from bulkhead.api.conditions import ConditionType, Reason
from controller.plane.spec import PlaneSpec
from controller.tenant.status import Report
from controller.verdict import Verdict


def report(spec: PlaneSpec) -> Report:
    """Empty if users sign in with certificates only."""
    return Report(conditions={ConditionType.ISSUERS_READY: _issuers(spec) if spec.access.issuers else None})


def _issuers(spec: PlaneSpec) -> Verdict:
    troubles = [
        f"{issuer.provider.name} ({issuer.provider.source.url}): {issuer.trouble}; "
        + (
            "tokens signed with its last known keys still count"
            if issuer.keys
            else "no user can sign in with it until it answers"
        )
        for issuer in spec.access.issuers
        if issuer.trouble
    ]
    if troubles:
        return Verdict("False", Reason.ISSUER_SILENT, ". ".join(troubles))
    if shut := [
        issuer.provider.name
        for issuer in spec.access.issuers
        if issuer.provider.required_groups and not issuer.provider.groups_claim
    ]:
        missing = "requiredGroups is set, but the class names no claim with the groups (claims.groups)"
        return Verdict(
            "False", Reason.INVALID_CONFIGURATION, f"{', '.join(shut)}: {missing}; no user can sign in with it until it does"
        )
    if unknown := [issuer.provider.name for issuer in spec.access.issuers if not issuer.keys]:
        return Verdict("False", Reason.PROVISIONING, f"being asked for its keys: {', '.join(unknown)}")
    named = {str(admin.get("name")) for admin in spec.access.admins} | {revoked.name for revoked in spec.access.revoked}
    prefixes = tuple(issuer.provider.prefix for issuer in spec.access.issuers)
    strange = sorted(name for name in named if not name.startswith(prefixes))
    hint = f"; none of theirs is named {', '.join(strange)}: names begin with {', '.join(prefixes)}" if strange else ""
    users = ", ".join(issuer.provider.name for issuer in spec.access.issuers)
    return Verdict("True", Reason.READY, f"users of {users} may sign in{hint}")
