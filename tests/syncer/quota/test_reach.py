"""The endpoints of a tenant's Services: kept up one change at a time, and the same as a count of everything."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.labels import VIRTUAL_NAME, VIRTUAL_NAMESPACE
from bulkhead.kube.objects import Key
from syncer.quota.reach import Labels, Reach, Target, target_of
from syncer.translate.metadata import NAMESPACE_HASH

KEYS = [Key("work", name) for name in "abcd"]
LABELS = st.fixed_dictionaries(
    {NAMESPACE_HASH: st.sampled_from("xy")}, optional={name: st.sampled_from("12") for name in "pqr"}
)
TARGETS = st.builds(Target, st.just("team/web"), LABELS | st.just({}), st.integers(0, 5))
CHANGES = st.lists(
    st.tuples(st.just("pod"), st.sampled_from(KEYS), LABELS | st.none())
    | st.tuples(st.just("target"), st.sampled_from(KEYS), TARGETS | st.none())
)


def counted(targets: dict[Key, Target], pods: dict[Key, Labels]) -> int:
    """The endpoints, by the rule that the host's proxies follow."""
    return sum(
        max(1, target.ports)
        * max(1, sum(bool(target.selector) and target.selector.items() <= labels.items() for labels in pods.values()))
        for target in targets.values()
    )


@given(CHANGES)
def test_the_total_is_what_a_count_of_everything_gives_and_so_is_each_forecast(changes: list[tuple[str, Key, Any]]) -> None:
    reach, targets, pods = Reach(), dict[Key, Target](), dict[Key, Labels]()
    for kind, key, now in changes:
        if now is not None:
            forecast = reach.with_pod(key, now) if kind == "pod" else reach.with_target(key, now)
        held: dict[Key, Any] = pods if kind == "pod" else targets
        held.pop(key, None)
        if now is not None:
            held[key] = now
        (reach.set_pod if kind == "pod" else reach.set_target)(key, now)
        assert reach.total == counted(targets, pods)
        if now is not None:
            assert forecast == reach.total
    for key in KEYS:
        assert reach.target(key) == targets.get(key)
        assert reach.labels(key) == pods.get(key)
        reach.set_pod(key, None)
        reach.set_target(key, None)
    assert reach.total == 0
    assert not any(getattr(reach, name) for name in ("_targets", "_selected", "_pods", "_targets_in", "_pods_in"))


def test_what_counts_of_a_host_service() -> None:
    noted = {VIRTUAL_NAMESPACE: "team", VIRTUAL_NAME: "web"}
    spec = {"selector": {"app": "web"}, "ports": [{"port": 1}, {"port": 2}]}
    assert target_of({"metadata": {"annotations": noted}, "spec": spec}) == Target("team/web", {"app": "web"}, 2)
    assert target_of({"metadata": {}}) == Target("/", {}, 0)
    headless = Target("team/peers", {"app": "web"}, 0)
    assert headless.endpoints(0) == 1
    assert headless.endpoints(64) == 64


def test_the_service_with_most_ports_is_named_first() -> None:
    reach = Reach()
    selector = {NAMESPACE_HASH: "x", "app": "web"}
    for key, name, ports in zip(KEYS, ("few", "many", "also", "other"), (1, 9, 1, 99), strict=True):
        reach.set_target(key, Target(name, selector if name != "other" else {NAMESPACE_HASH: "y"}, ports))
    assert [target.name for target in reach.selecting(selector | {"tier": "1"})] == ["many", "also", "few"]
