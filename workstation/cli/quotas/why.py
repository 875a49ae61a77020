"""`bulkhead why [TENANT] POD`: why a pod waits; or where it runs, what it borrows, and when it will be evicted.

    virtual name ──> host pod, by its annotations ──> explained: quota, gang, nodes, queue, forecast
                └──> none: the tenant's own API, if it answers ──> the pod's condition there
    without a tenant: the plane of the kubeconfig, for the tenant's own users (`own`)

The tenant's plane is asked only for what the host does not have. The deadline is short, and answers are bounded.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Form, Host, add_host, add_output, form_of, host_of
from workstation.cli.credentials import certificate
from workstation.cli.credentials import document as kubeconfigs
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, plain
from workstation.cli.parsing import RAW, Parser
from workstation.cli.quotas import hostview, own, whytext
from workstation.cli.quotas.containerstates import how_it_ended, what_keeps_it
from workstation.cli.quotas.explained import explain
from workstation.cli.quotas.guess import did_you_mean
from workstation.cli.quotas.hostview import View

_PLANE_SECONDS: Final = 5.0
_ANSWER_LIMIT_BYTES: Final = 8 << 20
_MAX_NAMES: Final = 5000
# Reasons that a syncer sets on pods that stay in the plane for lack of quota.
_BEYOND: Final = frozenset({"QuotaExceeded"})


@dataclass(frozen=True, slots=True)
class WhyRequest:
    """`why [TENANT] POD`: namespace and pod are the names in the plane; an empty tenant means the plane itself."""

    host: Host
    tenant: str
    pod: str
    namespace: str
    form: Form


def add_arguments(parser: Parser) -> None:
    """`why [TENANT] POD`."""
    parser.description = (
        "Why a pod waits, in detail: its verdict, the numbers of its quota, the missing pods of its gang, what keeps it from\n"
        "which nodes, its place in the queue, and a forecast. For a pod that runs: where, what it borrows, and until when."
    )
    parser.epilog = (
        "examples:\n"
        "  bulkhead why red train-0\n"
        "  bulkhead why red train-0 -n ml\n"
        "  bulkhead why red train-0 -o json | jq .placement\n"
        "  bulkhead why train-0 -n ml                       in your own tenant, with its kubeconfig\n\n"
        "TENANT POD are the names that the tenant uses. A pod that has no host pod, because it was refused or exceeds all\n"
        "that its tenant may ever hold, is explained by the tenant's own API.\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    # One word is the pod: a tenant's user has no need to name the tenant.
    parser.add_argument(
        "tenant", metavar="TENANT", type=values.tenant_or_pod, help="the tenant; without it the kubeconfig must be a tenant's"
    )
    parser.add_argument("pod", metavar="POD", nargs="?", type=values.object_name, help="the pod, by its name in the tenant")
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=values.object_name,
        default="default",
        help="its namespace in the plane; default `default`",
    )
    add_output(parser, more="; json and yaml use base units and are complete")
    parser.does(_request, explain_pod)


def _request(options: argparse.Namespace) -> WhyRequest:
    tenant, pod = ("", options.tenant) if options.pod is None else (options.tenant, options.pod)
    return WhyRequest(host_of(options), tenant, pod, options.namespace, form_of(options))


def explain_pod(request: WhyRequest) -> int:
    """`bulkhead why [TENANT] POD [-n NAMESPACE] [-o table|json|yaml]`."""
    return eventloop.run(_explain(request))


async def _explain(request: WhyRequest) -> int:
    async with connection.host_client(request.host) as client:
        if not request.tenant:
            return await own.explain(client, request.namespace, request.pod, request.form)
        view = await hostview.observe(client, _called(request))
        tenant = tenant_of(view, request.tenant)
        if view.kept:
            # After a pod was deleted and recreated under its name, both host pods may exist for a while.
            newest = max(view.kept, key=lambda obj: str(mapping(obj.get("metadata")).get("creationTimestamp") or ""))
            uid = str(newest["metadata"]["uid"])
            pod = next((candidate for candidate in view.snapshot.pods if candidate.uid == uid), None)
            if pod is not None:
                found = explain(view.snapshot, pod, view.now)
                noted = mapping(newest["metadata"].get("annotations"))
                if request.form != "table":
                    kept = ": ".join(part for part in what_keeps_it(newest) if part)
                    unscheduled = ": ".join(part for part in whytext.unscheduled(newest) if part)
                    more = {"claims": whytext.claims_of(newest), "unscheduled": unscheduled, "kept": kept}
                    document(whytext.as_json(found, noted) | more, request.form)
                else:
                    lines = (
                        *whytext.text(found, noted, view.now),
                        *whytext.of_claims(newest),
                        *whytext.of_scheduler(newest),
                        *whytext.of_containers(newest),
                    )
                    sys.stdout.write("\n".join(lines) + "\n")
                return Exit.DONE
        if _text(tenant, "deletionTimestamp"):
            end = "never starts: it had no node yet" if view.kept else "has no host pod"
            raise CliError(
                f"tenant {request.tenant} is being deleted, and its pod {request.namespace}/{request.pod} {end}",
                next_step=f"see what is left of the tenant: bulkhead tenant describe {request.tenant}",
                code=Exit.NOT_FOUND,
            )
        known = await _ask_plane(client, request, tenant, view)
    if request.form != "table":
        document(known, request.form)
    else:
        sys.stdout.write("\n".join(_lines(known)) + "\n")
    return Exit.DONE


def tenant_of(view: View, name: str) -> Obj:
    """The Tenant. Raises CliError with the name that the user may have meant."""
    try:
        names.check_tenant_name(name)
    except names.InvalidTenantNameError as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    found = view.tenants.get(name)
    if found is None:
        raise CliError(
            f"tenant {name}: not found",
            next_step=did_you_mean(name, view.tenants, "list the tenants: bulkhead tenant list"),
            code=Exit.NOT_FOUND,
        )
    return found


def _called(request: WhyRequest) -> Callable[[Obj], bool]:
    """Whether a host pod belongs to the pod that the user named."""

    def called(pod: Obj) -> bool:
        meta = mapping(pod.get("metadata"))
        noted = mapping(meta.get("annotations"))
        return bool(
            names.tenant_of_work(str(meta.get("namespace"))) == request.tenant
            and noted.get(labels.VIRTUAL_NAME) == request.pod
            and noted.get(labels.VIRTUAL_NAMESPACE) == request.namespace
        )

    return called


async def _ask_plane(client: Client, request: WhyRequest, tenant: Obj, view: View) -> dict[str, Any]:
    """The state of a pod that has no host pod, from the tenant's own API."""
    copies = [pod for pod in view.snapshot.pods if pod.tenant == request.tenant and pod.virtual_name]
    here = [f"{copy.virtual_name} -n {copy.virtual_namespace}" for copy in copies]
    try:
        found = await certificate.current(client, request.host, tenant, patience=_PLANE_SECONDS)
        data = kubeconfigs.with_certificate(tenant, found)
        async with connection.plane_client(data, seconds=_PLANE_SECONDS, answer_bytes=_ANSWER_LIMIT_BYTES) as plane:
            try:
                pod = await plane.get(kinds.PODS, request.pod, request.namespace)
            except NotFound:
                listed = await plane.list_metadata(kinds.PODS)
                here = [f"{_text(pod, 'name')} -n {_text(pod, 'namespace')}" for pod in listed.items[:_MAX_NAMES]]
                raise _no_such_pod(request, here) from None
    except CliError as error:
        if error.code == Exit.NOT_FOUND:
            raise
        raise _unknown(request, error.cause, here) from error
    except KubeError as error:
        raise _unknown(request, str(error), here) from error
    return _of_virtual(pod, request)


