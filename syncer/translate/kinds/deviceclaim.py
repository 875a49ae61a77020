"""A tenant's ResourceClaim on the host, and what a pod says about its claims.

Claims made from templates are made by the plane's own controller, so that there is one and not two; the host never sees a
template. A claim may ask for devices of offered classes by count and by the driver's attributes. What would reach past that
stays out: administrative access, "all devices", devices that a taint keeps for others, more than any claim can be given, and
parameters for the driver, which may mean anything to it. How many devices all claims together may have is the quota's to say.
The host allocates; its answer comes up, less the node selector.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import deviceclaims
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from syncer.translate import metadata, schema
from syncer.translate.metadata import Identity
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import NAME, QUANTITY, Dropped, ListOf, MapOf, Number, OneOf, Refused, Struct, Text, Translated
from syncer.translate.view import TenantView

KIND: Final = "ResourceClaim"
_MOST: Final = 32
_NAMES: Final = ListOf(Text(127), _MOST)

SELECTOR: Final = Struct({"cel": Struct({"expression": Text(10 * 1024)})})
CAPACITY: Final = Struct({"requests": MapOf(QUANTITY, _MOST)})
_WHAT: Final[dict[str, schema.Rule]] = {
    "deviceClassName": NAME,
    "selectors": ListOf(SELECTOR, _MOST),
    "allocationMode": OneOf(("", "ExactCount"), Reason.NOT_ALLOWED),
    "count": Number(1),
    "tolerations": Refused("a taint of the host keeps a device from tenants, and none can be tolerated"),
    "capacity": CAPACITY,
}
EXACT: Final = Struct({**_WHAT, "adminAccess": Refused("administrative access to devices is the host's")})
ALTERNATIVE: Final = Struct({**_WHAT, "name": Text(63)})
REQUEST: Final = Struct({"name": Text(63), "exactly": EXACT, "firstAvailable": ListOf(ALTERNATIVE, 8)})
CONSTRAINT: Final = Struct({"requests": _NAMES, "matchAttribute": Text(317), "distinctAttribute": Text(317)})
# Every field of a claim's spec of Kubernetes 1.36.
DEVICES: Final = Struct(
    {
        "requests": ListOf(REQUEST, _MOST),
        "constraints": ListOf(CONSTRAINT, _MOST),
        "config": Refused("parameters for drivers are not passed to the host", Reason.NOT_SUPPORTED),
    }
)
CLAIM_SPEC: Final = Struct({"devices": DEVICES})
_CLAIM: Final = Struct(
    {
        "apiVersion": Dropped("fixed"),
        "kind": Dropped("fixed"),
        "metadata": Translated("metadata"),
        "spec": Translated("CLAIM_SPEC"),
        "status": Dropped("the host's status is reported"),
    }
)
_OF_POD: Final = Struct({"name": Text(63), "resourceClaimName": NAME, "resourceClaimTemplateName": NAME})
_RESULT: Final = ("request", "driver", "pool", "device", "shareID", "consumedCapacity")


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host ResourceClaim for `virtual`."""
    identity = metadata.identity(KIND, virtual)
    schema.struct(virtual, _CLAIM, "")
    spec = schema.struct(virtual.get("spec"), CLAIM_SPEC, "spec")
    for index, request in enumerate(spec.get("devices", {}).get("requests", [])):
        path = f"spec.devices.requests[{index}]"
        for at, exact in _asked(request, path):
            _check_class(exact.get("deviceClassName", ""), at, view)
    _check_number(spec)
    _check_selectors(spec, view)
    meta = metadata.host_metadata(identity, virtual, view)
    return {"apiVersion": "resource.k8s.io/v1", "kind": KIND, "metadata": meta, "spec": spec}


def status_to_virtual(host: Obj, virtual: Obj, _view: TenantView) -> Obj:
    """What the host allocated; the reservation is the host's, and the plane's own stays as it is.

    An API server takes no allocation away that is reserved, and none in place of another: until the plane's controller has
    lifted its reservation the former one stays, then there is none for a moment.
    """
    before = mapping(virtual.get("status"))
    kept: Obj = {key: before[key] for key in ("reservedFor", "devices") if before.get(key)}
    given, held = mapping(mapping(host.get("status")).get("allocation")), mapping(before.get("allocation"))
    if not held:
        return kept | ({"allocation": {"devices": {"results": _results(given)}}} if given else {})
    if before.get("reservedFor") or (given and _is_kept(_results(held), _results(given))):
        return kept | {"allocation": before["allocation"]}
    return {}  # the report on devices goes with them


