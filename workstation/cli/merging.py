"""Merges a tenant's kubeconfig into the file that kubectl reads anyway, as a context of its own.

    the file as it is ──┐
                        ├─> merged (pure) ──> written whole, or not at all
    a tenant's config ──┘

Other entries stay as they are, and so does the current context. A context of the same name that this command did not write is
never replaced, nor what a context of another name uses: a user may have renamed theirs. A cluster of the same name has to be at
the same address. There another CA is that of a tenant that was made again, and replaces the former one, which verifies nothing
now; another address is that of a tenant of this name on another host.

Comments in the file are lost, as with `kubectl config`. Holds the lock file that kubectl holds.

It creates no file: a new ~/.kube/config without a current context would hide the embedded host's from every other command.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.untrusted import mapping, mappings, text
from workstation.cli import access, homefolder
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import plain

_FILE_LIMIT: Final = 8 << 20  # bytes
_MOST_ENTRIES: Final = 10_000
_PARTS: Final = ("clusters", "users", "contexts")
_MARK: Final = {"name": names.GROUP, "extension": {"writtenBy": "bulkhead kubeconfig --merge"}}


class MergeRefusedError(Exception):
    """The file has an entry of this name that is not this command's to replace, or is not a kubeconfig."""


def context_of(tenant: str) -> str:
    """The name of a tenant's context."""
    return f"bulkhead-{tenant}"


def merged(existing: Mapping[str, Any], added: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The existing config with the one cluster, user and context of `added`, all three called `name`."""
    if not isinstance(existing, dict) or existing.get("kind", "Config") != "Config":
        raise MergeRefusedError("it is not a kubeconfig")
    there = {part: _entries(existing, part) for part in _PARTS}
    values = {part: dict(mapping(mappings(added.get(part), 1)[0].get(part.removesuffix("s")))) for part in _PARTS}
    values["contexts"] = {"cluster": name, "user": name, "extensions": [_MARK]}
    _check(there, values, name)
    result = dict(existing) or {"apiVersion": "v1", "kind": "Config", "preferences": {}}
    for part in _PARTS:
        others = [item for item in there[part] if text(item.get("name")) != name]
        result[part] = [*others, {"name": name, part.removesuffix("s"): values[part]}]
    return result


def _entries(existing: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    listed = existing.get(part) or []
    found = mappings(listed, _MOST_ENTRIES)
    if not isinstance(listed, list) or len(found) != len(listed):
        raise MergeRefusedError(f"its {part} are not a list of objects")
    return found


def _check(there: Mapping[str, list[Mapping[str, Any]]], values: Mapping[str, Mapping[str, Any]], name: str) -> None:
    """Raise MergeRefusedError if an entry of this name is not this command's to replace."""
    same = {part: [item for item in there[part] if text(item.get("name")) == name] for part in _PARTS}
    if not all(_ours(item) for item in same["contexts"]):
        raise MergeRefusedError(f"its context {name} was not written by this command")
    server = text(values["clusters"].get("server"))
    for item in same["clusters"]:
        address = text(mapping(item.get("cluster")).get("server"))
        if address.rstrip("/") != server.rstrip("/"):
            raise MergeRefusedError(
                f"its cluster {name} is at {plain(address) or 'no address'}, and the tenant is at {server}: it is of a tenant "
                f"of this name on another host, or this one has moved (then, before: kubectl config delete-cluster {name})"
            )
    if all(_content(mapping(item.get("user"))) == _content(values["users"]) for item in same["users"]):
        return
    for item in there["contexts"]:
        other, user = text(item.get("name")), text(mapping(item.get("context")).get("user"))
        if other != name and user == name:
            raise MergeRefusedError(f"its user {name} is also that of context {plain(other)}, which would sign in as another")


def _content(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entry that are not empty: kubectl adds empty ones when it rewrites a file."""
    return {key: _content(value) if isinstance(value, dict) else value for key, value in entry.items() if value}


def current_context(path: Path) -> str | None:
    """The current context of the host's kubeconfig: a command that the merged file names must not follow a later choice."""
    import yaml  # noqa: PLC0415 - slow to load

    try:
        with path.open("rb") as file:
            found = yaml.safe_load(file.read(_FILE_LIMIT))
    except (OSError, yaml.YAMLError, ValueError, RecursionError):
        return None
    return text(mapping(found).get("current-context")) or None


def _ours(entry: Mapping[str, Any]) -> bool:
    extensions = mappings(mapping(entry.get("context")).get("extensions"), 64)
    return any(item.get("name") == names.GROUP for item in extensions)


def default_path() -> Path:
    """The file that kubectl writes: the first of KUBECONFIG, else ~/.kube/config."""
    listed = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return Path(listed[0]) if listed else homefolder.home() / ".kube" / "config"


def merge_into(path: Path, data: bytes, tenant: str) -> None:
    """Add the tenant's context to an existing file. Raises CliError and leaves the file as it is."""
    import yaml  # noqa: PLC0415 - slow to load

    path = homefolder.expanded(path).resolve()  # a link stays a link
    if not path.is_file():
        raise CliError(
            f"{path} does not exist, and --merge adds to a kubeconfig that you have",
            next_step=f"write a new file: bulkhead kubeconfig {tenant} --write {tenant}.yaml",
            code=Exit.USAGE,
        )
    with _locked(path):
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CliError(f"cannot read {path}: {error.strerror}") from error
        if len(content) > _FILE_LIMIT:
            raise CliError(f"{path}: larger than {_FILE_LIMIT} bytes", code=Exit.USAGE)
        try:
            existing = yaml.safe_load(content) or {}
            whole = merged(existing, json.loads(data), context_of(tenant))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            # The parser's message quotes the input, which holds credentials.
            raise CliError(f"{path}: not YAML; nothing was changed", code=Exit.USAGE) from error
        except MergeRefusedError as error:
            raise CliError(
                f"{path}: {error}; nothing was changed",
                next_step=f"write a file of its own: bulkhead kubeconfig {tenant} --write {tenant}.yaml",
                code=Exit.USAGE,
            ) from error
        access.write_private(path, yaml.safe_dump(whole, sort_keys=False).encode())


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold `<file>.lock`, as kubectl does while it changes a kubeconfig. It does not wait, as kubectl does not either."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError as error:
        raise CliError(
            f"{path}: another program changes it, because {lock} exists",
            next_step=f"try again; if none runs, remove {lock}",
            code=Exit.FAILED,
        ) from error
    except OSError as error:
        raise CliError(f"cannot create {lock}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
