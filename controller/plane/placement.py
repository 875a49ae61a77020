"""Where the host's scheduler may put the pods of planes, and how the members of one plane lie apart.

Pure. The chart's values `planes` come in as JSON and are judged here, because a field that no API server takes would stop the
upkeep of every tenant at once. With nothing chosen a pod is rendered as if there were no placement: a default that changed
pods would restart every plane.

    values `planes` ──> BULKHEAD_PLANE_PLACEMENT (JSON) ──> read() ──> Placement ──> of_pod(), apart()
    a class's controlPlane.nodeSelector ──────────────────────── narrowed() ┘
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bulkhead.api.objects import Obj

HOSTNAME: Final = "kubernetes.io/hostname"
_MOST_ENTRIES: Final = 32
_TEXT_CHARACTERS: Final = 16_384
_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE: Final = re.compile(rf"({_NAME})?")
_OPERATORS: Final = ("Exists", "Equal")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE: Final = ("ScheduleAnyway", "DoNotSchedule")


class InvalidPlacementError(ValueError):
    """A placement that no pod could have; the text names the field."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Members of one plane lie in different places of this key; a hard spread rather leaves a member waiting."""

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
    """What holds for the pods of every plane: of the plane itself, its DNS and its syncer."""

    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Obj, ...] = ()
    spread: tuple[Spread, ...] = (Spread(HOSTNAME),)

    def narrowed(self, labels: Mapping[str, Any]) -> "Placement":
        """With more labels that a node must carry; a value that is here already stays."""
        both = {str(key): str(value) for key, value in labels.items()} | dict(self.node_selector)
        return replace(self, node_selector=tuple(sorted(both.items())))

    def contradicted(self, labels: Mapping[str, Any]) -> tuple[str, str, str] | None:
        """A label with its value here and its other value there: no node has both."""
        ours = dict(self.node_selector)
        return next(((key, ours[key], str(value)) for key, value in labels.items() if ours.get(key, value) != value), None)

    def of_pod(self) -> Obj:
        """The fields of a pod that follow; none where nothing is chosen."""
        chosen: Obj = {"nodeSelector": dict(self.node_selector), "tolerations": list(self.tolerations)}
        return {field: value for field, value in chosen.items() if value}

    def apart(self, selector: Obj) -> list[Obj]:
        """How the members of one plane, which the labels select, lie apart."""
        return [spread.constraint(selector) for spread in self.spread]


ANYWHERE: Final = Placement()


def read(text: str) -> Placement:
    """The placement of a JSON object with `nodeSelector`, `tolerations` and `spread`; what is left out keeps its default."""
    if len(text) > _TEXT_CHARACTERS:
        raise InvalidPlacementError(f"is longer than {_TEXT_CHARACTERS} characters")
    try:
        given = json.loads(text or "{}")
    except ValueError as error:
        raise InvalidPlacementError(f"is no JSON: {error}") from error
    _only(given, "", {"nodeSelector", "tolerations", "spread"})
    selector = given.get("nodeSelector") or {}
    _require(isinstance(selector, dict), "nodeSelector", "is no object")
    _require(len(selector) <= _MOST_ENTRIES, "nodeSelector", f"has more than {_MOST_ENTRIES} labels")
    for key, value in selector.items():
        _matches(key, _KEY, f"nodeSelector.{key}", "is no label")
        _matches(value, _VALUE, f"nodeSelector.{key}", "has a value that no label can have")
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
    _require(operator in _OPERATORS, f"{where}.operator", f"is none of {', '.join(_OPERATORS)}")
    _require("key" in given or operator == "Exists", where, "has no key, which only the operator Exists may leave out")
    if "key" in given:
        _matches(given["key"], _KEY, f"{where}.key", "is no key of a taint")
    if "value" in given:
        _matches(given["value"], _VALUE, f"{where}.value", "is no value of a taint")
        _require(operator == "Equal" or not given["value"], f"{where}.value", "is not for the operator Exists")
    _require(given.get("effect", _EFFECTS[0]) in _EFFECTS, f"{where}.effect", f"is none of {', '.join(_EFFECTS)}")
    if "tolerationSeconds" in given:
        seconds = given["tolerationSeconds"]
        _require(isinstance(seconds, int) and not isinstance(seconds, bool), f"{where}.tolerationSeconds", "is no whole number")
        _require(given.get("effect") == "NoExecute", f"{where}.tolerationSeconds", "is for the effect NoExecute alone")
    return dict(given)


def _spread(given: Any, where: str) -> Spread:
    _only(given, where, {"topologyKey", "whenUnsatisfiable"})
    _matches(given.get("topologyKey"), _KEY, f"{where}.topologyKey", "is no label")
    when = given.get("whenUnsatisfiable", _UNSATISFIABLE[0])
    _require(when in _UNSATISFIABLE, f"{where}.whenUnsatisfiable", f"is none of {', '.join(_UNSATISFIABLE)}")
    return Spread(given["topologyKey"], hard=when == "DoNotSchedule")


def _listed(given: Obj, name: str) -> list[Any]:
    found = given.get(name) or []
    _require(isinstance(found, list), name, "is no list")
    _require(len(found) <= _MOST_ENTRIES, name, f"has more than {_MOST_ENTRIES} entries")
    return list(found)


def _only(given: Any, where: str, known: set[str]) -> None:
    _require(isinstance(given, dict), where, "is no object")
    unknown = sorted(given.keys() - known)
    _require(not unknown, where, f"knows no {', '.join(unknown)}: {', '.join(sorted(known))}")


def _matches(given: Any, pattern: re.Pattern[str], where: str, otherwise: str) -> None:
    _require(isinstance(given, str) and pattern.fullmatch(given) is not None, where, otherwise)


def _require(holds: object, where: str, otherwise: str) -> None:
    if not holds:
        raise InvalidPlacementError(f"{where}: {otherwise}" if where else otherwise)
