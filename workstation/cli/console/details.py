"""What the page asks about one tenant when a user opens it, tries a quota, or looks at usage. Read-only.

    tenant   conditions, parts, events, quota lines, certificates with their ends, snapshots; and what may not be read, by name
    try      which pods a changed quota would cost, and which it would start: the ledger's decision, not carried out
    usage    device-hours by day

Private keys lie beside certificates in Secrets: nothing but the certificates' names and ends leaves this file.
"""

import asyncio
import base64
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.conditions import SnapshotCondition, condition_of
from bulkhead.api.ledger import line_name
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import unit_of
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.objects import Resource
from bulkhead.ledger.trial import try_quota
from bulkhead.metering.meter import HOUR
from workstation.cli.console.alarms import level_of
from workstation.cli.console.live import Live
from workstation.cli.failures import CliError
from workstation.cli.quotas import trial, usage
from workstation.cli.quotas.hostview import Reading
from workstation.cli.quotas.usageforms import billed, of_present, told_apart
from workstation.cli.tenant import waiting
from workstation.cli.tenant.cause import first_cause, namespace_of
from workstation.cli.tenant.description import about, event_lines, pod_lines, quota_lines, without_startup
from workstation.cli.trouble import troubles
from workstation.console.server import QuestionError

_MAX_EVENTS: Final = 30
_MAX_SNAPSHOTS: Final = 20
_MAX_CERTIFICATES: Final = 100
_MAX_PEM_BYTES: Final = 64 * 1024
_DAYS: Final = 14
_DAY_MS: Final = 24 * HOUR
_MAX_LOSSES: Final = 200


