"""`bulkhead tenant create`.

Builds a Tenant from options and a file, creates it with strict field checks, and waits. The API server checks the spec. Two
rules are repeated here: the one for names, which saves a round trip, and the bounds of the class (`offered`), because a Tenant
beyond them is created and never ready.
"""

import argparse
import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError, Forbidden, KubeError, NotFound
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Host, Wait, add_host, add_wait, host_of, wait_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress
from workstation.cli.parsing import RAW, Actions
from workstation.cli.tenant import offered, waiting

_FALLBACK_CLASS = "standard"
_FILE_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """`tenant create NAME`; None means not given, so that the file's value or the API's default remains."""

    host: Host
    name: str | None
    file: str | None
    class_name: str | None
    mode: str | None
    # Nominal quotas by resource, in the API's form.
    quota: Mapping[str, str | int]
    # Users, or group:NAME.
    admins: tuple[str, ...]
    wait: Wait


def add_create(actions: Actions) -> None:
    """`tenant create`."""
    parser = actions.add_parser(
        "create",
        help="create a tenant and wait until it is ready",
        description="Create a tenant: a Kubernetes API server and etcd of its own, and a quota of the shared GPUs.",
        epilog="examples:\n"
        "  bulkhead tenant create red --gpus 8\n"
        "  bulkhead tenant create blue --class large --admin alice@example.org --admin group:ml-team\n"
        "  bulkhead tenant create -f green.yaml --no-wait\n",
        formatter_class=RAW,
    )
    add_host(parser)
    parser.add_argument(
        "name", metavar="NAME", nargs="?", type=values.tenant_name, help="name of the tenant; may be omitted with -f"
    )
    parser.add_argument("-f", "--file", metavar="FILE", help="a Tenant as YAML or JSON, - for stdin; options override it")
    parser.add_argument(
        "--class", dest="class_name", metavar="CLASS", help="its TenantClass (default: the only one, or `standard`)"
    )
    parser.add_argument("--mode", choices=["Kubernetes", "Slurm"], help="what schedules jobs inside the tenant")
    parser.add_argument("--gpus", metavar="N", type=values.gpus, help="quota of nvidia.com/gpu")
    parser.add_argument(
        "--quota",
        metavar="RESOURCE=QUANTITY",
        type=values.quota,
        action="append",
        default=[],
        help="quota of cpu, memory, ephemeral-storage, requests.storage or devices, such as memory=512Gi; may be repeated",
    )
    parser.add_argument(
        "--admin",
        metavar="NAME",
        action="append",
        default=[],
        help="a user, or group:NAME, with full rights inside the tenant; may be repeated",
    )
    add_wait(parser, "until it is ready")
    parser.does(_request, create_tenant)


def _request(options: argparse.Namespace) -> CreateRequest:
    gpus = [] if options.gpus is None else [(labels.GPU, str(options.gpus))]
    asked: dict[str, str | int] = {**values.each_once([*gpus, *options.quota])}
    if options.gpus is not None:
        asked[labels.GPU] = options.gpus
    return CreateRequest(
        host=host_of(options),
        name=options.name,
        file=options.file,
        class_name=options.class_name,
        mode=options.mode,
        quota=asked,
        admins=tuple(options.admin),
        wait=wait_of(options),
    )


def create_tenant(request: CreateRequest) -> int:
    """`bulkhead tenant create`."""
    tenant = _asked(request, _from_file(request.file) if request.file else {})
    name = str(tenant["metadata"]["name"])
    try:
        return eventloop.run(_create(request, tenant))
    except KeyboardInterrupt:
        raise CliError(
            f"interrupted; if tenant {name} was created already, the controller goes on with it",
            next_step=f"bulkhead tenant describe {name}",
            code=Exit.INTERRUPTED,
        ) from None


async def _create(request: CreateRequest, tenant: Obj) -> int:
    name = str(tenant["metadata"]["name"])
    async with connection.host_client(request.host) as client:
        spec = tenant["spec"]
        if not spec.get("class"):
            spec["class"] = await _only_class(client)
        await _check_class(client, name, spec)
        await _post(client, tenant)
        print(f"tenant {name} created")
        if not request.wait.wanted:
            return Exit.DONE
        with Progress() as progress:
            ready = await waiting.until_ready(client, name, seconds=request.wait.seconds, progress=progress)
    endpoint = (ready.get("status") or {}).get("endpoint") or "its API server"
    print(f"tenant {name} is ready at {endpoint}")
    sys.stderr.write(f"next:  bulkhead connect {name} -- kubectl get nodes\n")
    return Exit.DONE


