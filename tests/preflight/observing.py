"""What was seen of a cluster, from YAML: `{unseen: REASON}` in place of anything that could not be read."""

import copy
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.kit import yamlfiles
from workstation.preflight.facts import Observed, Phases, Probed, Pull, Unseen
from workstation.preflight.values import Values, merged, parse

_HERE = Path(__file__).parent


def healthy() -> dict[str, Any]:
    """The cluster that has nothing wrong."""
    return dict(yamlfiles.load(_HERE / "healthy.yaml"))


def changed(below: Any, above: Any) -> Any:
    """`above` over `below`; lists and all other values that are not mappings are replaced."""
    if not isinstance(below, dict) or not isinstance(above, dict) or "unseen" in above:
        return copy.deepcopy(above)
    return {**below, **{key: changed(below.get(key), value) for key, value in above.items()}}


def observed(tree: Mapping[str, Any]) -> tuple[Observed, Values]:
    """The facts and the values of a tree."""
    values = parse(merged([tree["values"]]))
    there = tree["there"]
    return Observed(
        here=_time(tree["here"]),
        there=_time(there) if there else None,
        namespace=tree["namespace"],
        version=tree["version"],
        groups={name: _seen(each) for name, each in tree["groups"].items()},
        denied=_seen(tree["denied"], tuple),
        lists={name: _seen(each, tuple) for name, each in tree["lists"].items()},
        kubelets={name: _seen(each) for name, each in tree["kubelets"].items()},
        pod_security=_seen(tree["pod_security"]),
        phases=_seen(tree["phases"], lambda each: Phases(**each)),
        probes={name: _probed(each) for name, each in tree["probes"].items() if each},
        claims={name: _probed(each) for name, each in tree["claims"].items() if each},
        secrets=tree["secrets"],
        pulls=_seen(tree["pulls"], lambda found: {name: Pull(**each) for name, each in found.items() if each}),
    ), values


def _time(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def _probed(each: Mapping[str, Any]) -> Probed:
    return Probed(**{**each, "said": tuple(each.get("said", ()))})


def _seen(value: Any, make: Any = lambda each: each) -> Any:
    return Unseen(value["unseen"]) if isinstance(value, dict) and "unseen" in value else make(value)
