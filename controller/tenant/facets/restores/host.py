"""What a restore reads and writes on the host: read afresh, because each step rests on the one before."""

import base64
import contextlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bulkhead.api import labels, names, planeidentity
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import serves
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, NotFound
from bulkhead.kube.objects import Resource
from bulkhead.snapshots import bundle
from bulkhead.snapshots.bundle import Bundle, BundleError
from controller.host.owned import SELECTOR
from controller.pki.material import files_of
from controller.plane import memberrecord, statefulset
from controller.plane.memberrecord import CONFIG_MAP, Record, pods_of
from controller.plane.restoring import FORMER_KEY, MEMBER_LABEL
from controller.plane.spec import PLANE, RESTORE, SYNCER, PlaneSpec
from controller.restores.decide import Keys
from controller.slurm.keystore import OFF, is_off

_log = logging.getLogger(__name__)
SECRET: Final = "plane-restore"  # noqa: S105 - the name of a Secret
FILE: Final = "plane.json"
FORMER_NOTE: Final = "quarantineBefore"
# An API server refuses the token of a pod a minute after the pod should have ended; some seconds longer it remembers a token.
_SHUT_OUT: Final = timedelta(minutes=2)
# The UID of the TenantRestore that the keys belong to.
OF: Final = "restore"


@dataclass(frozen=True, slots=True)
class Standing:
    """Which parts of the plane are on the host. quiet: no pod of plane and syncer works there, and none will come."""

    built: bool
    quiet: bool
    full: int


class RestoreHost:
    """Reads and writes for restores."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def request(self, name: str) -> Obj | None:
        """The TenantRestore as it is now; None if it is gone."""
        return await self._find(kinds.TENANT_RESTORES, name, None)

    async def report(self, request: Obj, wanted: Obj) -> Obj:
        """Write its status, if that changes it; returns it as it is then."""
        before = request.get("status") or {}
        if all(before.get(key) == value for key, value in wanted.items()):
            return request
        body = {"metadata": {"uid": request["metadata"]["uid"]}, "status": wanted}
        return await self._client.patch(kinds.TENANT_RESTORES, request["metadata"]["name"], body, subresource="status")

    async def is_gone(self, tenant: str) -> bool:
        """Whether nothing is left of a tenant's plane."""
        return await self._find(kinds.NAMESPACES, names.plane_namespace(tenant), None) is None

    async def look(self, spec: PlaneSpec, now: datetime, *, keys: bool) -> Standing:
        """How the plane stands. `keys`: whether it has keys."""
        namespace = spec.namespace
        plane = await self._find(kinds.STATEFUL_SETS, PLANE, namespace)
        syncer = await self._find(kinds.DEPLOYMENTS, SYNCER, namespace)
        pods = (await self._client.list(kinds.PODS, namespace, label_selector=SELECTOR)).items
        running = [pod for pod in pods if _component(pod) in {PLANE, SYNCER} and not _is_shut_out(pod, now)]
        full = {pod["metadata"]["labels"].get(MEMBER_LABEL) for pod in pods if _component(pod) == RESTORE and serves(pod)}
        return Standing(
            built=plane is not None or keys,
            quiet=not running and all(found is None or _is_down(found) for found in (plane, syncer)),
            full=len(full & set(pods_of(spec))),
        )

    async def keep_quarantined(self, spec: PlaneSpec, note: str, cluster_uid: str) -> None:
        """Write the note. It takes the place of an earlier one, which comes back if nothing is restored."""
        record = await self._find(kinds.CONFIG_MAPS, planeidentity.NAME, spec.namespace)
        former = planeidentity.recorded(record).quarantine
        if former == note:
            return
        data = {planeidentity.QUARANTINE_KEY: note} | ({FORMER_NOTE: former} if former else {})
        if record is None:
            data |= {planeidentity.UID_KEY: cluster_uid} if cluster_uid else {}
            await self._client.create(kinds.CONFIG_MAPS, planeidentity.config_map(spec.namespace, data))
        else:
            version = {"resourceVersion": record["metadata"]["resourceVersion"]}
            await self._client.patch(kinds.CONFIG_MAPS, planeidentity.NAME, {"metadata": version, "data": data}, spec.namespace)
        _log.info("the syncer will delete nothing: %s", note, extra={"tenant": spec.tenant})

    async def release(self, spec: PlaneSpec, note: str, *, restored: bool, cluster_uid: str = "") -> None:
        """Remove this note and no other one. If the data was `restored`, an earlier note goes too: its data was replaced.

        Then `cluster_uid`, that of the restored data, goes into the record; an empty one changes nothing there.
        """
        record = await self._find(kinds.CONFIG_MAPS, planeidentity.NAME, spec.namespace)
        if record is None or planeidentity.recorded(record).quarantine != note:
            return
        former = None if restored else (record.get("data") or {}).get(FORMER_NOTE)
        meta = {"resourceVersion": record["metadata"]["resourceVersion"]}
        data = {planeidentity.QUARANTINE_KEY: former, FORMER_NOTE: None}
        if restored and cluster_uid:
            # An empty plane may have been accepted since the snapshot.
            data[planeidentity.UID_KEY] = cluster_uid
        body = {"metadata": meta, "data": data}
        await self._client.patch(kinds.CONFIG_MAPS, planeidentity.NAME, body, spec.namespace)

    async def highest_revision(self, spec: PlaneSpec) -> int:
        """The highest revision that the host has seen of the plane."""
        return planeidentity.recorded(await self._find(kinds.CONFIG_MAPS, planeidentity.NAME, spec.namespace)).revision

    async def has_run(self, spec: PlaneSpec) -> bool:
        """Whether a syncer of this plane has ever run."""
        return bool(planeidentity.recorded(await self._find(kinds.CONFIG_MAPS, planeidentity.NAME, spec.namespace)).uid)

    async def claim(self, spec: PlaneSpec) -> bool:
        """Create the claims that are missing; whether none was."""
        made, missing = statefulset.claim(spec), []
        for pod in pods_of(spec):
            name = f"{made['metadata']['name']}-{pod}"
            if await self._find(kinds.PERSISTENT_VOLUME_CLAIMS, name, spec.namespace) is None:
                missing.append(name)
        for name in missing:
            body = made | {"metadata": made["metadata"] | {"name": name, "namespace": spec.namespace}}
            try:
                await self._client.create(kinds.PERSISTENT_VOLUME_CLAIMS, body, spec.namespace)
            except AlreadyExists:
                continue
        return not missing

    async def close_members(self, spec: PlaneSpec) -> None:
        """End what several members were about: founding, a replacement, or a recovery that would go on with new data."""
        if spec.control_plane.replicas == 1:
            return
        found, wanted = await self._find(kinds.CONFIG_MAPS, CONFIG_MAP, spec.namespace), memberrecord.data(spec, Record())
        if found is None:
            await self._client.create(kinds.CONFIG_MAPS, memberrecord.config_map(spec, Record()))
        elif any((found.get("data") or {}).get(key) != text for key, text in wanted.items()):
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            await self._client.patch(kinds.CONFIG_MAPS, CONFIG_MAP, {"metadata": version, "data": wanted}, spec.namespace)

    async def write(self, spec: PlaneSpec, keys: Keys, there: Mapping[str, Obj]) -> None:
        """Put keys back. Every write of a key names the version that was read.

        The data may have a Slurm cluster that was removed since: without its mark it is looked for, and taken down again.
        """
        for name, files in keys.create.items():
            meta = {"name": name, "labels": labels.made_for(spec.tenant, PLANE)}
            body: Obj = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": _encoded(files)}
            await self._client.create(kinds.SECRETS, body, spec.namespace)
        for name, files in keys.change.items():
            version = {"resourceVersion": there[name]["metadata"]["resourceVersion"]}
            body = {"metadata": version, "data": _encoded(files)}
            await self._client.patch(kinds.SECRETS, name, body, spec.namespace)
        if names.SLURM_KEYS in there and is_off(there[names.SLURM_KEYS]):
            unmarked = {"metadata": {"annotations": {OFF: None}}}
            await self._client.patch(kinds.SECRETS, names.SLURM_KEYS, unmarked, spec.namespace)

    async def drop(self, spec: PlaneSpec, secrets: Mapping[str, Obj]) -> None:
        """Delete Secrets as they were read. One that was written since has the keys of another restore, and stays."""
        for name, secret in secrets.items():
            with contextlib.suppress(Conflict):
                version = str(secret["metadata"]["resourceVersion"])
                await self._client.delete(kinds.SECRETS, name, spec.namespace, resource_version=version)

    async def mirrored(self, spec: PlaneSpec, resource: Resource) -> list[Obj]:
        """The metadata of what the syncer has made of one kind."""
        found = await self._client.list_metadata(resource, spec.work_namespace, label_selector=labels.MIRRORED)
        return list(found.items)

    async def _find(self, resource: Resource, name: str, namespace: str | None) -> Obj | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None


