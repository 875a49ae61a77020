"""What is on the host before an upgrade is tried: Tenants that are going are waited for, since it is they who need it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from e2e import commands, install, poll
from e2e.api import Api, Obj
from e2e.scenarios.upgrade import former


class Host:
    """Its Tenants, as they are at each look, the last for ever."""

    def __init__(self, *looks: Sequence[Obj]) -> None:
        self.looks = list(looks)

    def list(self, kind: str) -> Sequence[Obj]:
        assert kind == "Tenant"
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def delete(self, *_: Any) -> None:
        """What wipe removes itself."""


def tenant(name: str, **more: str) -> Obj:
    return {"metadata": {"name": name, **more}}


GOING = tenant("going", deletionTimestamp="2026-11-25T02:00:00Z")
STAYING = tenant("staying")


@pytest.mark.parametrize("stays", [[], [STAYING]], ids=["nobody", "somebody stays, whom helm's hook speaks for"])
def test_a_bulkhead_is_removed_once_no_tenant_is_terminating(monkeypatch: pytest.MonkeyPatch, stays: list[Obj]) -> None:
    host = Host([GOING, *stays], [GOING, *stays], stays)
    left: list[int] = []

    def helm(_: Path, word: str, *__: str) -> commands.Outcome:
        if word == "uninstall":
            left.append(len(host.looks))
        return commands.Outcome(0, f"{install.RELEASE}\n", "")

    monkeypatch.setattr(commands, "helm", helm)
    monkeypatch.setattr(former, "kubectl", lambda *_: "")
    monkeypatch.setattr(poll.time, "sleep", lambda _: None)
    former.wipe(cast("Api", host), lambda _: None)
    assert left == [1]
