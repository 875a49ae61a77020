"""Which pods an upgrade replaced, as the upgrade's tests tell it from what they saw before and after."""

from e2e.scenarios.upgrade import seen


def pod(name: str, container: str = "c-1", restarts: int = 0, part: str = "plane") -> seen.Running:
    status = {"name": "main", "containerID": container, "restartCount": restarts}
    labels = {"bulkhead.dev/component": part} if part != seen.WORK else {}
    found = seen.read("team-a", {"metadata": {"name": name, "labels": labels}, "status": {"containerStatuses": [status]}})
    assert found.part == part
    return found


def test_unchanged_pods_were_not_replaced_and_new_pods_do_not_count() -> None:
    before = {"u-1": pod("plane-0"), "u-2": pod("web", part=seen.WORK)}
    assert seen.replaced(before, before | {"u-3": pod("new")}) == []


def test_a_pod_that_is_gone_has_other_containers_or_was_restarted_is_named() -> None:
    before = {"u-1": pod("plane-0"), "u-2": pod("web", part=seen.WORK), "u-3": pod("dns"), "u-4": pod("same")}
    after = {"u-2": pod("web", "c-2", part=seen.WORK), "u-3": pod("dns", restarts=1), "u-4": pod("same"), "u-9": pod("plane-0")}
    assert seen.replaced(before, after) == [
        "team-a: plane dns has other containers",
        "team-a: plane plane-0 is gone",
        "team-a: work web has other containers",
    ]


def test_parts_that_may_be_replaced_are_left_out() -> None:
    before = {"u-1": pod("syncer-x", part=seen.SYNCER), "u-2": pod("plane-0")}
    assert seen.replaced(before, {}, but=(seen.SYNCER,)) == ["team-a: plane plane-0 is gone"]
