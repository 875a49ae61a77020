"""A tenant's own quota and pods, read from its plane with a user's kubeconfig and no right on the host: what the user may see.

    kube-public/bulkhead-quota ──> OwnQuota, OwnUsage ───┐
    own pods, as far as the user may list ───────────────┤
    what their GPUs do, own Slurm jobs (`ownreading`) ───┴──> OwnView ──> `quota show`, `top`, `why POD` (`owntext`, pure)

Everything comes from the plane, where each user sees what the plane's own rights let them see.
"""

import argparse
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from bulkhead.api import ownquota, ownusage
from bulkhead.api.ledger import moment
from bulkhead.api.objects import Obj
from bulkhead.api.ownusage import OwnUsage
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_obj
from bulkhead.kube.errors import Forbidden, Gone, KubeError, NotFound, Unauthorized
from bulkhead.kube.objects import uid_of
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Form, Host, add_host, add_output, form_of, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, plain, table
from workstation.cli.parsing import RAW, Parser
from workstation.cli.quotas import ownhours, ownreading, owntext
from workstation.cli.quotas.guess import did_you_mean
from workstation.cli.quotas.owngpus import Uses
from workstation.cli.quotas.ownjobs import Jobs
from workstation.cli.quotas.owntext import OwnPod, OwnView

_ALIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"
_MAX_PODS: Final = 20_000
_MAX_EVENTS: Final = 200
# GPUs are measured every 30 s, and slurmctld has more to do than to answer.
_ASK_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """`quota show`."""

    host: Host
    form: Form


def add_show(actions: "argparse._SubParsersAction[Parser]") -> None:
    """`quota show`."""
    show = actions.add_parser(
        "show",
        help="show your own quota, in your tenant's cluster",
        description="Show your tenant's own quota: what it may use, uses, lends and borrows, its other limits, and how many\n"
        "of its pods wait and why. It needs only a kubeconfig of the tenant, and no rights on the host.",
        epilog="examples:\n"
        "  bulkhead login -f team-a.yaml && export KUBECONFIG=~/.kube/bulkhead/team-a.yaml\n"
        "  bulkhead quota show\n"
        "  bulkhead quota show -o json | jq '.lines[0].borrowable'\n",
        formatter_class=RAW,
    )
    add_host(show)
    add_output(show, more="; json and yaml use base units")
    show.does(lambda options: ShowRequest(host_of(options), form_of(options)), show_quota)


def show_quota(request: ShowRequest) -> int:
    """`bulkhead quota show [-o table|json|yaml]`."""
    return eventloop.run(_show(request))


async def _show(request: ShowRequest) -> int:
    async with connection.host_client(request.host) as client:
        view = await observe(client, with_pods=False)
    if view is None:
        raise no_picture()
    _print(request.form, owntext.quota_json(view), owntext.quota_lines(view))
    return Exit.DONE


class Top:
    """`top` of a plane's own tenant, once or again and again; GPUs and Slurm are asked once in ten seconds."""

    def __init__(self, client: Client, form: Form, resource: str | None) -> None:
        """`resource`: only this one; None for all."""
        self._client = client
        self._form = form
        self._resource = resource
        self._uses: Uses | None = None
        self._jobs: Jobs | None = None
        self._asked_at: float | None = None

    async def show(self) -> bool:
        """Print it; False if the cluster is not a plane that shows its quota."""
        view = await observe(self._client)
        if view is None:
            return False
        if self._resource is not None:
            view = _only(view, self._resource)
        if self._asked_at is None or view.now - self._asked_at >= _ASK_SECONDS:
            await self._ask(view)
        view = replace(view, uses=self._uses, jobs=self._jobs)
        _print(self._form, owntext.top_json(view), owntext.top_lines(view))
        return True

    async def _ask(self, view: OwnView) -> None:
        pods = view.pods or ()
        nodes = {pod.node for pod in pods if pod.node and any("/" in name for name in pod.asks)}
        self._uses = await ownreading.gpu_uses(self._client, nodes) if nodes else None
        slurm = ownreading.has_slurm({pod.namespace for pod in pods})
        self._jobs = await ownreading.slurm_jobs(self._client) if slurm else None
        self._asked_at = view.now


def _only(view: OwnView, resource: str) -> OwnView:
    """The lines of one resource, and the pods that request it. Raises CliError if the quota has no such line."""
    lines = tuple(line for line in view.own.lines if line.resource == resource)
    if not lines:
        known = ", ".join(plain(name, 100) for name in view.devices) or "none"
        raise CliError(f"your tenant's quota has no {plain(resource, 100)}; it has: {known}", code=Exit.NOT_FOUND)
    pods = None if view.pods is None else [pod for pod in view.pods if resource in pod.asks]
    return replace(view, own=replace(view.own, lines=lines)).with_pods(pods)


