"""Objects that many tests rely on, such as definitions and policies: applied if they differ from how they were last applied.

    apply_all(client, objects)    the first time: an apply for each object
                                  later: a list of names and versions for each kind, and an apply for each changed object

So an object that a test changes or deletes is restored for the next test, and an unchanged one costs almost nothing.
"""

import copy
from collections.abc import Iterable

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import resource_of

_Place = tuple[Resource, str, str]
# By server and object: what was applied, and its resource version then.
_left: dict[tuple[str, _Place], tuple[Obj, str]] = {}


async def apply_all(client: Client, objects: Iterable[Obj]) -> bool:
    """Apply objects in their order, each with its apiVersion and kind. Returns whether any had to be applied."""
    server, wanted = client.config.server, {_place(obj): obj for obj in objects}
    there = await _versions(client, {place[0] for place in wanted if (server, place) in _left})
    applied = False
    for place, obj in wanted.items():
        if place in there and _left.get((server, place)) == (obj, there[place]):
            continue
        made = await client.apply(place[0], obj)
        note(server, obj, made["metadata"]["resourceVersion"])
        applied = True
    return applied


async def seen(client: Client, objects: Iterable[Obj]) -> None:
    """Note the versions that objects have now: after they were applied, the server itself wrote to them."""
    wanted = {_place(obj): obj for obj in objects}
    for place, version in (await _versions(client, {place[0] for place in wanted})).items():
        if place in wanted:
            note(client.config.server, wanted[place], version)


def note(server: str, obj: Obj, version: str) -> None:
    """Note that a server has an object as it is here, in this version."""
    _left[server, _place(obj)] = (copy.deepcopy(obj), version)


async def _versions(client: Client, resources: Iterable[Resource]) -> dict[_Place, str]:
    there: dict[_Place, str] = {}
    for resource in resources:
        for item in (await client.list_metadata(resource)).items:
            meta = item["metadata"]
            there[resource, meta.get("namespace", ""), meta["name"]] = meta["resourceVersion"]
    return there


def _place(obj: Obj) -> _Place:
    meta = obj["metadata"]
    return resource_of(obj["apiVersion"], obj["kind"]), meta.get("namespace", ""), meta["name"]
