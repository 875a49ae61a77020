"""Without one of the rights that docs/chaos.md names, a run creates nothing. No server."""

import itertools
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import Forbidden
from bulkhead.kube.objects import ObjList, Resource
from tests.chaosrun.bed import SYSTEM
from tests.docs.pages import yaml_blocks
from tests.kit import yamlfiles
from workstation.chaos import rights, run
from workstation.chaos.plan import Order, Refused
from workstation.chaos.run import Ground


def role_of_the_page() -> Obj:
    (role,) = [
        obj
        for block in yaml_blocks()
        if block.page == "docs/chaos.md"
        for obj in yamlfiles.documents(block.text)
        if obj["kind"] == "ClusterRole"
    ]
    return role


class Host:
    """A host with a plan's class and target, which allows what a role names, and keeps nothing else."""

    def __init__(self, rules: list[Obj]) -> None:
        self._rules = rules
        self.unsaid = False

    async def list(self, r: Resource, *_: object, **__: object) -> ObjList:
        listed = {kinds.TENANT_CLASSES: [{"metadata": {"name": "standard"}}]}
        return ObjList(listed.get(r, []), "1")

    async def create(self, r: Resource, obj: Obj) -> Obj:
        assert r.plural == "selfsubjectaccessreviews"
        if self.unsaid:
            raise Forbidden(403, "Forbidden", "no reviews")
        asked = obj["spec"]["resourceAttributes"]
        may = any(
            asked["group"] in rule["apiGroups"] and asked["resource"] in rule["resources"] and asked["verb"] in rule["verbs"]
            for rule in self._rules
        )
        return {"status": {"allowed": may}}


def order(*, acts: bool = True) -> Order:
    return Order(("plane-deleted", "controller-deleted", "gpu-never-fits"), acts=acts)


async def test_each_right_of_the_page_is_asked_for_and_no_other() -> None:
    rules = role_of_the_page()["rules"]
    host = cast("Any", Host(rules))
    ground = Ground(host, host, SYSTEM, pytest.fail)
    plan = await run.prepare(ground, order())
    asked = {(right.kind.group, right.kind.plural, right.verb) for right in rights.needed(plan, SYSTEM)}
    named = {
        (group, plural, verb)
        for rule in rules
        for group, plural, verb in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }
    # The page's command line lists classes before it has a plan, and may need no tunnel.
    assert named - asked == {
        ("bulkhead.dev", "tenantclasses", "list"),
        ("", "pods/portforward", "get"),
        ("", "pods/portforward", "create"),
    }
    assert asked - named == set()


async def test_a_run_that_could_not_undo_itself_is_refused_before_it_creates_anything() -> None:
    rules = [dict(rule) for rule in role_of_the_page()["rules"]]
    rules[0]["verbs"] = [verb for verb in rules[0]["verbs"] if verb != "delete"]
    host = Host(rules)
    reported: list[str] = []
    ground = Ground(cast("Any", host), cast("Any", host), SYSTEM, reported.append)
    with pytest.raises(Refused, match=r"may not delete tenants\.bulkhead\.dev"):
        await run.prepare(ground, order())
    assert reported == []
    await run.prepare(ground, order(acts=False))
    assert reported == ["this kubeconfig may not delete tenants.bulkhead.dev: with --yes the run is refused"]


async def test_a_host_that_does_not_say_who_may_what_does_not_refuse() -> None:
    host = Host([])
    host.unsaid = True
    assert (await run.prepare(Ground(cast("Any", host), cast("Any", host), SYSTEM, pytest.fail), order())).creates
