"""What the page asks about one tenant, while the cluster does not answer."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import unreachable
from bulkhead.kube.objects import Resource
from tests.console import sample
from workstation.cli.console.details import Details
from workstation.cli.console.live import Live
from workstation.console.server import QuestionError


class Away:
    """A client of a cluster that has gone."""

    async def get(self, r: Resource, name: str) -> Any:
        raise unreachable(f"GET {r.path(name=name)}: no connection")


async def test_a_quota_that_is_tried_while_the_cluster_is_away_says_so() -> None:
    live = SimpleNamespace(observed=sample.lab().seen)
    details = Details(cast(Client, Away()), cast(Live, live))
    with pytest.raises(QuestionError, match=r"the tenant's class was not read: .*no connection"):
        await details.attempt({"name": "vision", "line": sample.GPU, "nominal": "8"})
