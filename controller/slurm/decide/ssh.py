"""Decides which identity gets an ssh certificate, for which of a cluster's users, and for how long. Pure: facts in, answer out.

The plane's API server writes the requester's identity into a CertificateSigningRequest, and no client can change it. The
Tenant, which only admins of the host write, names the users for which that identity may log in. The request influences neither.

    request + its Tenant ──> judge() ──┬─ Issue    for all users of this identity, until its token ends, 15 minutes at most
                                       ├─ Refuse   with a reason for people
                                       └─ None     not yet: the CA is being replaced
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from bulkhead.api import names
from bulkhead.api.untrusted import mappings, sequence
from controller.sections import section_of
from controller.slurm.spec import UserSpec
from controller.slurm.spec.identities import has_none_left, principals_of

CERTIFICATE_LIFE: Final = timedelta(minutes=15)
# A certificate with a shorter life is useless, because the user still has to connect.
LEAST_CERTIFICATE_LIFE: Final = timedelta(seconds=10)
# For one identity. A client that connects more often should keep its certificate for a while.
MOST_REQUESTS_A_MINUTE: Final = 30
_LATEST_MOMENT: Final = 1e11


@dataclass(frozen=True, slots=True)
class Request:
    """The facts of a request: its identity, which the plane's API server vouches for, and when the identity's token expires."""

    identity: str
    groups: tuple[str, ...] = ()
    token_ends: datetime | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """Issue for these users of the cluster."""

    principals: tuple[str, ...]
    ends: datetime


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse for good; the text is for the requester."""

    why: str


Answer: TypeAlias = Issue | Refuse | None


def judge(request: Request, tenant: Mapping[str, Any], *, drawn_for: str, recent: int, now: datetime) -> Answer:
    """The answer.

    `drawn_for`: the `access.certificatesRevoked` that the CA was drawn for; `recent`: how many certificates the identity got
    within the last minute.
    """
    access = section_of(section_of(tenant, "spec"), "access")
    principals = principals_of(request.identity, users_of(tenant))
    ends = min(now + CERTIFICATE_LIFE, request.token_ends or now + CERTIFICATE_LIFE)
    if why := _objection(request, tenant, access, recent=recent):
        return Refuse(why)
    if not principals:
        return Refuse(f"{request.identity!r} is not in the identities of any Slurm user of the tenant")
    if ends < now + LEAST_CERTIFICATE_LIFE:
        return Refuse("the token expires within seconds; sign in again")
    if str(access.get("certificatesRevoked") or "") not in {"", drawn_for}:
        return None
    return Issue(principals, ends)


def _objection(request: Request, tenant: Mapping[str, Any], access: Mapping[str, Any], *, recent: int) -> str | None:
    if _is_revoked(request, tenant, access):
        return f"access of {request.identity!r} is revoked"
    if request.token_ends is None and not request.identity.startswith(names.HOST_USER_PREFIX):
        return f"{request.identity!r} did not sign in with an identity provider of the tenant"
    if recent >= MOST_REQUESTS_A_MINUTE:
        return f"{request.identity!r} got {recent} certificates within a minute; wait for a minute"
    return None


def users_of(tenant: Mapping[str, Any]) -> tuple[UserSpec, ...]:
    """The users that a Tenant names. One whose identities are all revoked administers nothing: tokens may still be valid."""
    slurm = section_of(section_of(section_of(tenant, "spec"), "scheduling"), "slurm")
    gone = revoked(tenant)
    found = (_user(user) for user in mappings(slurm.get("users")))
    return tuple(replace(user, admin=False) if has_none_left(user, gone) else user for user in found)


def revoked(tenant: Mapping[str, Any]) -> frozenset[str]:
    """Identities that a Tenant revokes for good, by the names that its plane has for them."""
    access = section_of(section_of(tenant, "spec"), "access")
    people = {str(entry.get("name")) for entry in mappings(access.get("revoked")) if _for_good(entry, "User")}
    listed = {str(user).removeprefix(names.HOST_USER_PREFIX) for user in sequence(access.get("revokedUsers"))}
    # By the name on the host, and by the name in audit trails of planes.
    of_host = {user for name in listed for user in (names.host_user(name), names.HOST_USER_PREFIX + name)}
    return frozenset(people | of_host)


def request_of(username: str, groups: Iterable[str], extra: Mapping[str, Any]) -> Request:
    """The facts of a request, from the fields that the plane's API server wrote into it."""
    return Request(username, tuple(groups), _moment(extra.get(names.TOKEN_ENDS)))


def _is_revoked(request: Request, tenant: Mapping[str, Any], access: Mapping[str, Any]) -> bool:
    groups = {str(entry.get("name")) for entry in mappings(access.get("revoked")) if _for_good(entry, "Group")}
    return request.identity in revoked(tenant) or bool(groups & set(request.groups))


def _for_good(revocation: Mapping[str, Any], kind: str) -> bool:
    """Whether it revokes for good, and not only tokens from before some moment, which the plane's API server checks itself."""
    return str(revocation.get("kind") or "User") == kind and not revocation.get("before")


def _moment(values: Any) -> datetime | None:
    text = str(next(iter(sequence(values)), ""))
    if not text.isascii() or not text.isdecimal() or len(text) > 11 or int(text) > _LATEST_MOMENT:
        return None
    return datetime.fromtimestamp(int(text), UTC)


def _user(asked: Mapping[str, Any]) -> UserSpec:
    return UserSpec(
        name=str(asked["name"]),
        uid=int(asked["uid"]),
        ssh_keys=tuple(str(key) for key in asked.get("sshKeys") or ()),
        admin=bool(asked.get("admin", False)),
        identities=tuple(str(identity) for identity in asked.get("identities") or ()),
    )