async def explain(client: Client, namespace: str, name: str, form: Form) -> int:
    """Print why one of the user's own pods waits, or where it runs."""
    view = await observe(client, with_pods=False)
    if view is None:
        raise no_picture()
    try:
        pod = await client.get(kinds.PODS, name, namespace)
    except Forbidden as error:
        raise CliError(
            f"you may not read pods of namespace {namespace} in your tenant: {error}",
            next_step="name another namespace with -n, or ask an admin of your tenant for a Role that gets pods",
        ) from error
    except NotFound:
        here = await _names(client, namespace)
        raise CliError(
            f"there is no pod {name} in namespace {namespace}",
            next_step=did_you_mean(name, here, f"list them: kubectl get pods -n {namespace}"),
            code=Exit.NOT_FOUND,
        ) from None
    events = await _events(client, pod)
    own = OwnPod.of(pod, view.devices)
    _print(form, owntext.pod_json(view, own, events), owntext.pod_lines(view, own, events))
    return Exit.DONE


async def usage(client: Client, form: Form, since: float) -> bool:
    """Print for how long the plane's own tenant held devices; False if the cluster is not a plane that shows its quota.

    `since` is in seconds since 1970; whole days are shown, in UTC.
    """
    view = await observe(client, with_pods=False)
    if view is None:
        return False
    if view.usage is None:
        sys.stderr.write(
            "your platform has not noted any device-hours of your tenant yet; it does so about every five minutes\n"
        )
    known = view.usage or OwnUsage(view.now)
    day = datetime.fromtimestamp(since, UTC).date().isoformat()
    if form != "table":
        document(ownhours.as_json(known, since=day), form)
        return True
    rows = ownhours.table_rows(known, since=day)
    if rows:
        table(ownhours.HEADERS, [tuple(plain(cell, 100) for cell in row) for row in rows])
    sys.stderr.write(f"device-hours of your tenant from {day} to {moment(known.until)}\n")
    return True


async def observe(client: Client, *, with_pods: bool = True) -> OwnView | None:
    """What the plane shows of its tenant; None if the cluster has no such picture, or the user may not read it."""
    try:
        stored = await client.get(kinds.CONFIG_MAPS, ownquota.CONFIG_MAP, ownquota.NAMESPACE)
    except (NotFound, Forbidden):
        return None
    found = ownquota.read(stored)
    if found is None:
        return None
    own, at = found
    view = OwnView(own, at, time.time(), usage=ownusage.of_config_map(stored))
    return view.with_pods(await _pods(client, view.devices)) if with_pods else view


async def _pods(client: Client, devices: Iterable[str]) -> list[OwnPod] | None:
    """The pods that have not ended; None if the user may not list those of all namespaces."""
    wanted = tuple(devices)
    for _ in range(2):
        found: list[OwnPod] = []
        try:
            async for page in client.pages(kinds.PODS, field_selector=_ALIVE):
                found += [OwnPod.of(decode_obj(raw), wanted) for raw in page.items]
                if len(found) >= _MAX_PODS:
                    break
        except Forbidden:
            return None
        except Gone:
            continue
        return found
    return found


async def _events(client: Client, pod: Obj) -> list[Obj]:
    """The events of one pod; none if they cannot be read, which is reported unless this user may not."""
    try:
        listed = await client.list(
            kinds.EVENTS, pod["metadata"]["namespace"], field_selector=f"involvedObject.uid={uid_of(pod)}"
        )
    except Forbidden:
        return []
    except Unauthorized:
        raise
    except KubeError as error:
        sys.stderr.write(f"not shown: events: {plain(error)}\n")
        return []
    return listed.items[-_MAX_EVENTS:]


async def _names(client: Client, namespace: str) -> list[str]:
    """The pods of a namespace, as far as this user may list them."""
    try:
        listed = await client.list_metadata(kinds.PODS, namespace)
    except Forbidden:
        return []
    return [str(found["metadata"]["name"]) for found in listed.items]


def no_picture() -> CliError:
    """The error for a cluster that does not show a tenant's own quota."""
    return CliError(
        f"this cluster has no ConfigMap {ownquota.NAMESPACE}/{ownquota.CONFIG_MAP}: it is not a tenant's, or is not synced yet",
        next_step="use your tenant's kubeconfig: bulkhead login -f FILE; on the host name the tenant: bulkhead why TENANT POD",
        code=Exit.NOT_FOUND,
    )


def _print(form: Form, value: object, lines: Iterable[str]) -> None:
    if form == "table":
        sys.stdout.write("\n".join(lines) + "\n")
    else:
        document(value, form)
