"""Where the pods of planes may run: what is read is what a pod can have, and nothing chosen leaves pods as they were."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.objects import Obj
from controller.decide.planespec import plane_of
from controller.plane import restoring
from controller.plane.placement import (
    ANYWHERE,
    AWAY,
    HOSTNAME,
    ZONE,
    InvalidPlacementError,
    Placement,
    Spread,
    leaving,
    read,
    staying,
)
from controller.plane.render import render
from controller.plane.sections import Restoring
from controller.settings import Settings, SettingsError, load
from syncer.translate.podspec.tolerations import tolerates
from tests.kit.tenantsamples import case, material, plane_spec, tenant, tenant_class

SOMEWHERE = Placement(
    (("pool", "planes"),),
    ({"key": "planes", "operator": "Exists"},),
    (Spread("topology.kubernetes.io/zone"), Spread(HOSTNAME, hard=True)),
)

NOT_READY, UNREACHABLE = AWAY
STAYS = [{"key": taint, "operator": "Exists", "effect": "NoExecute"} for taint in AWAY]
SOON = [toleration | {"tolerationSeconds": 30} for toleration in STAYS]


def pods(**changes: Any) -> list[Obj]:
    spec = plane_spec(**changes)
    made = render(spec, material(spec)).everything()
    return [obj["spec"]["template"]["spec"] for obj in made if obj["kind"] in {"StatefulSet", "Deployment"}]


def test_every_pod_of_a_plane_is_placed() -> None:
    placed = pods(control_plane={"placement": SOMEWHERE})
    assert len(placed) == 3
    for pod in placed:
        assert pod["nodeSelector"] == {"pool": "planes"}
        assert pod["tolerations"][0] == {"key": "planes", "operator": "Exists"}


DEFAULTS = json.dumps({"nodeSelector": {}, "tolerations": [], "spread": [{"topologyKey": HOSTNAME}]})


@pytest.mark.parametrize("text", ["", "{}", DEFAULTS])
def test_nothing_chosen_leaves_every_pod_as_it_was(text: str) -> None:
    for replicas in (1, 3):
        assert pods(control_plane={"replicas": replicas, "placement": read(text)}) == pods(control_plane={"replicas": replicas})
    assert not any("nodeSelector" in pod for pod in pods(control_plane={"placement": read(text)}))


def test_syncer_and_dns_leave_a_silent_node_soon_and_a_plane_with_its_volume_stays() -> None:
    for replicas in (1, 3):
        plane, *others = pods(control_plane={"replicas": replicas})
        assert plane["tolerations"] == STAYS
        assert [pod["tolerations"] for pod in others] == [SOON, SOON]


def test_a_pod_that_fills_a_planes_volume_stays_on_a_silent_node_as_the_plane_does() -> None:
    """A ReplicaSet does not count an evicted pod, so there would be two at one volume."""
    for replicas in (1, 3):
        spec = plane_spec(control_plane={"replicas": replicas}, restoring=Restoring("uid", 1, 1, filling=True))
        filling = [obj["spec"]["template"]["spec"] for obj in restoring.deployments(spec)]
        assert [pod["tolerations"] for pod in filling] == [STAYS] * replicas


def test_every_pod_leaves_a_node_that_is_out_of_service_and_none_starts_on_a_silent_one() -> None:
    by_admin = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    for pod in pods():
        for taint in (by_admin, *({"key": away, "effect": "NoSchedule"} for away in AWAY)):
            assert not any(tolerates(toleration, taint) for toleration in pod["tolerations"])


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ({"key": "planes", "operator": "Exists"}, SOON),
        ({"operator": "Exists"}, []),
        ({"key": "", "operator": "Exists", "effect": "NoExecute"}, []),
        ({"operator": "Exists", "effect": "NoSchedule"}, SOON),
        ({"key": NOT_READY, "operator": "Exists"}, SOON[1:]),
        ({"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}, SOON),
        ({"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, SOON[:1]),
    ],
)
def test_an_installations_own_word_on_silent_nodes_counts(own: Obj, added: list[Obj]) -> None:
    stays = [{key: value for key, value in toleration.items() if key != "tolerationSeconds"} for toleration in added]
    assert leaving([own]) == [own, *added]
    assert staying([own]) == [own, *stays]
    plane, *_, syncer = pods(control_plane={"placement": Placement(tolerations=(own,))})
    assert syncer["tolerations"] == [own, *added]
    assert plane["tolerations"] == [own, *stays]


def test_members_of_a_plane_lie_apart_and_a_single_one_has_nothing_to_lie_apart_from() -> None:
    plane = pods(control_plane={"placement": SOMEWHERE, "replicas": 3})[0]
    said = [(constraint["topologyKey"], constraint["whenUnsatisfiable"]) for constraint in plane["topologySpreadConstraints"]]
    assert said == [("topology.kubernetes.io/zone", "ScheduleAnyway"), (HOSTNAME, "DoNotSchedule")]
    assert not any("topologySpreadConstraints" in pod for pod in pods(control_plane={"placement": SOMEWHERE}))
    assert "topologySpreadConstraints" not in pods(control_plane={"placement": Placement(spread=()), "replicas": 3})[0]


def test_a_class_may_require_that_members_lie_apart_whatever_the_installation_prefers() -> None:
    def required(spread: str) -> list[tuple[str, bool]]:
        found = plane_of(case(tenant(), tenant_class(controlPlane={"spread": spread}), Settings())).control_plane.placement
        return [(one.topology_key, one.hard) for one in found.spread]

    assert required("Preferred") == [(HOSTNAME, False)]
    assert required("Nodes") == [(HOSTNAME, True)]
    assert required("Zones") == [(ZONE, True), (HOSTNAME, True)]


def test_members_prefer_different_zones_unless_that_is_decided_already() -> None:
    def zones(placement: Placement) -> Any:
        return pods(control_plane={"placement": placement, "replicas": 3})[0].get("affinity")

    (preferred,) = zones(ANYWHERE)["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["podAffinityTerm"]["topologyKey"] == ZONE
    assert zones(ANYWHERE.required("Zones")) is None
    assert zones(Placement(spread=())) is None
    assert "affinity" not in pods(control_plane={"placement": ANYWHERE})[0]


def test_a_class_narrows_and_never_widens() -> None:
    settings = Settings(plane_placement=Placement((("pool", "planes"),)))
    narrowed = plane_of(case(tenant(), tenant_class(controlPlane={"nodeSelector": {"disk": "fast"}}), settings))
    assert narrowed.control_plane.placement.node_selector == (("disk", "fast"), ("pool", "planes"))
    # Such a class is refused to new tenants; one that runs stays where the installation says.
    wider = plane_of(case(tenant(), tenant_class(controlPlane={"nodeSelector": {"pool": "gpu"}}), settings))
    assert wider.control_plane.placement.node_selector == (("pool", "planes"),)
    # A Tenant has no such field; one that reaches the controller all the same has no effect.
    own = plane_of(case(tenant(controlPlane={"nodeSelector": {"disk": "slow"}}), tenant_class(), settings))
    assert own.control_plane.placement.node_selector == (("pool", "planes"),)


WRONG = {
    "no JSON": "{",
    "no object": "[]",
    "a number": "1",
    "of too much text": json.dumps({"nodeSelector": {"a": "b" * 20_000}}),
    "too deep": "[" * 10_000,
    "has no field": '{"affinity": {}}',
    "nodeSelector: must be an object": '{"nodeSelector": [1]}',
    "nodeSelector: must have at most 32 labels": json.dumps({"nodeSelector": {f"k{n}": "v" for n in range(40)}}),
    "nodeSelector.a b: must be the key of a label": '{"nodeSelector": {"a b": "c"}}',
    "nodeSelector.a: must be a valid value": '{"nodeSelector": {"a": true}}',
    "tolerations: must be a list": '{"tolerations": {"key": "x"}}',
    "tolerations: must have at most 32 entries": json.dumps({"tolerations": [{"operator": "Exists"}] * 33}),
    "tolerations[0]: must be an object": '{"tolerations": ["x"]}',
    "tolerations[0]: must have a key": '{"tolerations": [{}]}',
    "tolerations[0].operator": '{"tolerations": [{"key": "x", "operator": "In"}]}',
    "tolerations[0].value: is not allowed with operator": '{"tolerations": [{"key": "x", "operator": "Exists", "value": "y"}]}',
    "tolerations[0].effect": '{"tolerations": [{"key": "x", "effect": ["NoSchedule"]}]}',
    "tolerations[0].tolerationSeconds: is allowed only with": '{"tolerations": [{"key": "x", "tolerationSeconds": 3}]}',
    "tolerations[0].tolerationSeconds: must be a whole number": json.dumps(
        {"tolerations": [{"key": "x", "effect": "NoExecute", "tolerationSeconds": True}]}
    ),
    "spread[0]: has no field maxSkew, only": '{"spread": [{"topologyKey": "x", "maxSkew": 1}]}',
    "spread[0].topologyKey": '{"spread": [{}]}',
    "spread[0].whenUnsatisfiable": '{"spread": [{"topologyKey": "x", "whenUnsatisfiable": "Never"}]}',
}


@pytest.mark.parametrize("said", WRONG)
def test_a_placement_that_no_pod_can_have_stops_the_controller_and_is_named(said: str) -> None:
    with pytest.raises(SettingsError, match="BULKHEAD_PLANE_PLACEMENT") as refused:
        load({"BULKHEAD_PLANE_PLACEMENT": WRONG[said]})
    if ":" in said or "." in said:
        assert said in str(refused.value)


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["key", "operator", "value", "effect", "topologyKey", "a"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["nodeSelector", "tolerations", "spread"]), _anything))
def test_anything_is_a_placement_or_refused(asked: Obj) -> None:
    try:
        made = read(json.dumps(asked))
    except InvalidPlacementError:
        return
    assert all(isinstance(value, str) for pair in made.node_selector for value in pair)
    assert json.dumps(made.of_pod())
