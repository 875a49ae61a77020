"""Which tenants need the ledger: the status of a Tenant is not news for it."""

from typing import Any, cast

import msgspec

from bulkhead.kube.client import Client
from bulkhead.kube.informer import Informer
from bulkhead.kube.objects import Key
from controller.dispatch.observe import Need


def seen(informer: Informer, name: str, version: int, **parts: Any) -> None:
    """A watch shows an object as it is now."""
    meta = {"name": name, "uid": name, "resourceVersion": str(version)}
    informer._put(*informer._shrink(msgspec.json.encode({"metadata": meta} | parts), None), relist=False)


def test_of_those_that_need_it_only_the_first_and_the_last_are_news() -> None:
    news: list[bool] = []
    need = Need(cast("Client", None), lambda: news.append(need.is_declared()))
    tenants, classes, _ = need.informers
    member = {"spec": {"quota": {"cohort": "research"}}}
    seen(tenants, "alone", 1, spec={})
    assert news == []
    for number in range(2, 12):
        seen(tenants, f"member-{number}", number, **member)
        seen(tenants, "member-2", 100 + number, **member, status={"quota": [{"name": "cpu", "used": number}]})
    assert news == [True]
    seen(classes, "gangs", 1, spec={"scheduling": {"gangs": True}})
    for number in range(2, 12):
        tenants._drop(Key("", f"member-{number}"), relist=False)
    assert news == [True]
    seen(classes, "gangs", 2, spec={})
    assert news == [True, False]
