"""Frozen observations of an installation. Pure. What could not be read is `Unseen`, with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from workstation.doctor.release import Release
from workstation.preflight.facts import Obj, Observed, Unseen

# An object of the release: apiVersion, kind, namespace, name.
Key: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that the judges use. `cluster` has the clocks, the version and the lists."""

    cluster: Observed
    client_version: str
    namespace: str  # of the release
    release: Release | Unseen
    # The objects of the release as they are now; None for one that is not there.
    live: Mapping[Key, Obj | Unseen | None] = field(default_factory=dict)
    # The metrics of each pod of the controller.
    metrics: Mapping[str, str | Unseen] = field(default_factory=dict)


def key_of(obj: Obj, namespace: str) -> Key:
    """The key of an object of a release; Helm puts what names no namespace into that of the release."""
    meta = obj.get("metadata") or {}
    return str(obj.get("apiVersion")), str(obj.get("kind")), str(meta.get("namespace") or namespace), str(meta.get("name"))
