"""Handles volumes whose change the plane refuses: volumes that can grow do, and the others stay and are reported.

    refused StatefulSet ──> applied with its present templates ──> each of its claims is enlarged
    new StatefulSet ──────> its claims may be of an earlier one ──> the same
    refused claim ────────> enlarged

A tenant is the admin of its plane and may have changed all of this: only sizes and class names are read, within limits.
"""

from typing import Final

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import ApiError, Forbidden, NotFound, Unprocessable
from controller.inside.calls import Plane
from controller.inside.counted import Counted
from controller.slurm.spec import NAMESPACE
from controller.unchangeable import unchangeable
from controller.volumes import larger, never_moves, never_shrinks, not_grown

_MESSAGE_CHARACTERS: Final = 200
_CLAIM_KIND: Final = kinds.PERSISTENT_VOLUME_CLAIMS.kind


class _Name(Counted, frozen=True):
    name: str = ""


class _Requests(Counted, frozen=True):
    storage: str = ""


class _Resources(Counted, frozen=True):
    requests: _Requests | None = None


class _ClaimSpec(Counted, frozen=True, rename="camel"):
    storage_class_name: str = ""
    resources: _Resources | None = None

    @property
    def size(self) -> str:
        """The size that it requests."""
        return self.resources.requests.storage if self.resources and self.resources.requests else ""


class _Claim(Counted, frozen=True):
    metadata: _Name
    spec: _ClaimSpec


class _SetSpec(Counted, frozen=True, rename="camel"):
    volume_claim_templates: tuple[_Claim, ...] = ()


class _Set(Counted, frozen=True):
    spec: _SetSpec


_claim: Final = msgspec.json.Decoder(_Claim)
_set: Final = msgspec.json.Decoder(_Set)


async def kept(plane: Plane, obj: Obj, error: ApiError) -> str:
    """Handle an object whose change was refused: returns a message about what stays unchanged, empty if nothing does.

    Raises the error if it is about something else.
    """
    kind, name = str(obj["kind"]), str(obj["metadata"]["name"])
    if kind == _CLAIM_KIND and isinstance(error, Forbidden | Unprocessable):
        return await _grown(plane, name, obj, error)
    if not unchangeable(error.status, error.message):
        raise error
    templates = mapping(obj.get("spec")).get("volumeClaimTemplates")
    if kind == kinds.STATEFUL_SETS.kind and templates:
        return await _with_its_templates(plane, obj, templates)
    words = error.message[:_MESSAGE_CHARACTERS]
    return f"{kind} {NAMESPACE}/{name} stays as it is: {words}; next: delete it in the plane, it is recreated at once"


async def _with_its_templates(plane: Plane, obj: Obj, templates: list[Obj]) -> str:
    """Apply a StatefulSet with its present templates, and enlarge its claims."""
    name = str(obj["metadata"]["name"])
    running = await plane.get(kinds.STATEFUL_SETS, name, NAMESPACE, shape=_set)
    there = {template.metadata.name: template.spec for template in running.spec.volume_claim_templates}
    began = [_as_it_began(template, there.get(str(template["metadata"]["name"]))) for template in templates]
    await plane.apply(kinds.STATEFUL_SETS, obj | {"spec": obj["spec"] | {"volumeClaimTemplates": began}})
    return await claims_grown(plane, obj)


async def claims_grown(plane: Plane, obj: Obj) -> str:
    """Enlarge the claims of a StatefulSet, which outlive it; returns a message about what cannot be changed."""
    name, templates = str(obj["metadata"]["name"]), obj["spec"].get("volumeClaimTemplates") or ()
    claims = [
        (f"{template['metadata']['name']}-{name}-{number}", template)
        for template in templates
        for number in range(obj["spec"]["replicas"])
    ]
    found = [await _grown(plane, claim, template, None) for claim, template in claims]
    return "; ".join(words for words in found if words)


def _as_it_began(template: Obj, there: _ClaimSpec | None) -> Obj:
    if there is None:
        return template
    spec = {key: value for key, value in template["spec"].items() if key != "storageClassName"}
    spec |= {"resources": {"requests": {"storage": there.size}}}
    return template | {"spec": spec | ({"storageClassName": there.storage_class_name} if there.storage_class_name else {})}


async def _grown(plane: Plane, name: str, wanted: Obj, error: ApiError | None) -> str:
    """Enlarge one claim to the wanted size; returns a message about what cannot be changed."""
    try:
        there = (await plane.get(kinds.PERSISTENT_VOLUME_CLAIMS, name, NAMESPACE, shape=_claim)).spec
    except NotFound:
        if error is not None:
            raise error from None
        return ""  # not created yet: the next reconcile handles it
    asked = str(wanted["spec"]["resources"]["requests"]["storage"])
    wished = str(wanted["spec"].get("storageClassName") or "")
    notes: list[str] = []
    if larger(there.size, asked):
        notes.append(never_shrinks(name, there.size, asked))
    elif larger(asked, there.size):
        try:
            body = {"spec": {"resources": {"requests": {"storage": asked}}}}
            await plane.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, body, NAMESPACE)
        except (Forbidden, Unprocessable) as refused:
            notes.append(not_grown(name, there.size, asked, there.storage_class_name, refused.message[:_MESSAGE_CHARACTERS]))
    if wished and there.storage_class_name and wished != there.storage_class_name:
        notes.append(never_moves(name, there.storage_class_name, wished))
    return "; ".join(notes)
