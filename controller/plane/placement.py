"""Where the host's scheduler may put the pods of planes, and how the members of one plane are spread.

Pure. The chart's value `planes` comes in as JSON and is checked here, because a field that API servers reject would stop the
reconciles of all tenants at once. Without any choice a pod is rendered as if there were no placement: a default that changed
pods would restart every plane.

    values `planes` ──> BULKHEAD_PLANE_PLACEMENT (JSON) ──> read() ──> Placement ──> of_pod(), apart()
    a class's controlPlane.nodeSelector ──────────────────────── narrowed() ┘
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bulkhead.api.objects import Obj

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
# What a class requires (controlPlane.spread).
REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {"Nodes": (HOSTNAME,), "Zones": (ZONE, HOSTNAME)}
# Taints of a node that is silent. Kubernetes gives a pod that tolerates neither of them 300 s (docs/decisions/0061). The node
# has them with effect NoSchedule, too, which no pod of a plane tolerates: it stays, and none starts there.
AWAY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
AWAY_SECONDS: Final = 30
_MAX_ENTRIES: Final = 32
_TEXT_CHARACTERS: Final = 16_384
_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE: Final = re.compile(rf"({_NAME})?")
_OPERATORS: Final = ("Exists", "Equal")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE: Final = ("ScheduleAnyway", "DoNotSchedule")


class InvalidPlacementError(ValueError):
    """A placement that API servers would reject; the text names the field."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Members of one plane run in different domains of this key. With a hard spread a member waits for a free domain."""

    topology_key: str
    hard: bool = False

    def constraint(self, selector: Obj) -> Obj:
        """The pod's constraint."""
        return {
            "maxSkew": 1,
            "topologyKey": self.topology_key,
            "whenUnsatisfiable": "DoNotSchedule" if self.hard else "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector},
        }


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of the pods of every plane: the plane itself, its DNS and its syncer."""

    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Obj, ...] = ()
    spread: tuple[Spread, ...] = (Spread(HOSTNAME),)

    def narrowed(self, labels: Mapping[str, Any]) -> "Placement":
        """The placement with more node labels; values that it already has stay."""
        both = {str(key): str(value) for key, value in labels.items()} | dict(self.node_selector)
        return replace(self, node_selector=tuple(sorted(both.items())))

    def required(self, spread: str) -> "Placement":
        """The placement with the domains of a class, which members must not share."""
        keys = REQUIRED.get(spread, ())
        hard = tuple(Spread(key, hard=True) for key in keys)
        return replace(self, spread=(*hard, *(found for found in self.spread if found.topology_key not in keys)))

    def contradicted(self, labels: Mapping[str, Any]) -> tuple[str, str, str] | None:
        """The first label with different values here and there, and both values; no node has both. None if there is none."""
        ours = dict(self.node_selector)
        return next(((key, ours[key], str(value)) for key, value in labels.items() if ours.get(key, value) != value), None)

    def of_pod(self) -> Obj:
        """The pod's placement fields; empty if nothing is chosen."""
        chosen: Obj = {"nodeSelector": dict(self.node_selector), "tolerations": list(self.tolerations)}
        return {field: value for field, value in chosen.items() if value}

    def apart(self, selector: Obj) -> list[Obj]:
        """The topology spread constraints for the members of one plane, which the labels select."""
        return [spread.constraint(selector) for spread in self.spread]

    def other_zones(self, selector: Obj) -> Obj:
        """The preference of members for different zones; empty if the installation chooses by zone itself, or nothing at all.

        Not a constraint: with one, the host's scheduler would rank no node that has no zone.
        """
        if not self.spread or any(spread.topology_key == ZONE for spread in self.spread):
            return {}
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": selector}}
        preferred = [{"weight": 100, "podAffinityTerm": term}]
        return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


ANYWHERE: Final = Placement()


def leaving(tolerations: Iterable[Obj]) -> list[Obj]:
    """These tolerations, and those by which a pod leaves a silent node after 30 s; an installation's own ones count instead.

    Only for pods that hold nothing and may run anywhere; all others are `staying`.
    """
    return _and(tolerations, {"tolerationSeconds": AWAY_SECONDS})


def staying(tolerations: Iterable[Obj]) -> list[Obj]:
    """These tolerations, and those by which a pod stays on a silent node; an installation's own ones count instead.

    For pods with a volume. Nothing starts in the place of one before its kubelet has confirmed its end, so an eviction would
    only end it once its node returns. Taint `out-of-service`, by which an admin says that the node is off, is not tolerated.
    """
    return _and(tolerations, {})


