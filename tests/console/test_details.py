"""What the page asks about one tenant, while the cluster does not answer."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import unreachable
from bulkhead.kube.objects import Resource
from tests.console import sample
from workstation.cli.console.details import Details, _snapshots
from workstation.cli.console.live import Live
from workstation.cli.tenant.description import about
from workstation.console.server import QuestionError


def test_snapshots_and_events_of_a_former_tenant_of_the_name_are_not_those_of_the_present() -> None:
    present = {"metadata": {"name": "red", "uid": "2"}, "status": {"planeIdentity": "second"}}

    def snapshot(name: str, **status: str) -> Obj:
        return {"metadata": {"name": name, "creationTimestamp": name}, "spec": {"tenant": "red"}, "status": status}

    listed = [snapshot("a", identity="first"), snapshot("b", identity="second"), snapshot("c"), snapshot("d", identity="")]
    assert [row["name"] for row in _snapshots(listed, present)] == ["d", "c", "b"]
    # What an older controller made says nothing of its identity.
    assert len(_snapshots(listed, {"metadata": {"name": "red"}})) == 4

    def event(label: str, **subject: str) -> Obj:
        return {"metadata": {"name": label}, "involvedObject": {"name": "red"} | subject}

    told = [event("a", uid="1"), event("b", uid="2"), event("c"), event("d", name="blue", uid="2")]
    assert [item["metadata"]["name"] for item in about(present, told)] == ["b", "c"]


class Away:
    """A client of a cluster that has gone."""

    async def get(self, r: Resource, name: str) -> Any:
        raise unreachable(f"GET {r.path(name=name)}: no connection")


async def test_a_quota_that_is_tried_while_the_cluster_is_away_says_so() -> None:
    live = SimpleNamespace(observed=sample.lab().seen)
    details = Details(cast(Client, Away()), cast(Live, live))
    with pytest.raises(QuestionError, match=r"the tenant's class was not read: .*no connection"):
        await details.attempt({"name": "vision", "line": sample.GPU, "nominal": "8"})