def brought(secrets: Mapping[str, Obj], uid: str) -> Bundle | None:
    """The keys that came for this restore; None if there are none. Raises BundleError."""
    files = files_of(secrets.get(SECRET))
    if _came_for(files) != uid:
        return None
    if FILE not in files:
        raise BundleError(f"Secret {SECRET} has no {FILE}")
    return bundle.read(files[FILE])


def left_over(secrets: Mapping[str, Obj], unfinished: Collection[str]) -> dict[str, Obj]:
    """The Secrets with keys that no restore needs: the one in which they came, and the original's key that a clone had.

    `unfinished`: the UIDs of the tenant's TenantRestores that are to be done.
    """
    brought_secret, former = secrets.get(SECRET), secrets.get(FORMER_KEY)
    found = {}
    if brought_secret is not None and _came_for(files_of(brought_secret)) not in unfinished:
        found[SECRET] = brought_secret
    if former is not None and not unfinished:
        found[FORMER_KEY] = former
    return found


def _came_for(files: Mapping[str, bytes]) -> str:
    return files.get(OF, b"").decode("ascii", "replace")


def _component(pod: Obj) -> str:
    return str((pod["metadata"].get("labels") or {}).get(labels.COMPONENT) or "")


def _is_shut_out(pod: Obj, now: datetime) -> bool:
    """Whether this is a syncer whose token the host refuses by now, such as one that is stuck on a dead node."""
    due = pod["metadata"].get("deletionTimestamp")
    return _component(pod) == SYNCER and due is not None and now - datetime.fromisoformat(due) > _SHUT_OUT


def _is_down(workload: Obj) -> bool:
    """Whether its controller has seen that it shall have no pods."""
    status, meta = workload.get("status") or {}, workload["metadata"]
    seen = int(status.get("observedGeneration") or 0) >= int(meta.get("generation") or 0)
    return workload["spec"].get("replicas") == 0 and seen and not status.get("replicas")


def _encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(content).decode() for name, content in files.items()}
