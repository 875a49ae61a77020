"""The last accepted spec of a Tenant, so that a refused edit changes nothing. Pure.

    accepted ──> ConfigMap `accepted` in the plane's namespace, before anything is built from it
    refused  ──> the Tenant with the spec in the ConfigMap ──> like any other, with its present class; Ready reports the refusal

Only the controller has a right to the ConfigMap; syncers and tenants have none. It counts only for the Tenant with the same
UID, and if it cannot be read, it counts as missing. Revocations in a refused edit apply at once.
"""

import json
from dataclasses import replace
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.conditions import MESSAGE_LIMIT
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from controller.decide.case import Admitted
from controller.refusal import Refusal
from controller.sections import section_of
from controller.verdict import Verdict

CONFIG_MAP: Final = "accepted"
NOTE: Final = "this edit is not applied: correct it or take it back; the tenant keeps the last accepted spec"
_SPEC: Final = "spec.json"
_UID: Final = "uid"
_GENERATION: Final = "generation"
# A ConfigMap has room for 1 MiB. If a Tenant is larger, nothing is recorded, and the record of its earlier spec is removed.
_MAX_SPEC_CHARACTERS: Final = 1_000_000
# These fields always apply as the Tenant has them now: nothing is built from them.
_ASIDE: Final = ("pausedUntil", "deletionPolicy")


def record(tenant: Obj) -> Obj:
    """The ConfigMap that records a Tenant as it is accepted now."""
    meta = tenant["metadata"]
    name = str(meta["name"])
    spec = json.dumps(section_of(tenant, "spec"), sort_keys=True, separators=(",", ":"))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": names.plane_namespace(name), "labels": labels.made_for(name)},
        "data": {
            _SPEC: spec if len(spec) <= _MAX_SPEC_CHARACTERS else "",
            _UID: str(meta["uid"]),
            _GENERATION: str(meta.get("generation") or 0),
        },
    }


def accepted_before(tenant: Obj, found: Obj | None) -> Obj | None:
    """The Tenant with its last accepted spec; None if that is unknown, or is its present spec."""
    spec = spec_of(found, str(tenant["metadata"].get("uid")))
    if not spec:
        return None
    asked = section_of(tenant, "spec")
    before = _with_what_is_withdrawn(spec, asked)
    return None if before == asked else {**tenant, "spec": before}


def spec_of(found: Obj | None, uid: str) -> dict[str, Any]:
    """The last accepted spec of the Tenant with this UID; empty if that is unknown."""
    data = section_of(found or {}, "data")
    if data.get(_UID) != uid:
        return {}
    try:
        spec = json.loads(str(data.get(_SPEC)))
    except (ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}


def is_unapplied(tenant: Obj, found: Obj | None, *, built: bool) -> bool:
    """Whether the present spec of a refused Tenant was never accepted, and so may be taken back as a whole."""
    if not spec_of(found, str(tenant["metadata"].get("uid"))):
        # Of a Tenant that was built before there was a record, it is unknown.
        return not built
    return accepted_before(tenant, found) is not None


def kept(admission: Admitted | Refusal, refusal: Refusal, found: Obj | None) -> Admitted | Refusal:
    """What to build for a Tenant whose edit is refused: `admission` is that of its last accepted spec."""
    if isinstance(admission, Refusal):
        return refusal
    generation = section_of(found or {}, "data").get(_GENERATION)
    note = f"{NOTE}, of generation {generation}"
    # The list of refused fields may be long, and the end of a message is cut off.
    long = len(refusal.message) > MESSAGE_LIMIT // 2
    message = f"{note}: {refusal.message}" if long else f"{refusal.message}; {note}"
    admission = replace(admission, unapplied=True)
    if admission.held is None:
        return replace(admission, edit=replace(refusal, message=message))
    # Its class has become tighter, too.
    also = f"{message}. Refused in that spec: {admission.held.message}"
    return replace(admission, held=replace(admission.held, message=also))


def verdict(edit: Refusal, failure: Refusal | None) -> Verdict:
    """The Ready condition of a Tenant whose edit is refused."""
    messages = (failure.message, edit.message) if failure is not None else (edit.message,)
    return Verdict("False", edit.reason, "; ".join(messages))


def _with_what_is_withdrawn(spec: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    before = {key: value for key, value in spec.items() if key not in _ASIDE}
    before |= {key: asked[key] for key in _ASIDE if key in asked}
    now, then = section_of(asked, "access"), section_of(before, "access")
    if not now and not then:
        return before
    revoked = list(then.get("revoked") or ())
    revoked += [entry for entry in now.get("revoked") or () if entry not in revoked]
    then |= {"revoked": revoked} if revoked else {}
    # Login nodes of Slurm know these by the spec that its cluster is built from.
    listed = list(dict.fromkeys([*(then.get("revokedUsers") or ()), *(now.get("revokedUsers") or ())]))
    then |= {"revokedUsers": listed} if listed else {}
    then |= {"certificatesRevoked": now["certificatesRevoked"]} if now.get("certificatesRevoked") else {}
    return before | {"access": then} if then or "access" in mapping(spec) else before