def _meant(request: WhyRequest, here: Iterable[str], otherwise: str) -> str:
    """The same pod in another namespace, or else pods with similar names, those of its namespace first."""
    known = list(here)
    same = next((shown for shown in known if shown.startswith(f"{request.pod} -n ")), None)
    if same is not None:
        return f"did you mean {plain(same, 300)}?"
    # All pods share the `-n NAMESPACE` part, which must not make names similar.
    called: dict[str, str] = {}
    for shown in sorted(known, key=lambda shown: shown.endswith(f" -n {request.namespace}")):
        called[shown.partition(" -n ")[0]] = shown
    return did_you_mean(request.pod, called, otherwise, called)


def _no_such_pod(request: WhyRequest, here: Iterable[str]) -> CliError:
    return CliError(
        f"tenant {request.tenant} has no pod {request.pod} in namespace {request.namespace}",
        next_step=_meant(request, here, f"list them: bulkhead connect {request.tenant} -- kubectl get pods -A"),
        code=Exit.NOT_FOUND,
    )


def _unknown(request: WhyRequest, cause: str, here: Iterable[str]) -> CliError:
    step = _meant(request, here, f"see the plane: bulkhead tenant describe {request.tenant}")
    return CliError(
        f"pod {request.namespace}/{request.pod} has no host pod, and the tenant's own API, which would know why, "
        f"does not answer: {cause}",
        next_step=step,
    )


def _text(obj: Obj, field: str) -> str:
    return str(mapping(obj.get("metadata")).get(field) or "")


def _of_virtual(pod: Obj, request: WhyRequest) -> dict[str, Any]:
    """What is known of a pod that exists only in the plane."""
    scheduled = condition_of(pod, "PodScheduled")
    phase = str(mapping(pod.get("status")).get("phase") or "")
    state = phase if has_ended(pod) else "Ending" if _text(pod, "deletionTimestamp") else "NotOnHost"
    return {
        "tenant": request.tenant,
        "namespace": request.namespace,
        "pod": request.pod,
        "state": state,
        "node": placed_on(pod),
        "reason": str(scheduled.get("reason") or "")[:200] if scheduled.get("status") == "False" else "",
        "message": str(scheduled.get("message") or "")[:4000] if scheduled.get("status") == "False" else "",
        "ended": how_it_ended(pod),
    }


def _lines(known: Mapping[str, Any]) -> list[str]:
    title = f"pod {known['namespace']}/{known['pod']} of tenant {known['tenant']}"
    if known["state"] in {"Succeeded", "Failed"}:
        return [f"{title} has ended: {known['state']}" + (f": {plain(known['ended'], 2000)}" if known["ended"] else "")]
    if known["state"] == "Ending":
        return [f"{title} is being deleted, and no longer has a host pod"]
    lines = [f"{title} has no host pod: it is not in the ledger's queue"]
    if known["reason"]:
        lines.append(f"  its condition is {plain(known['reason'])}: {plain(known['message'], 2000)}")
    else:
        lines.append(f"  its syncer has not reported why yet: bulkhead tenant describe {known['tenant']}")
    if known["reason"] in _BEYOND:
        lines.append("  it waits in the plane, because it exceeds the nominal quota and all that its tenant may ever borrow")
    return lines
