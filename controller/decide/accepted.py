"""What was accepted of a Tenant last, so that an edit that is refused changes nothing. Pure.

    accepted ──> ConfigMap `accepted` of the plane's namespace, before anything of it is built
    refused  ──> the Tenant as the ConfigMap has it ──> as any other, under its class of now; Ready says what is refused

The ConfigMap is the controller's alone: syncers and tenants have no right to it. It is believed of the same Tenant only, by
UID, and where it cannot be read there is none. What is withdrawn counts at once, whatever else the edit says.
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
NOTE: Final = "this edit is not applied, and the tenant keeps the last accepted spec"
_SPEC: Final = "spec.json"
_UID: Final = "uid"
_GENERATION: Final = "generation"
# A ConfigMap has room for 1 MiB, and a Tenant may be larger: of such a one nothing is remembered, nor of what it was before.
_MOST_SPEC_CHARACTERS: Final = 1_000_000
# Of these the Tenant itself has the word at any time: nothing of them is built.
_ASIDE: Final = ("pausedUntil", "deletionPolicy")


def record(tenant: Obj) -> Obj:
    """The ConfigMap that remembers a Tenant as it is accepted now."""
    meta = tenant["metadata"]
    name = str(meta["name"])
    spec = json.dumps(section_of(tenant, "spec"), sort_keys=True, separators=(",", ":"))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": names.plane_namespace(name), "labels": labels.made_for(name)},
        "data": {
            _SPEC: spec if len(spec) <= _MOST_SPEC_CHARACTERS else "",
            _UID: str(meta["uid"]),
            _GENERATION: str(meta.get("generation") or 0),
        },
    }


def accepted_before(tenant: Obj, found: Obj | None) -> Obj | None:
    """The Tenant with the spec that was accepted last; None where that is not known, or is what it says now."""
    data = section_of(found or {}, "data")
    if data.get(_UID) != tenant["metadata"].get("uid"):
        return None
    try:
        spec = json.loads(str(data.get(_SPEC)))
    except (ValueError, RecursionError):
        return None
    if not isinstance(spec, dict) or not spec:
        return None
    asked = section_of(tenant, "spec")
    before = _with_what_is_withdrawn(spec, asked)
    return None if before == asked else {**tenant, "spec": before}


def kept(admission: Admitted | Refusal, refusal: Refusal, found: Obj | None) -> Admitted | Refusal:
    """What is built of a Tenant whose edit is refused: `admission` is that of the spec that was accepted before."""
    if isinstance(admission, Refusal):
        return refusal
    generation = section_of(found or {}, "data").get(_GENERATION)
    note = f"{NOTE}, of generation {generation}"
    # The list of what is refused may be long, and the end of a message is cut off.
    long = len(refusal.message) > MESSAGE_LIMIT // 2
    message = f"{note}: {refusal.message}" if long else f"{refusal.message}; {note}"
    if admission.held is None:
        return replace(admission, edit=replace(refusal, message=message))
    # Its class has become tighter, too.
    return replace(admission, held=replace(admission.held, message=f"{message}. Refused in it: {admission.held.message}"))


def verdict(edit: Refusal, failure: Refusal | None) -> Verdict:
    """What Ready says of a Tenant whose edit is refused."""
    said = (failure.message, edit.message) if failure is not None else (edit.message,)
    return Verdict("False", edit.reason, "; ".join(said))


def _with_what_is_withdrawn(spec: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    before = {key: value for key, value in spec.items() if key not in _ASIDE}
    before |= {key: asked[key] for key in _ASIDE if key in asked}
    now, then = section_of(asked, "access"), section_of(before, "access")
    if not now and not then:
        return before
    revoked = list(then.get("revoked") or ())
    revoked += [entry for entry in now.get("revoked") or () if entry not in revoked]
    then |= {"revoked": revoked} if revoked else {}
    then |= {"certificatesRevoked": now["certificatesRevoked"]} if now.get("certificatesRevoked") else {}
    return before | {"access": then} if then or "access" in mapping(spec) else before