class Details:
    """Answers about single tenants."""

    def __init__(self, client: Client, live: Live) -> None:
        self._client = client
        self._live = live
        # A trial and a sum of usage take a while; one of each kind at a time is enough for one user.
        self._trying = asyncio.Lock()
        self._summing = asyncio.Lock()

    async def tenant(self, parameters: Mapping[str, str]) -> Any:
        """All that `describe` shows, and certificates and snapshots."""
        seen, name = self._live.observed(), parameters.get("name", "")
        tenant = seen.view.tenants.get(name)
        if tenant is None:
            raise QuestionError("this tenant does not exist, or has gone")
        plane = names.plane_namespace(name)
        unread: list[str] = []
        pods, events, own, quotas, secrets, snapshots = await asyncio.gather(
            self._listed(kinds.PODS, plane, unread),
            self._listed(kinds.EVENTS, plane, unread),
            self._listed(kinds.EVENTS, None, unread, f"involvedObject.kind=Tenant,involvedObject.name={name}"),
            self._listed(kinds.RESOURCE_QUOTAS, names.work_namespace(name), unread),
            self._listed(kinds.SECRETS, plane, unread),
            self._listed(kinds.TENANT_SNAPSHOTS, None, unread),
        )
        cause = first_cause(tenant, seen.controllers, troubles(pods, waiting.current(events, pods)))
        spec, status = mapping(tenant.get("spec")), mapping(tenant.get("status"))
        ledger = seen.view.snapshot.tenants.get(name)
        return {
            "name": name,
            "cause": {
                "healthy": cause.healthy,
                "level": str(level_of(tenant, cause)),
                "reason": cause.reason,
                "what": cause.what,
                "since": cause.since,
                "next": cause.next_step,
            },
            "facts": {
                "class": text(spec.get("class")),
                "mode": text(mapping(spec.get("scheduling")).get("mode")),
                "Kubernetes": text(mapping(status.get("versions")).get("kubernetes")),
                "endpoint": text(status.get("endpoint")),
                "cohort": ledger.cohort if ledger else "",
                "created": text(tenant["metadata"].get("creationTimestamp")),
            },
            "conditions": [
                {field: text(item.get(field)) for field in ("type", "status", "reason", "message", "lastTransitionTime")}
                for item in mappings(status.get("conditions"), 64)
            ],
            "parts": [
                {"name": line.name, "ready": f"{line.ready}/{line.containers}", "phase": line.phase, "restarts": line.restarts}
                | {"node": line.node}
                for line in pod_lines(pods)
            ],
            "events": [
                {"at": line.when, "type": line.type, "reason": line.reason, "object": line.object, "text": line.message}
                for line in event_lines([*about(tenant, own), *without_startup(events, pods)])[-_MAX_EVENTS:][::-1]
            ],
            "limits": [list(row) for row in quota_lines(quotas)],
            "certificates": list(certificates(secrets)),
            "snapshots": _snapshots(snapshots, tenant),
            "lines": []
            if ledger is None
            else [
                {"name": line_name(*line), "nominal": share.nominal, "unit": "devices" if "/" in line[1] else unit_of(line[1])}
                for line, share in sorted(ledger.shares.items())
            ],
            "unread": unread,
        }

    async def attempt(self, parameters: Mapping[str, str]) -> Any:
        """What another quota of one line would do."""
        seen = self._live.observed()
        if seen.reading:
            raise QuestionError("nodes and pods are still being read; try again in a moment")
        view = seen.view
        name, line, amount = (parameters.get(field, "") for field in ("name", "line", "nominal"))
        tenant = view.snapshot.tenants.get(name)
        if tenant is None:
            raise QuestionError("the ledger counts nothing for this tenant")
        try:
            shares = trial.changed(tenant, {line: _quantity(line, amount)})
        except (CliError, ValueError) as error:
            raise QuestionError(str(error)) from error
        try:
            bounds = await trial.bounds_of(self._client, view.tenants.get(name, {}))
        except (KubeError, TimeoutError) as error:
            raise QuestionError(f"the tenant's class was not read: {error}") from error
        warnings = trial.beyond(tenant, shares, bounds)
        async with self._trying:
            found = await asyncio.to_thread(try_quota, view.snapshot, name, shares, view.now)
        told = trial.as_json(tenant, shares, found)
        lost: dict[str, int] = {}
        for loss in found.losses:
            lost[loss.pod.tenant] = lost.get(loss.pod.tenant, 0) + sum(
                number for key, number in loss.pod.asks.items() if "/" in key
            )
        return {
            "warnings": warnings,
            "lost": sorted(lost.items(), key=lambda item: (-item[1], item[0])),
            "losses": told["losses"][:_MAX_LOSSES],
            "lossesLeft": max(0, len(found.losses) - _MAX_LOSSES),
            "starts": told["starts"][:_MAX_LOSSES],
            "kept": told["kept"],
        }

    async def usage(self, parameters: Mapping[str, str]) -> Any:
        """Device-hours of one tenant, or of all, for each day and resource."""
        tenant = parameters.get("name", "")
        now = round(time.time() * 1000)
        since = now // _DAY_MS * _DAY_MS - (_DAYS - 1) * _DAY_MS
        try:
            async with self._summing:
                pages, fresh = await usage.collect(self._client, namespace_of(self._live.controllers), since, now, Reading())
        except (CliError, KubeError) as error:
            raise QuestionError(str(error)) from error
        days: dict[tuple[str, int], list[int]] = {}
        rows = told_apart(billed(pages, fresh, tenant or None), since)
        # The page of a tenant shows nothing of another one that had its name before.
        for hour, account, sums in of_present(rows) if tenant else [row[:3] for row in rows]:
            held = days.setdefault((account.resource, hour * HOUR // _DAY_MS), [0, 0, 0])
            for at, part in enumerate((sums.used, sums.idle, sums.borrowed)):
                held[at] += part
        return {
            "since": _stamp(since),
            "days": _DAYS,
            "rows": [
                {
                    "resource": resource,
                    "day": _stamp(day * _DAY_MS)[:10],
                    "used": used / HOUR,
                    "idle": idle / HOUR,
                    "borrowed": lent / HOUR,
                }
                for (resource, day), (used, idle, lent) in sorted(days.items())
            ],
        }

    async def _listed(
        self, r: Resource, namespace: str | None, unread: list[str], field_selector: str | None = None
    ) -> list[Obj]:
        try:
            return (await self._client.list(r, namespace, field_selector=field_selector)).items
        except NotFound:
            return []
        except KubeError as error:
            unread.append(f"{r.plural} of {namespace or 'the host'}: {error}")
            return []


def _quantity(line: str, amount: str) -> str:
    """The quantity of an amount in base units: the page counts in millicores and bytes."""
    if not (amount.isascii() and amount.isdigit() and len(amount) < 18):
        raise ValueError("the quota must be a whole number")
    return f"{amount}m" if line.partition("@")[0] == "cpu" else amount


def certificates(secrets: Iterable[Obj]) -> Iterator[dict[str, Any]]:
    """Name and end of each certificate in a plane's Secrets, once each, the first to end first."""
    from cryptography import x509  # noqa: PLC0415 - slow to load

    found: dict[tuple[str, int], dict[str, Any]] = {}
    for secret in secrets:
        for file, stored in mapping(secret.get("data")).items():
            pem = base64.b64decode(text(stored)[: 2 * _MAX_PEM_BYTES] + "==")
            if b"-----BEGIN CERTIFICATE-----" not in pem:
                continue
            try:
                certificate = x509.load_pem_x509_certificate(pem)
            except ValueError:
                continue
            subject = certificate.subject.rfc4514_string()
            where = f"{text(mapping(secret.get('metadata')).get('name'))}/{file}"
            told = {"subject": subject[:200], "where": where, "ends": certificate.not_valid_after_utc.isoformat()}
            found.setdefault((subject, certificate.serial_number), told)
    yield from sorted(found.values(), key=lambda told: told["ends"])[:_MAX_CERTIFICATES]


def _snapshots(snapshots: Iterable[Obj], tenant: Obj) -> list[dict[str, Any]]:
    """The newest snapshots of this tenant's plane, and none of a former tenant of its name, whose plane was another one."""
    identity = text(mapping(tenant.get("status")).get("planeIdentity"))
    mine = [
        item
        for item in snapshots
        if mapping(item.get("spec")).get("tenant") == tenant["metadata"]["name"]
        and (not identity or text(mapping(item.get("status")).get("identity")) in {"", identity})
    ]
    mine.sort(key=lambda item: text(item["metadata"].get("creationTimestamp")), reverse=True)
    rows = []
    for item in mine[:_MAX_SNAPSHOTS]:
        complete, status = condition_of(item, SnapshotCondition.COMPLETE), mapping(item.get("status"))
        rows.append(
            {
                "name": text(item["metadata"].get("name")),
                "whole": complete.get("status") == "True",
                "text": text(complete.get("message")),
                "at": text(status.get("completionTime")) or text(item["metadata"].get("creationTimestamp")),
                "bytes": status.get("storedBytes") if isinstance(status.get("storedBytes"), int) else 0,
            }
        )
    return rows


def _stamp(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
