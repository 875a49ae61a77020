"""Once the plane's data was replaced, nothing that was known of the former one by UID or version counts."""

from typing import Any

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.informer import Informer
from bulkhead.kube.kubeconfig import KubeConfig
from syncer.mirrors.volumeclaims import VolumeClaims
from syncer.session import Session
from syncer.translate.references import CLAIM
from tests.kit.fakeclock import FakeClock
from tests.kit.syncersettings import settings_for


@pytest.mark.parametrize("turn", ["on_quarantined", "on_accepted"])
async def test_a_plane_whose_data_was_replaced_is_listed_and_compared_again(turn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plane, host = (Client(KubeConfig(server="http://127.0.0.1:1"), user_agent="t", field_manager="t") for _ in range(2))
    session = Session(settings_for("red"), plane, host, FakeClock())
    listed: list[Informer] = []

    def list_again(informer: Informer) -> None:
        listed.append(informer)

    monkeypatch.setattr(Informer, "list_again", list_again)
    memories = _memories(session)
    for memory in memories:
        memory["known"] = "before"
    session.breaker.open = True
    told = (60.0,) if turn == "on_accepted" else ()
    getattr(session.identity, turn)(*told)
    assert len(listed) == len(session.caches.virtual) > 0
    assert all(informer in listed for informer in session.caches.virtual.values())
    assert not any(memories)
    # Only an admin knows that what is missing may go.
    assert session.breaker.open is (turn == "on_quarantined")


def _memories(session: Session) -> list[dict[Any, Any]]:
    claims = session.followers[CLAIM]
    assert isinstance(claims, VolumeClaims)
    unchanged = session.pods._unchanged
    return [session.mirrors._referenced._equal, claims._volumes._known, unchanged._done, unchanged._patched]
