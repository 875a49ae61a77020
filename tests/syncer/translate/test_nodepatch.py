"""A virtual node that was patched is as it should be, keeps what the tenant put there, and needs no other patch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.translate import mergepatch
from syncer.translate.kinds import nodepatch

_LABELS = st.dictionaries(st.sampled_from(["zone", "rack", "mine", "empty"]), st.sampled_from(["", "a", "b"]), max_size=3)
_TAINT = st.builds(
    lambda key, effect: {"key": key, "effect": effect},
    st.sampled_from(["repair", "mine"]), st.sampled_from(["NoSchedule", "NoExecute"]),
)  # fmt: skip
_TAINTS = st.lists(_TAINT, max_size=3, unique_by=lambda each: f"{each['key']}:{each['effect']}")
_STATUS = st.fixed_dictionaries(
    {"capacity": st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.sampled_from(["0", "8"])), "conditions": st.just([])}
)
_SPEC = st.fixed_dictionaries(
    {}, optional={"taints": _TAINTS, "unschedulable": st.booleans(), "podCIDR": st.just("10.0.0.0/24")}
)


def _desired(labels: dict[str, str], spec: dict[str, Any], status: dict[str, Any]) -> Obj:
    wanted = {key: value for key, value in spec.items() if key != "podCIDR" and value}
    return {"metadata": {"name": "n", "labels": labels | {marks.PLATFORM: "true"}}, "spec": wanted, "status": status}


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), value)
    return found


@given(_LABELS, _SPEC, _STATUS, st.builds(_desired, _LABELS, _SPEC, _STATUS))
def test_one_patch_of_each_sort_is_enough(labels: dict[str, str], spec: Obj, status: Obj, desired: Obj) -> None:
    virtual: Obj = {
        "metadata": {"name": "n", "labels": labels, "resourceVersion": "7"},
        "spec": spec,
        "status": status | {"daemon": "theirs"},
    }
    body = nodepatch.object_patch(virtual, desired)
    assert "spec" not in body or body["metadata"]["resourceVersion"] == "7"
    patched = _merged(virtual, body | {"status": nodepatch.status_patch(virtual, desired)})
    assert nodepatch.object_patch(patched, desired) == nodepatch.status_patch(patched, desired) == {}
    assert mergepatch.between(patched["metadata"]["labels"], labels | desired["metadata"]["labels"]) == {}
    assert patched["status"] == _merged(virtual["status"], {"capacity": None}) | desired["status"]
    assert patched["spec"].get("podCIDR") == spec.get("podCIDR")
    names = {f"{each['key']}:{each['effect']}" for each in patched["spec"].get("taints") or ()}
    assert names >= {f"{each['key']}:{each['effect']}" for each in desired["spec"].get("taints") or ()}
    assert names >= {f"{each['key']}:{each['effect']}" for each in spec.get("taints") or ()}
    assert bool(patched["spec"].get("unschedulable")) is bool(desired["spec"].get("unschedulable") or spec.get("unschedulable"))


_HELD: Obj = {"capacity": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}], "addresses": []}


@pytest.mark.parametrize(
    "wanted",
    [
        {"capacity": {"cpu": "8"}, "addresses": None},
        {"capacity": {"cpu": "8"}, "volumesInUse": []},
        {"capacity": {"cpu": "8"}, "nodeInfo": {}, "images": None},
        {"conditions": [{"type": "Ready", "status": "True", "message": ""}]},
    ],
)
def test_a_status_with_the_same_meaning_is_not_patched(wanted: Obj) -> None:
    """An API server drops what is empty: sent again and again it would be a write a second for each node of each tenant."""
    virtual = {"metadata": {"name": "n"}, "status": _HELD}
    assert nodepatch.status_patch(virtual, {"status": wanted}) == {}
    # The controls: a field that is set, and a field that is no longer set.
    assert nodepatch.status_patch(virtual, {"status": wanted | {"phase": "Running"}})["phase"] == "Running"
    assert nodepatch.status_patch(virtual, {"status": wanted | {"capacity": {}}})["capacity"] == {"cpu": None}
    assert nodepatch.status_patch({"metadata": {"name": "n"}}, {"status": {"images": []}}) == {}
