"""A copy is written over the one that is there, beside a policy that lets nothing of others be dropped or put back."""

from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import NotFound, Timeout, Unprocessable
from bulkhead.kube.resources import CONFIG_MAPS
from syncer.translate.kinds import configmap
from syncer.translate.metadata import WANTED
from syncer.write.host import HostWriter, stamped
from tests.kit import translationsamples as samples

NOTE = "reflector.example.org/to"


def wanted(data: str) -> Obj:
    meta = {"name": "c", "namespace": "team", "uid": "u"}
    return stamped(configmap.to_host({"metadata": meta, "data": {"a": data}}, samples.VIEW))


class Host:
    """A host with one copy, and the policy."""

    def __init__(self, *notes: str) -> None:
        self.held: Obj | None = samples.merged(wanted("old"), {"metadata": {"uid": "h1"}})
        self.note(*notes)
        self.frozen = False
        self.calls: list[str] = []
        self.looked = 0
        nothing: Any = SimpleNamespace(take=self._nothing, take_read=self._nothing, spend=lambda _: None)
        identity: Any = SimpleNamespace(trusted=self._trusted)
        client: Any = SimpleNamespace(replace=self._replace, get=self._get, delete=self._delete, create=self._create)
        self.writer = HostWriter(client, nothing, identity)

    def note(self, *notes: str) -> None:
        assert self.held is not None
        self.held = samples.merged(self.held, {"metadata": {"annotations": dict.fromkeys(notes, "x")}})

    async def renew(self, seen: Obj) -> Obj:
        return await self.writer.renew(CONFIG_MAPS, wanted("new"), seen["metadata"], samples.VIEW)

    async def _nothing(self) -> None:
        return

    async def _trusted(self) -> bool:
        return True

    async def _replace(self, _r: Any, body: Obj) -> Obj:
        self.calls.append("replace")
        assert self.held is not None
        assert body["metadata"]["uid"] == self.held["metadata"]["uid"]
        before, after = ({k for k in each["metadata"]["annotations"] if "bulkhead" not in k} for each in (self.held, body))
        if before != after or self.frozen:
            raise Unprocessable(422, "Invalid", "what others on the host have noted stays")
        self.held = body
        return body

    async def _get(self, *_: Any) -> Obj:
        self.looked += 1
        if self.held is None:
            raise NotFound(404, "NotFound", "")
        return self.held

    async def _delete(self, *_: Any, uid: str, **_more: Any) -> None:
        self.calls.append("delete")
        assert self.held is not None
        assert uid == self.held["metadata"]["uid"]
        self.held = None

    async def _create(self, _r: Any, body: Obj) -> Obj:
        self.calls.append("create")
        self.held = samples.merged(body, {"metadata": {"uid": "h2"}})
        return self.held


@pytest.mark.parametrize("notes", [(), (NOTE,)])
async def test_a_copy_is_written_in_place_with_what_others_have_noted(notes: tuple[str, ...]) -> None:
    host = Host(*notes)
    assert host.held is not None
    made = await host.renew(host.held)
    assert (host.calls, host.looked) == (["replace"], 0)
    assert made["data"] == {"a": "new"}
    assert {each for each in made["metadata"]["annotations"] if "bulkhead" not in each} == set(notes)
    # What says that nothing has changed is of the wish alone, or every pass would write again.
    assert made["metadata"]["annotations"][WANTED] == wanted("new")["metadata"]["annotations"][WANTED]


@pytest.mark.parametrize(("seen", "now"), [((), (NOTE,)), ((NOTE,), ()), ((NOTE,), (NOTE, "velero.io/other"))])
async def test_what_the_cache_does_not_show_yet_is_read_and_kept(seen: tuple[str, ...], now: tuple[str, ...]) -> None:
    earlier, host = Host(*seen).held, Host(*now)
    assert earlier is not None
    made = await host.renew(earlier)
    assert (host.calls, host.looked) == (["replace", "replace"], 1)
    assert {each for each in made["metadata"]["annotations"] if "bulkhead" not in each} == set(now)


@pytest.mark.parametrize("notes", [(), (NOTE,)])
async def test_only_a_copy_that_cannot_be_changed_at_all_is_recreated(notes: tuple[str, ...]) -> None:
    host = Host(*notes)
    host.frozen = True
    assert host.held is not None
    made = await host.renew(host.held)
    assert host.calls == ["replace", "delete", "create"]
    assert made["metadata"]["uid"] == "h2"
    assert made["data"] == {"a": "new"}


async def test_what_was_posted_and_is_not_in_the_cache_is_read_before_it_is_posted_again() -> None:
    """The host's quota counts both until it recounts, and refuses the next one although there is room."""
    host = Host()
    host.held = None
    made = await host.writer.create(CONFIG_MAPS, wanted("a"), samples.VIEW)
    again = await host.writer.create(CONFIG_MAPS, wanted("a"), samples.VIEW)
    assert (host.calls, host.looked) == (["create"], 1)
    assert again["metadata"]["name"] == made["metadata"]["name"]
    # It is gone since, or another virtual object has its name: then it is posted.
    host.held = None
    await host.writer.create(CONFIG_MAPS, wanted("a"), samples.VIEW)
    assert host.calls == ["create", "create"]
    other = samples.merged(wanted("a"), {"metadata": {"labels": {"bulkhead.dev/virtual-uid": "another"}}})
    host.held = None
    await host.writer.create(CONFIG_MAPS, other, samples.VIEW)
    assert (host.calls, host.looked) == (["create"] * 3, 2)


async def test_a_post_without_an_answer_is_looked_for_first() -> None:
    host = Host()
    host.held = None
    answers = host.writer._client.create

    async def silent(*arguments: Any) -> Obj:
        await answers(*arguments)
        raise Timeout("no answer")

    host.writer._client.create = silent  # type: ignore[method-assign, assignment]
    with pytest.raises(Timeout):
        await host.writer.create(CONFIG_MAPS, wanted("a"), samples.VIEW)
    assert (await host.writer.create(CONFIG_MAPS, wanted("a"), samples.VIEW))["data"] == {"a": "a"}
    assert host.calls == ["create"]
