"""The generated CRDs: what tests install, and what some servers have from their start.

    a first server: define ──> its data, kept (`prepared`) ──> each server that begins with a copy: note ──> `apply_all`

To check and install them costs an API server about as much as its start.
"""

import functools
import hashlib
import json
import time
import urllib.error
from pathlib import Path
from typing import Any, Final, Protocol

from bulkhead.api.objects import Obj
from tests.kit import applying, yamlfiles

_FILES: Final = tuple(sorted((Path(__file__).resolve().parents[2] / "crds").glob("*.yaml")))

_ALL: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAMES: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_SERVED_SECONDS: Final = 240.0


class Ask(Protocol):
    """A request to an API server: a GET, or a server-side apply. Raises what urllib raises."""

    def __call__(self, path: str, *, patch: bytes | None = None, accept: str = "*/*") -> str: ...


@functools.cache
def definitions() -> tuple[Obj, ...]:
    """The generated CRDs; do not change them."""
    return tuple(yamlfiles.load(path) for path in _FILES)


def digest() -> str:
    """Their text, in short."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in _FILES)).hexdigest()


def define(ask: Ask) -> None:
    """Install them, as `crds.install` does. Returns when objects of their kinds can be listed."""
    for definition in definitions():
        path = f"{_ALL}/{definition['metadata']['name']}?fieldManager=tests&force=true"
        ask(path, patch=json.dumps(definition).encode())
    deadline = time.monotonic() + _SERVED_SECONDS
    while not _are_served(ask):
        assert time.monotonic() < deadline, "our definitions are not served in time"
        time.sleep(0.1)


def note(server: str, ask: Ask) -> None:
    """Note for `apply_all` that a server has them. Raises urllib's error while it does not serve them."""
    if not _are_served(ask):
        raise urllib.error.URLError("our definitions are not served yet")
    wanted = {definition["metadata"]["name"]: definition for definition in definitions()}
    for item in json.loads(ask(_ALL, accept=_NAMES))["items"]:
        meta: dict[str, Any] = item["metadata"]
        if meta["name"] in wanted:
            applying.note(server, wanted[meta["name"]], meta["resourceVersion"])


def _are_served(ask: Ask) -> bool:
    try:
        for definition in definitions():
            spec = definition["spec"]
            ask(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}?limit=1")
    except OSError:  # all of urllib's errors, and no answer in time
        return False
    return True
