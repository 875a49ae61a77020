"""Whether a server answers, for the page: a small read every few seconds. A watch may be silent for minutes."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Final

from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, Unauthorized
from bulkhead.kube.objects import Resource
from workstation.cli.console.watched import Watched
from workstation.cli.output import plain
from workstation.console.board import Board

_SECONDS: Final = 3.0
_DEADLINE_SECONDS: Final = 5.0


async def probe(
    client: Client,
    r: Resource,
    namespace: str | None,
    board: Board,
    waiting: Iterable[Watched[Any]],
) -> None:
    """Put `link` on the board until cancelled; watches that wait for a server that is back try at once."""
    watches = tuple(waiting)
    lost = False
    while True:
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                pages = client.pages(r, namespace, limit=1, metadata_only=True)
                async with contextlib.aclosing(pages):
                    with contextlib.suppress(Forbidden):  # it answers
                        await anext(pages)
        except (KubeError, TimeoutError) as error:
            lost = True
            board.put("link", {"ok": False, "why": _why(error)})
        else:
            board.put("link", {"ok": True})
            if lost:
                for watched in watches:
                    watched.informer.try_now()
            lost = False
        await asyncio.sleep(_SECONDS)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {_DEADLINE_SECONDS:g} s"
    if isinstance(error, Unauthorized):
        return (
            "The cluster no longer accepts these credentials. The kubeconfig's plugin is asked for new ones, if it has one; "
            f"otherwise stop the console and start it again. {plain(error)}"
        )
    return plain(error)
