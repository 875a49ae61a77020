"""What the policies say to a controller that has every right besides, so that they alone can say no."""

from datetime import timedelta

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from controller.snapshots import schedule
from controller.snapshots.schedule import Plane
from tests.chart.controller.reasons import REASONS
from tests.chart.controller.requests import ALLOWED, LEVEL, MARKS, REFUSED, account, binding, refusal
from tests.kit.tenantsamples import NOW

pytestmark = pytest.mark.apiserver


async def test_the_policies_refuse_what_the_controller_must_not_write(mighty: Client) -> None:
    said = {name: await refusal(mighty, obj) for name, obj in REFUSED.items()}
    assert set(said) == {name for names in REASONS.values() for name in names}
    told = {name: tuple(words for words, names in REASONS.items() if name in names) for name in said}
    assert {name: text for name, text in said.items() if not text.startswith(told[name])} == {}


async def test_the_policies_let_through_what_it_writes(mighty: Client) -> None:
    assert {name: said for name, obj in ALLOWED.items() if (said := await refusal(mighty, obj))} == {}


CHANGES: dict[str, tuple[str, Obj, str]] = {
    "a level removed": ("bh-team-a-work", {"labels": {"pod-security.kubernetes.io/enforce": None}}, "Pod Security is enforced"),
    "a level loosened": ("bh-team-a-work", {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}, "baseline or"),
    "a plane's level loosened": (
        "bh-team-a",
        {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
        "at restricted of",
    ),
    "a version lowered": ("bh-team-a-work", {"labels": {"pod-security.kubernetes.io/enforce-version": "v1.0"}}, "of v1.36"),
    "another's namespace adopted": (
        "bh-somebodys",
        {"labels": MARKS | LEVEL | {"bulkhead.dev/tenant": "somebodys"}},
        "never adopted",
    ),
    "one's given to another": ("bh-team-a-work", {"labels": {"bulkhead.dev/tenant": "team-b"}}, "named after it"),
    "another tenant of the name": ("bh-team-a", {"annotations": {"bulkhead.dev/tenant-uid": "u-2"}}, "never adopted"),
    "a label that others act on": ("bh-team-a-work", {"labels": {"istio-injection": "enabled"}}, "no labels but its own"),
    "the system's": ("kube-system", {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}, "named after it"),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_no_namespace_is_loosened_adopted_or_given_away(name: str, mighty: Client) -> None:
    place, meta, why = CHANGES[name]
    with pytest.raises(ApiError, match=why):
        await mighty.patch(kinds.NAMESPACES, place, {"metadata": meta})


async def test_a_retained_namespace_changes_hands_only_together_with_its_mark(mighty: Client, admin: Client) -> None:
    mark = {labels.RETAINED: "99999999-8888-7777-6666-555555555555"}
    before = (await admin.get(kinds.NAMESPACES, "bh-team-b"))["metadata"]["annotations"][labels.TENANT_UID]
    await mighty.patch(kinds.NAMESPACES, "bh-team-b", {"metadata": {"labels": mark}})
    with pytest.raises(ApiError, match="never adopted"):
        await mighty.patch(kinds.NAMESPACES, "bh-team-b", {"metadata": {"annotations": {labels.TENANT_UID: "u-9"}}})
    taken = {"labels": {labels.RETAINED: None}, "annotations": {labels.TENANT_UID: "u-9"}}
    await mighty.patch(kinds.NAMESPACES, "bh-team-b", {"metadata": taken})
    with pytest.raises(ApiError, match="never adopted"):
        await mighty.patch(kinds.NAMESPACES, "bh-team-b", {"metadata": {"annotations": {labels.TENANT_UID: before}}})
    await admin.patch(kinds.NAMESPACES, "bh-team-b", {"metadata": {"annotations": {labels.TENANT_UID: before}}})


async def test_of_snapshots_it_makes_releases_and_deletes_scheduled_ones_alone(mighty: Client, admin: Client) -> None:
    plane = Plane("team-b", "99999999-8888-7777-6666-555555555555")
    scheduled = [schedule.request(plane, NOW + timedelta(hours=hour)) for hour in (0, 1)]
    names_ = [snapshot["metadata"]["name"] for snapshot in scheduled]
    await mighty.create(kinds.TENANT_SNAPSHOTS, scheduled[0])
    by_hand = scheduled[0] | {"metadata": {"name": "by-hand"}}
    with pytest.raises(ApiError, match="makes no snapshots but scheduled ones"):
        await mighty.create(kinds.TENANT_SNAPSHOTS, by_hand)
    await admin.create(kinds.TENANT_SNAPSHOTS, by_hand)
    scheduled[1]["metadata"]["labels"][labels.KEEP] = "true"
    await admin.create(kinds.TENANT_SNAPSHOTS, scheduled[1])
    for name in ("by-hand", names_[1]):
        with pytest.raises(ApiError, match="deletes no snapshots but scheduled ones"):
            await mighty.delete(kinds.TENANT_SNAPSHOTS, name)
    for meta in ({"labels": {labels.SCHEDULED: plane.identity}}, {"finalizers": ["example.org/held"]}):
        with pytest.raises(ApiError, match="nothing of a snapshot but its own finalizer"):
            await mighty.patch(kinds.TENANT_SNAPSHOTS, "by-hand", {"metadata": meta})
    await mighty.patch(kinds.TENANT_SNAPSHOTS, names_[0], {"metadata": {"finalizers": []}})
    await mighty.delete(kinds.TENANT_SNAPSHOTS, names_[0])
    await admin.patch(kinds.TENANT_SNAPSHOTS, names_[1], {"metadata": {"finalizers": None}})
    for name in ("by-hand", names_[1]):
        await admin.delete(kinds.TENANT_SNAPSHOTS, name)


async def test_a_namespaces_level_is_tightened_and_a_class_may_take_that_back(mighty: Client, admin: Client) -> None:
    await admin.patch(kinds.NAMESPACES, "bh-team-b-work", {"metadata": {"labels": {"of-the-admin": "x"}}})
    for level in ("restricted", "baseline"):
        body = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}, "annotations": {"bulkhead.dev/x": level}}}
        await mighty.patch(kinds.NAMESPACES, "bh-team-b-work", body)
    with pytest.raises(ApiError, match="no labels but its own"):
        await mighty.patch(kinds.NAMESPACES, "bh-team-b-work", {"metadata": {"labels": {"of-the-admin": None}}})


