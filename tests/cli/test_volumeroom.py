"""Whether volumes have room for a snapshot, with the figures of the pod that fills them."""

import pytest

from bulkhead.api.objects import Obj
from controller.restores import fill
from workstation.cli.tenant import volumeroom
from workstation.cli.tenant.volumeroom import of_new, of_present, sized

MIB = 1 << 20
STORE = 500 * MIB


def claim(size: object, name: str = "data-plane-0") -> Obj:
    return {"metadata": {"name": name}, "status": {"capacity": {"storage": size}}}


def offer(size: str, most: str = "") -> Obj:
    return {"controlPlane": {"storage": {"size": size} | ({"maxSize": most} if most else {})}}


@pytest.mark.parametrize(
    ("size", "discard", "fits"), [("1660Mi", False, True), ("1659Mi", False, False), ("1160Mi", True, True)]
)
def test_a_present_volume_has_room_for_its_data_the_file_and_what_is_made_of_it(size: str, discard: bool, fits: bool) -> None:
    found = of_present([claim(size)], STORE, discard=discard)
    assert (found == []) == fits
    assert all("1660 are needed: raise controlPlane.storage.size, or give up" in words for words in found)
    assert (
        of_present(
            [claim("1Mi", "other"), claim("??"), claim(None), {"metadata": {"name": "data-plane-1"}}], STORE, discard=True
        )
        == []
    )


def test_a_clone_needs_three_times_the_store_and_a_tenant_made_again_two() -> None:
    for clone, copies, needed in ((True, 3, 1793), (False, 2, 1253)):
        assert of_new({}, offer(f"{needed}Mi", "4Gi"), STORE, clone=clone) == []
        (words,) = of_new({}, offer(f"{needed - 1}Mi", "4Gi"), STORE, clone=clone)
        assert f"its volumes have {needed - 1}Mi, and {needed} MiB are needed ({copies} times the store of 500 MiB" in words
        assert words.endswith("--storage 2Gi")


def test_the_tenants_own_size_counts_before_that_of_its_class() -> None:
    assert of_new(sized({"class": "small"}, "4Gi"), offer("1Gi", "4Gi"), STORE, clone=True) == []
    (words,) = of_new(sized({}, "1Gi"), offer("8Gi"), STORE, clone=True)
    assert "its volumes have 1Gi" in words
    assert of_new({}, {}, STORE, clone=True) == [], "a class that says nothing gives 2Gi"


def test_what_the_class_does_not_allow_is_said_with_its_remedy() -> None:
    (words,) = of_new({}, offer("1Gi"), STORE, clone=True)
    assert "--storage 2Gi; its class allows 1Gi, so raise controlPlane.storage.maxSize there first" in words
    assert of_new(sized({}, "4Gi"), offer("1Gi", "2Gi"), STORE, clone=True) == [
        "its volumes would have 4Gi, and its class allows 2Gi (controlPlane.storage.maxSize)"
    ]


@pytest.mark.parametrize(
    "damaged", [{"controlPlane": 3}, {"controlPlane": {"storage": []}}, {"controlPlane": {"storage": {"size": {}}}}]
)
def test_a_damaged_spec_of_a_snapshot_is_not_a_crash(damaged: Obj) -> None:
    assert of_new(damaged, {}, STORE, clone=True) == []
    assert sized(damaged, "4Gi")["controlPlane"]["storage"]["size"] == "4Gi"


def test_only_the_size_changes() -> None:
    spec = {"class": "a", "controlPlane": {"replicas": 3, "storage": {"className": "fast", "size": "1Gi"}}}
    assert sized(spec, "") == spec
    assert sized(spec, "4Gi") == {
        "class": "a",
        "controlPlane": {"replicas": 3, "storage": {"className": "fast", "size": "4Gi"}},
    }


def test_the_command_and_the_pod_that_fills_a_volume_want_the_same_room() -> None:
    """The program of that pod imports nothing of ours, so the figure is there twice."""
    assert volumeroom._LOG_BYTES == fill._LOG_BYTES
