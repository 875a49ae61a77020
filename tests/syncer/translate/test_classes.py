"""Classes of the host in the plane: what is shown, and what is written for it."""

from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.api import storageclass
from bulkhead.api.objects import Obj
from syncer.translate.kinds import classes

STORAGE = classes.OFFERS["StorageClass"]
PRIORITY = classes.OFFERS["PriorityClass"]
RUNTIME = classes.OFFERS["RuntimeClass"]
DEFAULT = {"annotations": {classes.DEFAULT_STORAGE_CLASS: "true"}}


def host(name: str, meta: Any = None, **fields: Any) -> Obj:
    return {"metadata": {"name": name, **(meta or {})}, **fields}


def there(offer: classes.Offer, obj: Obj) -> Obj:
    """A class as the plane keeps it after we made it."""
    shown = offer.shown(obj)
    return shown | {"metadata": shown["metadata"] | {"uid": "1", "resourceVersion": "7"}}


def verbs(offer: classes.Offer, wanted: list[Obj], held: list[Obj]) -> list[tuple[str, str]]:
    return [(step.verb, step.name) for step in classes.steps(offer, wanted, held)]


def test_item_35_without_a_list_the_hosts_default_class_is_offered() -> None:
    hosts = [host("fast"), host("local", DEFAULT)]
    assert [each["metadata"]["name"] for each in classes.offered_storage(hosts, frozenset())] == ["local"]
    assert [each["metadata"]["name"] for each in classes.offered_storage(hosts, frozenset({"fast"}))] == ["fast"]
    assert len(classes.offered_storage(hosts, frozenset({"*"}))) == 2


def test_the_older_mark_of_a_default_class_counts_as_on_a_host() -> None:
    older = {"annotations": {storageclass.BETA_DEFAULT: "true"}}
    neither = {"annotations": {storageclass.BETA_DEFAULT: "false", classes.DEFAULT_STORAGE_CLASS: "no"}}
    (found,) = classes.offered_storage([host("fast", neither), host("local", older)], frozenset())
    assert classes.default_storage([found]) == "local"
    assert STORAGE.shown(found)["metadata"]["annotations"] == {classes.DEFAULT_STORAGE_CLASS: "true"}


def test_item_45_46_priority_and_runtime_classes_are_offered_by_name_only() -> None:
    hosts = [host("batch", value=10), host("system-node-critical", value=2_000_001_000), host("other", value=1)]
    assert classes.offered(hosts, frozenset()) == []
    assert [each["metadata"]["name"] for each in classes.offered(hosts, frozenset({"*"}))] == ["batch", "other"]
    shown = PRIORITY.shown(host("batch", value=1_500_000_000, globalDefault=True, description="of the host"))
    assert (shown["value"], shown["globalDefault"]) == (1_000_000_000, False)
    assert "description" not in shown
    runtime = RUNTIME.shown(host("kata", handler="kata-qemu", scheduling={"nodeSelector": {"a": "b"}}, overhead={}))
    assert set(runtime) == {"apiVersion", "kind", "metadata", "handler"}


def test_item_46_a_class_of_the_tenants_own_stands_for_an_offered_one_of_its_handler() -> None:
    hosts = [host("nvidia-b", handler="nvidia"), host("nvidia-a", handler="nvidia"), host("kata", handler="kata")]
    theirs = [host("mine", handler="nvidia"), host("other", handler="runc"), host("empty"), RUNTIME.shown(hosts[0])]
    assert classes.runtime_aliases(hosts, theirs) == {"mine": "nvidia-a"}
    assert classes.runtime_aliases([], theirs) == {}


def test_item_35_parameters_of_the_hosts_storage_are_not_shown() -> None:
    shown = STORAGE.shown(host("fast", DEFAULT, provisioner="p", parameters={"secret": "x"}, mountOptions=["y"]))
    assert not {"parameters", "mountOptions"} & set(shown)
    assert shown["metadata"]["labels"] == {marks.PLATFORM: "true"}


def test_what_agrees_needs_no_step() -> None:
    for offer, obj in ((STORAGE, host("a", DEFAULT, provisioner="p")), (PRIORITY, host("b", value=1)), (RUNTIME, host("c"))):
        assert verbs(offer, [obj], [there(offer, obj)]) == []


@pytest.mark.parametrize(
    ("changed", "verb"),
    [
        ({"provisioner": "mine"}, "replace"),
        ({"volumeBindingMode": "WaitForFirstConsumer"}, "replace"),
        ({"allowVolumeExpansion": True}, "patch"),
        ({"parameters": {"a": "b"}}, "patch"),
        ({"metadata": {"name": "a", "labels": {marks.PLATFORM: "true"}}}, "patch"),
    ],
)
def test_what_the_tenant_changed_is_set_right(changed: Obj, verb: str) -> None:
    wanted = host("a", DEFAULT, provisioner="p")
    assert verbs(STORAGE, [wanted], [there(STORAGE, wanted) | changed]) == [(verb, "a")]


def test_what_a_tenant_writes_into_a_device_class_of_the_hosts_is_taken_out() -> None:
    """In a merge patch an empty spec changes nothing: it would be written for ever."""
    offer = classes.OFFERS["DeviceClass"]
    changed = there(offer, host("gpu")) | {"spec": {"extendedResourceName": "nvidia.com/gpu"}}
    (step,) = classes.steps(offer, [host("gpu")], [changed])
    assert (step.verb, step.body) == ("patch", {"spec": {"extendedResourceName": None}})
    assert verbs(offer, [host("gpu")], [there(offer, host("gpu"))]) == []


def test_classes_come_and_go_with_the_offer_and_the_tenants_own_stay() -> None:
    own = host("mine", provisioner="tenant.example/x")
    old = there(STORAGE, host("old", provisioner="p"))
    assert verbs(STORAGE, [host("new", provisioner="p"), host("mine", provisioner="p")], [own, old]) == [
        ("create", "new"),
        ("delete", "old"),
    ]
