"""`bulkhead kubeconfig`: a kubeconfig of a tenant, printed or written to a file that only its owner can read.

It contains no secret, except with `--static`: then it contains a certificate that is valid for an hour.
"""

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from bulkhead.api.conditions import ConditionType, condition_of
from bulkhead.api.objects import Obj
from workstation.cli import access, connection, eventloop, hostfile, merging
from workstation.cli.arguments import Host, Target, add_host, add_target, add_tenant, host_of, target_of
from workstation.cli.credentials import certificate, choice, document
from workstation.cli.credentials.choice import Wanted
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import plain
from workstation.cli.parsing import RAW, Parser


@dataclass(frozen=True, slots=True)
class KubeconfigRequest:
    """`kubeconfig TENANT`."""

    host: Host
    tenant: str
    # Whether it contains a certificate.
    static: bool
    # Whether it is for users of a provider, and of which one: None for the first.
    for_people: bool
    issuer: str | None
    target: Target
    # Whether it becomes a context of the file that kubectl reads.
    merge: bool = False


def add_arguments(parser: Parser) -> None:
    """`kubeconfig TENANT`."""
    parser.description = (
        "Print a kubeconfig of a tenant, or write it to a file that only you can read. It contains no secret: kubectl "
        "calls this command for a certificate for an hour, with your kubeconfig of the host, and again when that expires."
    )
    parser.epilog = (
        "examples:\n  bulkhead kubeconfig red --write red.yaml\n"
        "  bulkhead kubeconfig red --merge                     then: kubectl --context bulkhead-red get nodes\n"
        "  bulkhead kubeconfig red --oidc --write red.yaml     to hand out; users run bulkhead login -f red.yaml, or kubectl\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    parser.add_argument("--static", action="store_true", help="put a certificate for an hour into it, for automation")
    people = parser.add_mutually_exclusive_group()
    people.add_argument(
        "--oidc",
        action="store_true",
        help="for users who sign in at the tenant's identity provider and have no rights on the host: hand them this file",
    )
    people.add_argument("--issuer", metavar="NAME", help="the same, for one of several providers")
    parser.add_argument(
        "--merge",
        action="store_true",
        help="add it as context bulkhead-TENANT to --write FILE, by default the file that kubectl reads",
    )
    add_tenant(parser)
    add_target(parser, "the kubeconfig", "- for stdout, the default")
    parser.does(_request, print_kubeconfig)


def _request(options: argparse.Namespace) -> KubeconfigRequest:
    return KubeconfigRequest(
        host=host_of(options),
        tenant=options.tenant,
        static=options.static,
        for_people=options.oidc or bool(options.issuer),
        issuer=options.issuer,
        target=target_of(options),
        merge=options.merge,
    )


def _pinned(host: Host) -> Host:
    """The host with the context that is current now: the merged file may be the host's own, and get another current one."""
    path = hostfile.find_kubeconfig(host.kubeconfig)
    return replace(host, context=host.context or merging.current_context(path))


def print_kubeconfig(request: KubeconfigRequest) -> int:
    """`bulkhead kubeconfig TENANT [--static] [--merge] [--write FILE|-] [-o json|yaml]`."""
    data = eventloop.run(_fetch(request))
    if request.merge:
        return _merge(request, data)
    if request.target.form == "yaml":
        import yaml  # noqa: PLC0415 - slow to load

        data = str(yaml.safe_dump(json.loads(data), sort_keys=False)).encode()
    if request.target.path in {None, "-"}:
        sys.stdout.write(data.decode())
        sys.stdout.flush()
        return Exit.DONE
    path = Path(str(request.target.path))
    access.write_private(path, data)
    sys.stderr.write(f"wrote {path}\nnext:  KUBECONFIG={path} kubectl get nodes\n")
    return Exit.DONE


def _merge(request: KubeconfigRequest, data: bytes) -> int:
    if request.target.path == "-":
        raise CliError("--merge changes a file, and --write - names none", code=Exit.USAGE)
    path = Path(request.target.path) if request.target.path else merging.default_path()
    merging.merge_into(path, data, request.tenant)
    context = merging.context_of(request.tenant)
    sys.stderr.write(f"added context {context} to {path}\nnext:  kubectl --context {context} get nodes\n")
    return Exit.DONE


async def _fetch(request: KubeconfigRequest) -> bytes:
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, request.tenant)
        if request.for_people:
            return _for_people(request, tenant)
        if not request.static:
            return document.with_certificates(_pinned(request.host) if request.merge else request.host, tenant)
        document.place_of(tenant)
        return document.with_certificate(tenant, await certificate.obtain(client, request.tenant))


def _for_people(request: KubeconfigRequest, tenant: Obj) -> bytes:
    """A kubeconfig for users of a provider, on their own machines: there `bulkhead` is looked up on PATH."""
    name = document.name_of(tenant)
    issuer = choice.of_tenant(tenant, Wanted(request.issuer))
    if issuer is None:
        raise CliError(
            f"tenant {name} has no identity provider for kubectl",
            next_step="list one in access.issuers of its class, and name it in access.oidc of the Tenant",
            code=Exit.NOT_FOUND,
        )
    document.place_of(tenant)
    exposed = condition_of(tenant, ConditionType.EXPOSED)
    if exposed is None or exposed.get("status") != "True":
        why = plain((exposed or {}).get("message") or "it has no spec.exposure", 300)
        sys.stderr.write(f"warning: tenant {name} is not exposed ({why}): this file works only where its address is routed\n")
    return document.with_tokens(tenant, issuer, ["bulkhead"])