async def _check_class(client: Client, name: str, spec: Mapping[str, Any]) -> None:
    """Raise CliError if the class does not exist or allows less. A user who may not read classes is not refused here."""
    wanted = str(spec["class"])
    try:
        classes = {str(item["metadata"]["name"]): item for item in (await client.list(kinds.TENANT_CLASSES)).items}
    except Forbidden:
        return
    except NotFound as error:
        raise connection.not_installed() from error
    found = classes.get(wanted)
    if found is None:
        raise CliError(
            f"tenant {name}: not created: {offered.unknown_class(wanted, classes)}",
            next_step="choose one with --class, or see them: kubectl get tenantclasses",
            code=Exit.NOT_FOUND,
        )
    excess = offered.excess(spec, found)
    if excess:
        raise CliError(
            f"tenant {name}: not created: {excess}",
            next_step=f"request less, or raise the bound: kubectl edit tenantclass {wanted}",
        )


async def _post(client: Client, tenant: Obj) -> None:
    """Create the Tenant; unknown fields are refused, as kubectl does, so that a typing error in a quota is noticed."""
    name = str(tenant["metadata"]["name"])
    params = {"fieldManager": client.field_manager, "fieldValidation": "Strict"}
    try:
        await client.transport.request(
            "POST", kinds.TENANTS.path(), params=params, body=codec.encode(tenant), content_type="application/json"
        )
    except AlreadyExists as error:
        raise await _taken(client, name) from error
    except NotFound as error:
        raise connection.not_installed() from error
    except ApiError as error:
        if error.status not in {400, 422}:
            raise
        raise CliError(
            f"tenant {name}: refused: {error.message}", next_step="see the fields: kubectl explain tenant.spec"
        ) from error


async def _taken(client: Client, name: str) -> CliError:
    """The error for a name that a Tenant has, which may be one that is being deleted."""
    with contextlib.suppress(KubeError):
        if (await client.get(kinds.TENANTS, name))["metadata"].get("deletionTimestamp"):
            return CliError(
                f"tenant {name}: not created: the former one is still being deleted",
                next_step=f"wait until it is gone, and create it then: bulkhead tenant delete {name} --yes",
            )
    return CliError(f"tenant {name}: exists already", next_step=f"see it: bulkhead tenant describe {name}")


async def _only_class(client: Client) -> str:
    """The class of a tenant that names none: the only class, or the one called standard."""
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
    """The Tenant in a YAML or JSON file."""
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
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CliError(f"{path}: not YAML: {error}", code=Exit.USAGE) from error
    if len(found) != 1 or not isinstance(found[0], dict) or found[0].get("kind") != "Tenant":
        raise CliError(
            f"{path} must contain exactly one object, of kind Tenant",
            next_step=f"for several objects: kubectl apply -f {path}",
            code=Exit.USAGE,
        )
    return dict(found[0])


def _asked(request: CreateRequest, tenant: Mapping[str, Any]) -> Obj:
    """The Tenant to create; options override the file."""
    metadata, spec = tenant.get("metadata") or {}, tenant.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise CliError(f"{request.file}: metadata and spec must be objects", code=Exit.USAGE)
    name = request.name or metadata.get("name")
    if not name:
        raise CliError("the tenant has no name", next_step="give one: bulkhead tenant create NAME", code=Exit.USAGE)
    if request.name and metadata.get("name") not in {None, request.name}:
        raise CliError(
            f"{request.file} is for tenant {metadata['name']}, but the command line names {request.name}",
            next_step="leave the name out",
            code=Exit.USAGE,
        )
    try:
        names.check_tenant_name(str(name))
    except names.InvalidTenantNameError as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    spec = dict(spec)
    if request.class_name:
        spec["class"] = request.class_name
    if request.mode:
        spec["scheduling"] = _section(spec, "scheduling") | {"mode": request.mode}
    if request.quota:
        quota = _section(spec, "quota")
        resources = _section(quota, "resources")
        named = {name: _section(resources, name) | {"nominal": value} for name, value in request.quota.items()}
        spec["quota"] = quota | {"resources": resources | named}
    if request.admins:
        access = _section(spec, "access")
        there = access.get("admins") or []
        if not isinstance(there, list):
            raise CliError(f"admins in the file must be a list, not {there!r:.60}", code=Exit.USAGE)
        spec["access"] = access | {"admins": [*there, *map(_admin, request.admins)]}
    return (
        {"apiVersion": names.API_VERSION, "kind": "Tenant"}
        | dict(tenant)
        | {"metadata": metadata | {"name": str(name)}, "spec": spec}
    )


def _section(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """A part of the file that an option adds to; other values than objects are not overridden silently."""
    found = value.get(field)
    if found is not None and not isinstance(found, dict):
        raise CliError(f"{field} in the file must be an object, not {found!r:.60}", code=Exit.USAGE)
    return dict(found or {})


def _admin(text: str) -> dict[str, str]:
    kind, separator, name = text.partition(":")
    if separator and kind in {"group", "user"}:
        return {"kind": kind.capitalize(), "name": name}
    return {"kind": "User", "name": text}