def _is_kept(held: list[Obj], given: list[Obj]) -> bool:
    """Whether these are the devices that the host gave, as far as the plane's API server keeps what it is told of them."""
    return len(held) == len(given) and all(
        one == {key: value for key, value in other.items() if key in one} for one, other in zip(held, given, strict=True)
    )


def _results(allocation: Mapping[str, Any]) -> list[Obj]:
    """The devices of an allocation, as far as a tenant sees them."""
    return [
        {key: result[key] for key in _RESULT if result.get(key) is not None}
        for result in mappings(mapping(allocation.get("devices")).get("results"))
    ]


def of_pod(virtual: Obj, identity: Identity, view: TenantView) -> list[Obj]:
    """A pod's `resourceClaims` on the host."""
    spec = schema.mapping(virtual.get("spec"), "spec")
    statuses = schema.items(mapping(virtual.get("status")).get("resourceClaimStatuses"), "status.resourceClaimStatuses")
    made = {schema.text(status.get("name"), at): schema.text(status.get("resourceClaimName"), at) for at, status in statuses}
    found: list[Obj] = []
    for at, entry in schema.items(spec.get("resourceClaims"), "spec.resourceClaims", _MOST):
        plain = schema.struct(entry, _OF_POD, at)
        if view.judges and not view.device_classes:
            raise Untranslatable(Reason.NOT_SUPPORTED, "no device class is offered; ask for GPUs by resources.limits", at)
        name = plain.get("resourceClaimName") or made.get(plain.get("name", ""))
        if not name:
            raise Untranslatable(Reason.REFERENCE_MISSING, "waiting for the claim that is made from the template", at)
        claim = metadata.object_name(name, f"{at}.resourceClaimName")
        found.append({"name": plain.get("name", ""), "resourceClaimName": view.host_name(KIND, identity.namespace, claim)})
    return found


def named_by(virtual: Obj) -> list[str]:
    """The claims of the plane that a pod names, those that are made from its templates included; lenient."""
    made = {
        status.get("name"): text(status.get("resourceClaimName"))
        for status in mappings(mapping(virtual.get("status")).get("resourceClaimStatuses"), _MOST)
    }
    listed = mappings(mapping(virtual.get("spec")).get("resourceClaims"), _MOST)
    found = [text(entry.get("resourceClaimName")) or made.get(text(entry.get("name")), "") for entry in listed]
    return [name for name in dict.fromkeys(found) if name]


def check_containers(built: Mapping[str, Any], claims: Any) -> None:
    """Refuse containers that name a claim which the pod does not have."""
    known = {claim["name"] for claim in claims}
    for field, entries in built.items():
        for index, entry in enumerate(entries):
            named = entry.get("resources", {}).get("claims", [])
            if any(reference.get("name") not in known for reference in named):
                path = f"spec.{field}[{index}].resources.claims"
                raise Untranslatable(Reason.NOT_SUPPORTED, "names a claim that the pod does not have", path)


def _asked(request: Mapping[str, Any], path: str) -> list[tuple[str, Mapping[str, Any]]]:
    exactly = request.get("exactly")
    found = [(f"{path}.exactly", exactly)] if exactly else []
    found += [(f"{path}.firstAvailable[{index}]", choice) for index, choice in enumerate(request.get("firstAvailable", []))]
    if not found:
        raise Untranslatable(Reason.MALFORMED, "asks for nothing", path)
    return found


def _check_class(name: str, path: str, view: TenantView) -> None:
    if view.judges and name not in view.device_classes:
        offered = ", ".join(sorted(view.device_classes)) or "none"
        raise Untranslatable(
            Reason.NOT_ALLOWED, f"DeviceClass {name[:63]!r} is not offered; offered: {offered}", f"{path}.deviceClassName"
        )


def _check_number(spec: Mapping[str, Any]) -> None:
    asked = deviceclaims.together({"spec": spec})
    if asked > deviceclaims.MOST_DEVICES:
        text = f"asks for {asked} devices, and no claim can be given more than {deviceclaims.MOST_DEVICES}; use several claims"
        raise Untranslatable(Reason.NOT_ALLOWED, text, "spec.devices.requests")


def _check_selectors(spec: Mapping[str, Any], view: TenantView) -> None:
    """Check the selectors as the host's policy does; existing claims are not checked again."""
    number, characters = deviceclaims.selecting({"spec": spec})
    if view.judges and (number > deviceclaims.MOST_SELECTORS or characters > deviceclaims.MOST_CHARACTERS):
        raise Untranslatable(
            Reason.TOO_LARGE,
            f"has {number} selectors of {characters} characters in all requests and alternatives, and "
            f"{deviceclaims.MOST_SELECTORS} of {deviceclaims.MOST_CHARACTERS} together are the most; "
            "use several claims, or shorter expressions",
            "spec.devices.requests",
        )
