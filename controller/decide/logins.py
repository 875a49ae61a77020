"""The answer to a request for a person's certificate. Pure: from facts to one answer.

The host's API server writes the requester into a CertificateSigningRequest, and no client can change that. The certificate
contains this identity, never the name that the request asks for. The host's own authorizer decides whether it may log in.

    request + its Tenant + the authorizer's word ──> judge() ──┬─ Sign     as `bulkhead:host:<requester>`, for an hour at most
                                                               ├─ Deny     with a reason for people
                                                               └─ Later    the tenant cannot sign yet

One that was answered before stays for a while (`is_open`, `is_over`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from bulkhead.api import labels, names
from bulkhead.api.untrusted import mapping
from controller.plane.pki import PERSON_LIFE

# A requester reads the answer within seconds, or has given up the request.
ANSWER_KEPT_FOR: Final = timedelta(minutes=10)
WAITS_FOR_CA_FOR: Final = timedelta(minutes=2)
# For one tenant. A person needs one certificate an hour; scripts that do not reuse theirs stay below this, too.
MOST_REQUESTS_A_MINUTE: Final = 30
_MIN_CERTIFICATE_LIFE: Final = timedelta(minutes=10)
_USAGES: Final = frozenset({"client auth", "digital signature", "key encipherment"})


@dataclass(frozen=True, slots=True)
class Request:
    """The facts of a CertificateSigningRequest."""

    name: str
    tenant: str
    requester: str
    created: datetime
    usages: frozenset[str]
    life: timedelta
    denied: bool
    approved: bool
    answered: bool


@dataclass(frozen=True, slots=True)
class Sign:
    """Issue a certificate for this user of the plane."""

    user: str
    life: timedelta


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse for good; the text is for the requester."""

    why: str


@dataclass(frozen=True, slots=True)
class Later:
    """Not yet."""


Answer: TypeAlias = Sign | Deny | Later


def request_of(obj: Mapping[str, Any]) -> Request:
    """The facts of a request, whatever shape it has."""
    meta, spec, status = mapping(obj.get("metadata")), mapping(obj.get("spec")), mapping(obj.get("status"))
    conditions = {str(mapping(condition).get("type")) for condition in status.get("conditions") or ()}
    seconds = spec.get("expirationSeconds")
    asked = timedelta(seconds=seconds) if isinstance(seconds, int) else PERSON_LIFE
    return Request(
        name=str(meta.get("name")),
        tenant=str(mapping(meta.get("labels")).get(labels.TENANT) or ""),
        requester=str(spec.get("username") or ""),
        created=datetime.fromisoformat(str(meta["creationTimestamp"])),
        usages=frozenset(str(usage) for usage in spec.get("usages") or ()),
        life=min(max(asked, _MIN_CERTIFICATE_LIFE), PERSON_LIFE),
        denied=bool(conditions & {"Denied", "Failed"}),
        approved="Approved" in conditions,
        answered=bool(status.get("certificate")),
    )


def is_open(request: Request) -> bool:
    """Whether it has no answer yet."""
    return not (request.denied or request.answered)


def is_over(request: Request, now: datetime) -> bool:
    """Whether it was answered so long ago that the requester has read the answer."""
    return not is_open(request) and now >= request.created + ANSWER_KEPT_FOR


def judge(request: Request, tenant: Mapping[str, Any] | None, *, allowed: bool, recent: int) -> Answer:
    """The answer to an open request; `recent`: how many certificates of this tenant the requester got within a minute."""
    if tenant is None or mapping(tenant.get("metadata")).get("deletionTimestamp"):
        return Deny(f"there is no tenant {request.tenant!r}" if request.tenant else f"no label {labels.TENANT} names a tenant")
    if why := _objection(request, tenant, allowed=allowed, recent=recent):
        return Deny(why)
    return Sign(names.host_user(request.requester), request.life)


def _objection(request: Request, tenant: Mapping[str, Any], *, allowed: bool, recent: int) -> str | None:
    if not request.requester or not allowed:
        return f"{request.requester!r} may not {names.LOGIN_VERB} to tenant {request.tenant}"
    if is_revoked(request, tenant):
        return f"{request.requester!r} is in access.revokedUsers of tenant {request.tenant}"
    if "client auth" not in request.usages or not request.usages <= _USAGES:
        return f"the usages must contain client auth, and may also contain {', '.join(sorted(_USAGES - {'client auth'}))}"
    if recent >= MOST_REQUESTS_A_MINUTE:
        return f"{request.requester!r} got {recent} certificates within a minute; try again in a minute"
    return None


def is_revoked(request: Request, tenant: Mapping[str, Any]) -> bool:
    """Whether the Tenant revokes the requester, by the name on the host or by the name in audit trails of planes."""
    revoked = mapping(mapping(tenant.get("spec")).get("access")).get("revokedUsers") or ()
    listed = {str(user).removeprefix(names.HOST_USER_PREFIX) for user in revoked}
    return bool({request.requester, names.host_user(request.requester).removeprefix(names.HOST_USER_PREFIX)} & listed)


def waits(request: Request, now: datetime) -> Later | Deny:
    """The answer to a request that cannot be signed yet: the CA does not exist yet, or is being replaced."""
    return Later() if now < request.created + WAITS_FOR_CA_FOR else Deny(f"tenant {request.tenant} has no CA for people yet")


def may_log_in(obj: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """The question to the host's authorizer, with everything that its API server vouches for in the request."""
    spec = mapping(obj.get("spec"))
    asked = {"group": names.GROUP, "resource": "tenants", "verb": names.LOGIN_VERB, "name": request.tenant}
    identity = {"user": request.requester, "groups": list(spec.get("groups") or ()), "extra": dict(mapping(spec.get("extra")))}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": identity | {"uid": str(spec.get("uid") or ""), "resourceAttributes": asked},
    }
