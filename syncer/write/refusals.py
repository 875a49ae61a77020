"""What the host's refusal of a pod means to the tenant. Pure.

The host says `pods "x-1f…" is forbidden: exceeded quota: tenant-quota, requested: …`; the tenant must read which quota, how
much of it is used and what was asked, in its own words, and nothing of host names.
"""

import re
from decimal import Decimal
from typing import Final

from bulkhead.api.quantity import readable
from bulkhead.kube.errors import ApiError, Forbidden, Unprocessable
from syncer.translate import Reason, Untranslatable
from syncer.translate.reasons import when_raised

_EXCEEDED: Final = re.compile(
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>.+), used: (?P<used>.+), limited: (?P<hard>.+)$"
)
_PAIR: Final = re.compile(r"(?P<name>[^=,\s]+)=(?P<amount>[^,\s]+)")
# The API server reports this for a quota that the host's controller manager has not counted yet.
_UNCOUNTED: Final = ": status unknown for quota: "
# The host's policies report this just after an upgrade, before the controller has written the tenant's facts.
_UNWRITTEN: Final = "the controller has not noted yet"
_PASSING: Final = (_UNCOUNTED, _UNWRITTEN)
_MUST_SPECIFY: Final = re.compile(r"failed quota: (?P<quota>[^:]+): must specify (?P<what>.+)$")
_SECURITY: Final = re.compile(r"violates PodSecurity \"(?P<level>[a-z]+):[^\"]*\": (?P<what>.+)$")
_HASHED: Final = re.compile(r"\b[a-z0-9][-a-z0-9]{0,30}-[0-9a-f]{32}\b")
_WORK: Final = re.compile(r"\bbh-[-a-z0-9]+\b")


def explain(error: ApiError, pod: str, hope: str = "The pod starts when enough is free.") -> Untranslatable | None:
    """The refusal as the tenant reads it; None if the error is not a refusal. `hope` is appended to a lack of quota."""
    if not isinstance(error, (Forbidden, Unprocessable)):
        return None
    # Trouble that passes: a patch names the UID that it is for, and another object has the name by now; a quota is not counted
    # yet; or the policies do not know yet what the tenant may.
    if any(cause.field == "metadata.uid" for cause in error.causes) or any(part in error.message for part in _PASSING):
        return None
    exceeded = _EXCEEDED.search(error.message)
    if exceeded:
        return Untranslatable(Reason.QUOTA_EXCEEDED, _quota_text(exceeded, hope), "")
    unspecified = _MUST_SPECIFY.search(error.message)
    if unspecified:
        text = f"quota {unspecified['quota'].strip()} counts resources that every container must name: {unspecified['what']}"
        return Untranslatable(Reason.NOT_ALLOWED, text, "spec.containers")
    security = _SECURITY.search(error.message)
    if security:
        return Untranslatable(Reason.POD_SECURITY, f"Pod Security level {security['level']}: {security['what']}", "")
    return Untranslatable(Reason.HOST_REFUSED, plain(error.message, pod), "")


def plain(message: str, name: str) -> str:
    """A host's text without host names."""
    return _WORK.sub("the tenant", _HASHED.sub(name, message))[:500]


def _quota_text(found: "re.Match[str]", hope: str) -> str:
    asked, used, hard = (_pairs(found[part]) for part in ("asked", "used", "hard"))
    parts = [
        f"asked for {amount} {_tenant_word(name)}, {used.get(name, '?')} of {hard.get(name, '?')} are in use"
        for name, amount in asked.items()
    ]
    never = any(_amount(amount) > _amount(hard.get(name, amount)) for name, amount in asked.items())
    return f"quota {found['quota'].strip()} exceeded: {'; '.join(parts)}. {when_raised(hope) if never else hope}"


def _amount(text: str) -> Decimal:
    return readable(text) or Decimal(0)


def _pairs(text: str) -> dict[str, str]:
    return {pair["name"]: pair["amount"] for pair in _PAIR.finditer(text)}


def _tenant_word(name: str) -> str:
    return "pods (those that have ended are counted)" if name == "count/pods" else name.removeprefix("requests.")


def is_quota(refused: Untranslatable) -> bool:
    """Whether more room on the host would help."""
    return refused.reason is Reason.QUOTA_EXCEEDED
