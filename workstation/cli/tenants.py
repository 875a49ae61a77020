"""`bulkhead tenant create | list | delete`.

Builds a Tenant from options and a file, hands it to the host's API with strict field checks, and waits. The API server judges
the spec; nothing of its rules is repeated here but the name's, which saves a round trip and reads better.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bulkhead.api import labels, names
from bulkhead.api.conditions import ConditionType, condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError, NotFound
from workstation.cli import confirmation, connection, waiting
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, age, document, table
from workstation.cli.parsers import each_once

_FALLBACK_CLASS = "standard"
_FILE_LIMIT = 1 << 20


def create_tenant(options: argparse.Namespace) -> int:
    """`bulkhead tenant create`."""
    tenant = _from_options(options, _from_file(options.file) if options.file else {})
    name = str(tenant["metadata"]["name"])
    try:
        return asyncio.run(_create(options, tenant))
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\ninterrupted; creation of tenant {name} continues in the background\nnext:  bulkhead tenant describe {name}\n"
        )
        return Exit.INTERRUPTED


async def _create(options: argparse.Namespace, tenant: Obj) -> int:
    name = str(tenant["metadata"]["name"])
    async with connection.host_client(options) as client:
        spec = tenant["spec"]
        if not spec.get("class"):
            spec["class"] = await _only_class(client)
        await _post(client, tenant)
        print(f"tenant {name} created")
        if not options.wait:
            return Exit.DONE
        with Progress() as progress:
            ready = await waiting.until_ready(client, name, seconds=options.timeout, progress=progress)
    endpoint = (ready.get("status") or {}).get("endpoint") or "its API server"
    print(f"tenant {name} is ready at {endpoint}")
    sys.stderr.write(f"next:  bulkhead connect {name} -- kubectl get nodes\n")
    return Exit.DONE


async def _post(client: Client, tenant: Obj) -> None:
    """Create with unknown fields refused, as kubectl does: a typing error in a quota must not go unnoticed."""
    name = str(tenant["metadata"]["name"])
    params = {"fieldManager": client.field_manager, "fieldValidation": "Strict"}
    try:
        await client.transport.request(
            "POST", kinds.TENANTS.path(), params=params, body=codec.encode(tenant), content_type="application/json"
        )
    except AlreadyExists as error:
        raise CliError(f"tenant {name}: exists already", next_step=f"see it: bulkhead tenant describe {name}") from error
    except NotFound as error:
        raise connection.not_installed() from error
    except ApiError as error:
        if error.status not in {400, 422}:
            raise
        raise CliError(
            f"tenant {name}: refused: {error.message}", next_step="see the fields: kubectl explain tenant.spec"
        ) from error


async def _only_class(client: Client) -> str:
    """The class of a tenant that names none: the only one there is, or the one called standard."""
    try:
        found = [str(item["metadata"]["name"]) for item in (await client.list(kinds.TENANT_CLASSES)).items]
    except NotFound as error:
        raise connection.not_installed() from error
    if len(found) == 1:
        return found[0]
    if _FALLBACK_CLASS in found:
        return _FALLBACK_CLASS
    if not found:
        raise CliError(
            "there is no TenantClass yet",
            next_step="create one first, such as examples/tenantclass.yaml; its fields: kubectl explain tenantclass.spec",
        )
    raise CliError(
        f"there are several TenantClasses: {', '.join(sorted(found))}", next_step="choose one with --class", code=Exit.USAGE
    )


def _from_file(path: str) -> Obj:
    """One Tenant out of a YAML or JSON file."""
    import yaml  # noqa: PLC0415 - slow to load

    try:
        with sys.stdin.buffer if path == "-" else Path(path).open("rb") as file:
            data = file.read(_FILE_LIMIT + 1)
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror}", code=Exit.USAGE) from error
    if len(data) > _FILE_LIMIT:
        raise CliError(f"{path}: larger than {_FILE_LIMIT} bytes", code=Exit.USAGE)
    try:
        found = [item for item in yaml.safe_load_all(data) if item is not None]
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise CliError(f"{path}: not YAML: {error}", code=Exit.USAGE) from error
    if len(found) != 1 or not isinstance(found[0], dict) or found[0].get("kind") != "Tenant":
        raise CliError(
            f"{path}: must hold exactly one object, of kind Tenant",
            next_step=f"for several objects: kubectl apply -f {path}",
            code=Exit.USAGE,
        )
    return dict(found[0])


def _from_options(options: argparse.Namespace, tenant: Mapping[str, Any]) -> Obj:
    """The Tenant to create; options override the file."""
    metadata, spec = tenant.get("metadata") or {}, tenant.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise CliError(f"{options.file}: metadata and spec must be objects", code=Exit.USAGE)
    name = options.name or metadata.get("name")
    if not name:
        raise CliError("the tenant has no name", next_step="give one: bulkhead tenant create NAME", code=Exit.USAGE)
    if options.name and metadata.get("name") not in {None, options.name}:
        raise CliError(
            f"{options.file} names tenant {metadata['name']}, the command line {options.name}",
            next_step="leave the name out",
            code=Exit.USAGE,
        )
    try:
        names.check_tenant_name(str(name))
    except names.InvalidTenantNameError as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    spec = dict(spec)
    if options.class_name:
        spec["class"] = options.class_name
    if options.mode:
        spec["scheduling"] = _section(spec, "scheduling") | {"mode": options.mode}
    gpus = [] if options.gpus is None else [(labels.GPU, str(options.gpus))]
    asked = each_once([*gpus, *options.quota])
    if asked:
        quota = _section(spec, "quota")
        resources = _section(quota, "resources")
        numbers = asked if options.gpus is None else asked | {labels.GPU: options.gpus}
        named = {name: _section(resources, name) | {"nominal": value} for name, value in numbers.items()}
        spec["quota"] = quota | {"resources": resources | named}
    if options.admin:
        access = _section(spec, "access")
        spec["access"] = access | {"admins": [*(access.get("admins") or ()), *map(_admin, options.admin)]}
    return (
        {"apiVersion": names.API_VERSION, "kind": "Tenant"}
        | dict(tenant)
        | {"metadata": metadata | {"name": str(name)}, "spec": spec}
    )


def _section(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    return dict(mapping(value.get(field)))


def _admin(text: str) -> dict[str, str]:
    kind, separator, name = text.partition(":")
    if separator and kind in {"group", "user"}:
        return {"kind": kind.capitalize(), "name": name}
    return {"kind": "User", "name": text}


def list_tenants(options: argparse.Namespace) -> int:
    """`bulkhead tenant list`."""
    return asyncio.run(_list(options))


async def _list(options: argparse.Namespace) -> int:
    async with connection.host_client(options) as client:
        try:
            items = (await client.list(kinds.TENANTS)).items
        except NotFound as error:
            raise connection.not_installed() from error
    if options.output in {"json", "yaml"}:
        document({"apiVersion": "v1", "kind": "List", "items": items}, options.output)
        return Exit.DONE
    if not items:
        sys.stderr.write("no tenants\nnext:  bulkhead tenant create NAME --gpus 8\n")
        return Exit.DONE
    wide = options.output == "wide"
    headers = [
        "NAME",
        "READY",
        "MODE",
        "VERSION",
        "GPUS",
        "ENDPOINT",
        "AGE",
        *(["CLASS", "SLICE", "REASON", "MESSAGE"] if wide else []),
    ]
    table(headers, [_row(item, wide=wide) for item in items])
    return Exit.DONE


def _row(tenant: Obj, *, wide: bool) -> list[object]:
    spec, status = tenant.get("spec") or {}, tenant.get("status") or {}
    ready = condition_of(tenant, ConditionType.READY)
    row: list[object] = [
        tenant["metadata"]["name"],
        ready.get("status", "Unknown"),
        (spec.get("scheduling") or {}).get("mode"),
        (status.get("versions") or {}).get("kubernetes"),
        gpus_of(tenant),
        status.get("endpoint"),
        age(tenant["metadata"].get("creationTimestamp")),
    ]
    if wide:
        row += [spec.get("class"), status.get("serviceSlice"), ready.get("reason"), ready.get("message")]
    return row


def gpus_of(tenant: Obj) -> str:
    """GPUs used of the limit, or what the spec asks for while the controller has not counted."""
    gpus = (tenant.get("status") or {}).get("gpus") or {}
    if gpus:
        return str(gpus.get("summary") or f"{gpus.get('used', 0)}/{gpus.get('limit', 0)}")
    resources = ((tenant.get("spec") or {}).get("quota") or {}).get("resources") or {}
    return f"-/{(resources.get(labels.GPU) or {}).get('nominal', 0)}"


def delete_tenant(options: argparse.Namespace) -> int:
    """`bulkhead tenant delete`."""
    try:
        return asyncio.run(_delete(options))
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\ninterrupted; deletion may continue in the background\nnext:  bulkhead tenant describe {options.name}\n"
        )
        return Exit.INTERRUPTED


async def _delete(options: argparse.Namespace) -> int:
    name = options.name
    async with connection.host_client(options) as client:
        tenant = await connection.get_tenant(client, name)
        if not options.yes:
            warning = f"This deletes tenant {name} with its API server, its data and its pods"
            confirmation.ask(name, "deleting it destroys all its data", warning, "not deleted")
        uid = str(tenant["metadata"]["uid"])
        await client.delete(kinds.TENANTS, name, uid=uid)
        if not options.wait:
            print(f"tenant {name} is being deleted")
            return Exit.DONE
        with Progress() as progress:
            await waiting.until_gone(client, name, uid, seconds=options.timeout, progress=progress)
    print(f"tenant {name} deleted")
    return Exit.DONE
