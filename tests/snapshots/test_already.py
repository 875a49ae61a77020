"""What is stored under a snapshot's name already: which of it is this snapshot's, and what nothing may replace."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.snapshots.layout import MANIFEST, folder
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import DeniedError, Target
from controller.pki.signingkeys import new_files, ring_of
from controller.snapshots import already
from controller.snapshots.already import Found, NameTakenError
from controller.snapshots.schedule import FINALIZER
from controller.snapshots.spec import Order
from tests.kit.tenantsamples import plane_spec
from tests.snapshots.samples import ID, RING, made, signed

SLOT = f"red-20260601-120000-{ID[:8]}"
SCHEDULED = {"labels": {labels.SCHEDULED: ID}, "finalizers": [FINALIZER]}


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(Place("file", str(tmp_path)))


def order(name: str, uid: str = "one", **meta: Any) -> Order:
    request: Obj = {"metadata": {"name": name, "uid": uid} | meta, "spec": {"tenant": "red"}}
    anything = cast("Any", None)
    return Order(request, {}, plane_spec(tenant="red", identity=ID), anything, "", {}, {})


async def store(target: Target, found: Manifest, envelope: str = "", parts: int = 2) -> None:
    home = folder(ID, found.snapshot)
    for name, part in list(found.parts.items())[:parts]:
        await target.put_small(f"{home}/{found.attempt}/{name}", bytes(part.size))
    await target.put_small(f"{home}/{MANIFEST}", (envelope or signed(found)).encode())


def of(name: str, uid: str) -> Manifest:
    return made(snapshot=name, attempt=already.new_attempt(uid))


async def test_where_nothing_is_stored_the_name_is_free(target: Target) -> None:
    assert await already.look(target, RING, order("red-1")) == Found()


async def test_what_this_very_object_has_stored_is_it(target: Target) -> None:
    kept = of("red-1", "one")
    await store(target, kept)
    assert await already.look(target, RING, order("red-1")) == Found(kept)


@pytest.mark.parametrize(
    ("found", "envelope", "words"),
    [
        (of("red-1", "another"), "", "of 2026-06-01T12:34:56Z, is stored already: it is not replaced"),
        (made(), "", "is stored already"),
        (made(), signed(ring=ring_of(new_files())), "which is not known here .*: it is not replaced"),
        (made(), "{}", "its manifest does not count"),
        (made(), signed(made(snapshot="red-2")), "moved here"),
    ],
    ids=["another object's", "an earlier version's", "another installation's", "garbage", "moved"],
)
async def test_what_is_not_this_objects_is_not_replaced(target: Target, found: Manifest, envelope: str, words: str) -> None:
    await store(target, found, envelope)
    with pytest.raises(NameTakenError, match=words):
        await already.look(target, RING, order("red-1"))


@pytest.mark.parametrize("whose", ["one", "another"])
async def test_what_is_not_whole_is_no_snapshot(target: Target, whose: str) -> None:
    await store(target, of("red-1", whose), parts=1)
    assert await already.look(target, RING, order("red-1")) == Found()


async def test_the_scheduled_one_of_a_slot_is_that_of_whichever_host_took_it(target: Target) -> None:
    kept = of(SLOT, "on the host that was lost")
    await store(target, kept)
    assert await already.look(target, RING, order(SLOT, **SCHEDULED)) == Found(kept)
    # Anyone can give an object such a name; the finalizer and the labels are what a schedule gives.
    for meta in ({}, {"finalizers": [FINALIZER]}, {"labels": SCHEDULED["labels"]}):
        with pytest.raises(NameTakenError):
            await already.look(target, RING, order(SLOT, **meta))


@pytest.mark.parametrize("look", ["small", "size"])
async def test_credentials_that_may_not_look_change_nothing(target: Target, monkeypatch: pytest.MonkeyPatch, look: str) -> None:
    """S3 answers 403 for an object that is not there, if one may not list."""

    async def denied(*_: object) -> None:
        raise DeniedError("403")

    await store(target, of("red-1", "another"))
    monkeypatch.setattr(Target, look, denied)
    assert await already.look(target, RING, order("red-1")) == Found(unseen=True)


def test_two_attempts_at_one_object_have_two_folders_with_one_owner() -> None:
    first, second = already.new_attempt("one"), already.new_attempt("one")
    assert first != second
    assert first[:8] == second[:8] != already.new_attempt("another")[:8]
    assert replace(made(), attempt=first).attempt == first