async def test_what_is_not_a_tenants_is_not_deleted(mighty: Client, admin: Client) -> None:
    for place in ("somebodys", "bh-somebodys", "bh-team-a-work"):
        spec = {"containers": [{"name": "x", "image": "x"}]}
        await admin.create(kinds.PODS, {"metadata": {"name": "x", "namespace": place}, "spec": spec})
    # Of one that no syncer has mirrored it is not the maker (test_ledger).
    await admin.delete(kinds.PODS, "x", "bh-team-a-work", grace_seconds=0)
    for place in ("somebodys", "bh-somebodys"):
        with pytest.raises(ApiError, match=r"controller: (writes only in namespaces|of the pods of a tenant)"):
            await mighty.delete(kinds.PODS, "x", place)
    for resource, name, place, words in (
        (kinds.NAMESPACES, "bh-somebodys", None, "deletes only namespaces that are marked"),
        (kinds.NAMESPACES, "bulkhead-system", None, "deletes only namespaces that are marked"),
        (kinds.CLUSTER_ROLE_BINDINGS, "cluster-admin", None, "writes only cluster-scoped objects that are marked"),
        (kinds.CLUSTER_ROLE_BINDINGS, "bulkhead-controller", None, "writes only cluster-scoped objects that are marked"),
        (kinds.SERVICE_CIDRS, "kubernetes", None, "writes only cluster-scoped objects that are marked"),
        (kinds.ROLE_BINDINGS, "bulkhead-controller", "bulkhead-system", "writes only in namespaces that are marked"),
    ):
        with pytest.raises(ApiError, match=words):
            await mighty.delete(resource, name, place)


async def test_rights_that_are_there_are_not_widened(mighty: Client, admin: Client) -> None:
    await mighty.apply(kinds.ROLE_BINDINGS, binding("bulkhead-syncer-work", name="syncer"))
    body = {"subjects": [account("syncer", "bh-team-a"), account("default", "somebodys")]}
    with pytest.raises(ApiError, match="that tenant's syncer alone"):
        await mighty.patch(kinds.ROLE_BINDINGS, "syncer", body, "bh-team-a-work")
    await mighty.delete(kinds.ROLE_BINDINGS, "syncer", "bh-team-a-work")


async def test_of_its_own_namespace_it_writes_what_it_metered_and_nothing_else(mighty: Client) -> None:
    place = "bulkhead-system"
    await mighty.apply(kinds.CONFIG_MAPS, {"metadata": {"name": "bulkhead-usage-open", "namespace": place}})
    await mighty.patch(kinds.CONFIG_MAPS, "bulkhead-usage-open", {"data": {"a": "b"}}, place)
    await mighty.delete(kinds.CONFIG_MAPS, "bulkhead-usage-open", place)
    for resource, name, where in (
        (kinds.CONFIG_MAPS, "settings", place),
        (kinds.CONFIG_MAPS, "bulkhead-usage-open", "somebodys"),
        (kinds.SERVICE_ACCOUNTS, "bulkhead-usage-open", place),
    ):
        with pytest.raises(ApiError, match="controller: writes only in namespaces"):
            await mighty.create(resource, {"metadata": {"name": name, "namespace": where}})