def _and(tolerations: Iterable[Obj], limit: Obj) -> list[Obj]:
    own = list(tolerations)
    added: Obj = {"operator": "Exists", "effect": "NoExecute"} | limit
    return own + [{"key": taint} | added for taint in AWAY if not any(_covers(toleration, taint) for toleration in own)]


def _covers(toleration: Obj, taint: str) -> bool:
    """Whether Kubernetes would add no default for this taint: the rule of its admission plugin DefaultTolerationSeconds."""
    return (toleration.get("key") or taint) == taint and toleration.get("effect") in {None, "", "NoExecute"}


def read(text: str) -> Placement:
    """The placement in a JSON object with `nodeSelector`, `tolerations` and `spread`. Raises InvalidPlacementError."""
    if len(text) > _TEXT_CHARACTERS:
        raise InvalidPlacementError(f"must be at most {_TEXT_CHARACTERS} characters")
    try:
        given = json.loads(text or "{}")
    except ValueError as error:
        raise InvalidPlacementError(f"must be JSON: {error}") from error
    _only(given, "", {"nodeSelector", "tolerations", "spread"})
    selector = given.get("nodeSelector") or {}
    _require(isinstance(selector, dict), "nodeSelector", "must be an object")
    _require(len(selector) <= _MAX_ENTRIES, "nodeSelector", f"must have at most {_MAX_ENTRIES} labels")
    for key, value in selector.items():
        _matches(key, _KEY, f"nodeSelector.{key}", "must be the key of a label")
        _matches(value, _VALUE, f"nodeSelector.{key}", "must be a valid value of a label")
    return Placement(
        tuple(sorted(selector.items())),
        tuple(_toleration(toleration, f"tolerations[{at}]") for at, toleration in enumerate(_listed(given, "tolerations"))),
        tuple(_spread(spread, f"spread[{at}]") for at, spread in enumerate(_listed(given, "spread")))
        if "spread" in given
        else ANYWHERE.spread,
    )


def _toleration(given: Any, where: str) -> Obj:
    _only(given, where, {"key", "operator", "value", "effect", "tolerationSeconds"})
    operator = given.get("operator", "Equal")
    _require(operator in _OPERATORS, f"{where}.operator", f"must be one of {', '.join(_OPERATORS)}")
    _require("key" in given or operator == "Exists", where, "must have a key, unless the operator is Exists")
    if "key" in given:
        _matches(given["key"], _KEY, f"{where}.key", "must be the key of a taint")
    if "value" in given:
        _matches(given["value"], _VALUE, f"{where}.value", "must be the value of a taint")
        _require(operator == "Equal" or not given["value"], f"{where}.value", "is not allowed with operator Exists")
    _require(given.get("effect", _EFFECTS[0]) in _EFFECTS, f"{where}.effect", f"must be one of {', '.join(_EFFECTS)}")
    if "tolerationSeconds" in given:
        seconds = given["tolerationSeconds"]
        _require(
            isinstance(seconds, int) and not isinstance(seconds, bool), f"{where}.tolerationSeconds", "must be a whole number"
        )
        _require(given.get("effect") == "NoExecute", f"{where}.tolerationSeconds", "is allowed only with effect NoExecute")
    return dict(given)


def _spread(given: Any, where: str) -> Spread:
    _only(given, where, {"topologyKey", "whenUnsatisfiable"})
    _matches(given.get("topologyKey"), _KEY, f"{where}.topologyKey", "must be the key of a label")
    when = given.get("whenUnsatisfiable", _UNSATISFIABLE[0])
    _require(when in _UNSATISFIABLE, f"{where}.whenUnsatisfiable", f"must be one of {', '.join(_UNSATISFIABLE)}")
    return Spread(given["topologyKey"], hard=when == "DoNotSchedule")


def _listed(given: Obj, name: str) -> list[Any]:
    found = given.get(name) or []
    _require(isinstance(found, list), name, "must be a list")
    _require(len(found) <= _MAX_ENTRIES, name, f"must have at most {_MAX_ENTRIES} entries")
    return list(found)


def _only(given: Any, where: str, known: set[str]) -> None:
    _require(isinstance(given, dict), where, "must be an object")
    unknown = sorted(given.keys() - known)
    _require(not unknown, where, f"has no field {', '.join(unknown)}, only {', '.join(sorted(known))}")


def _matches(given: Any, pattern: re.Pattern[str], where: str, otherwise: str) -> None:
    _require(isinstance(given, str) and pattern.fullmatch(given) is not None, where, otherwise)


def _require(holds: object, where: str, otherwise: str) -> None:
    if not holds:
        raise InvalidPlacementError(f"{where}: {otherwise}" if where else otherwise)
