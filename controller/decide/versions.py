"""Which versions of Kubernetes a plane runs, and whether it may change from there to another. Pure.

A plane never goes back a minor version, because etcd holds what the newer one wrote. It never skips one, because an API server
understands only what the previous minor version wrote. The running version is read from the plane's own StatefulSet and pods,
which only the controller writes; the Tenant's status is used only if these do not exist.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings
from controller.existing import Existing, Slot
from controller.plane.spec import API_SERVER, PLANE
from controller.sections import section_of

_VERSION: Final = re.compile(r"v(\d+)\.(\d+)\.\d+")
_MEMBER: Final = re.compile(rf"{PLANE}-\d+")


def running(tenant: Obj, existing: Existing) -> tuple[str, ...]:
    """Every version that a plane runs, the lowest first: during a rollout there are two. Empty if there is no plane."""
    namespace = names.plane_namespace(str(tenant["metadata"]["name"]))
    stateful_set = existing.get(Slot("StatefulSet", namespace, PLANE))
    found = set(_of_containers(section_of(section_of(stateful_set or {}, "spec"), "template")))
    for slot, obj in existing.items():
        if slot.kind == "Pod" and slot.namespace == namespace and _MEMBER.fullmatch(slot.name):
            found |= set(_of_containers(obj))
    if not found:
        reported = str(section_of(section_of(tenant, "status"), "versions").get("kubernetes") or "")
        found = {reported} if _VERSION.fullmatch(reported) else set()
    return tuple(sorted(found, key=_order))


def built(tenant: Obj, existing: Existing) -> str:
    """The version with which a plane was last built, the newest that its data may have; empty if there is no plane."""
    return next(reversed(running(tenant, existing)), "")


def fault(runs: tuple[str, ...], asked: str, offered: Iterable[str]) -> str:
    """Why a plane cannot change to a version from those that it runs, and what to do; empty if it can."""
    if not runs or not _VERSION.fullmatch(asked):
        return ""
    lowest, newest, wanted = _minor(runs[0]), _minor(runs[-1]), _minor(asked)
    if wanted < newest:
        return (
            f"the plane runs {runs[-1]} and cannot go back to {asked}: etcd holds what the newer one wrote; "
            f"set {_name(newest)}.x or newer"
        )
    if wanted[0] == lowest[0] and wanted[1] <= lowest[1] + 1:
        return ""
    following = lowest[0], lowest[1] + 1
    between = [version for version in offered if _VERSION.fullmatch(version) and _minor(version) == following]
    first = " or ".join(between) or f"a version {_name(following)}.x, which class and installation do not offer yet"
    rollout = ", of which some members still run the older one" if lowest != newest else ""
    return (
        f"the plane runs {' and '.join(runs)}{rollout} and cannot go to {asked} at once: "
        f"a plane goes up one minor version at a time; first set {first}"
    )


def _of_containers(obj: Obj) -> Iterator[str]:
    """The version in the image of the API server, in a pod or a pod template."""
    for container in mappings(mapping(obj.get("spec")).get("containers")):
        if container.get("name") == API_SERVER:
            image = str(container.get("image") or "").partition("@")[0].rpartition("/")[2]
            found = _VERSION.search(image)
            if found is not None:
                yield found[0]


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split("."))


def _minor(version: str) -> tuple[int, int]:
    major, minor, *_ = _order(version)
    return major, minor


def _name(minor: tuple[int, int]) -> str:
    return f"v{minor[0]}.{minor[1]}"
