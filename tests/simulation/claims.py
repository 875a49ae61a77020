"""Claims and what must hold for them: a tenant's data is in the volume of its host claim, and goes with it.

The actors' part (binding, protection) and the oracle's: a host claim is made once for a virtual one and not deleted while that
is there; once all is quiet both say the same, and the plane has one volume for each bound claim and none besides.
"""

from collections.abc import Callable, Iterator
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, Resource, key_of, uid_of
from bulkhead.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from tests.simulation.api import Api
from tests.simulation.kinds import PROTECTION
from tests.simulation.sides import ended, origin_of, virtual_uid
from tests.simulation.store import Commit, copied, kind_of

KIND: Final = "PersistentVolumeClaim"
_MERGE: Final = "application/merge-patch+json"


def of_pod(pod: Obj) -> set[str]:
    """The names of the claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}


def usable(api: Api, pod: Obj) -> bool:
    """Whether a scheduler would place a pod with its claims."""
    space = key_of(pod).namespace
    found = [api.store.get(PERSISTENT_VOLUME_CLAIMS, Key(space, name)) for name in of_pod(pod)]
    return all(each and not each["metadata"].get("deletionTimestamp") and _is_bound(each) for each in found)


def provision(api: Api, space: str) -> None:
    """The host's storage: every claim gets a volume of its own."""
    for claim in api.store.all(PERSISTENT_VOLUME_CLAIMS, space):
        if _is_bound(claim) or claim["metadata"].get("deletionTimestamp"):
            continue
        bound = copied(claim)
        bound["spec"]["volumeName"] = f"volume-of-{uid_of(claim)}"
        bound["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        api.store.put(PERSISTENT_VOLUME_CLAIMS, bound, "provisioner")


def unprotect(api: Api) -> None:
    """The controllers that let go of claims that no pod uses, and of volumes that are not bound."""
    used = _used(api)
    for claim in api.store.all(PERSISTENT_VOLUME_CLAIMS):
        if key_of(claim) not in used:
            _let_go(api, PERSISTENT_VOLUME_CLAIMS, claim)
    for volume in api.store.all(PERSISTENT_VOLUMES):
        if (volume.get("status") or {}).get("phase") != "Bound":
            _let_go(api, PERSISTENT_VOLUMES, volume)


def _used(api: Api) -> set[Key]:
    """Claims of pods that are placed: no kubelet would start another one with a claim that is going."""
    users = [each for each in api.store.all(PODS) if each["spec"].get("nodeName") and not ended(each)]
    return {Key(key_of(each).namespace, name) for each in users for name in of_pod(each)}


def _let_go(api: Api, r: Resource, obj: Obj) -> None:
    meta, key = obj["metadata"], key_of(obj)
    if meta.get("deletionTimestamp") and PROTECTION[r] in (meta.get("finalizers") or ()):
        left = [each for each in meta["finalizers"] if each != PROTECTION[r]]
        api.do("PATCH", r, {"metadata": {"finalizers": left}}, namespace=key.namespace, name=key.name, content_type=_MERGE,
               user="protection")  # fmt: skip


class ClaimWatch:
    """The oracle's part."""

    def __init__(self, host: Api, plane: Api, work: str, violate: Callable[[str], None]) -> None:
        self._host = host
        self._plane = plane
        self._work = work
        self._violate = violate
        self._made: set[str] = set()

    def on_host(self, commit: Commit) -> None:
        """A commit of the syncer on the host."""
        if commit.kind != kind_of(PERSISTENT_VOLUME_CLAIMS):
            return
        before, after = commit.before, commit.after
        if before is None and after is not None:
            uid = virtual_uid(after)
            if uid in self._made:
                self._violate(f"claim {origin_of(after)} was made a second time: its data is lost")
            self._made.add(uid)
        ends = before is not None and (after is None or "deletionTimestamp" in after["metadata"])
        if before is not None and ends and "deletionTimestamp" not in before["metadata"]:
            virtual = self._plane.store.get(PERSISTENT_VOLUME_CLAIMS, origin_of(before))
            if virtual is not None and uid_of(virtual) == virtual_uid(before):
                self._violate(f"I8: host claim of {origin_of(before)} deleted although its virtual one is there")

    def differences(self, host_key: Callable[[str, Key], Key]) -> Iterator[str]:
        """What is missing or different on one of the sides, or an orphan."""
        wanted = set()
        for virtual in self._plane.store.all(PERSISTENT_VOLUME_CLAIMS):
            key, uid = key_of(virtual), uid_of(virtual)
            host = self._host.store.get(PERSISTENT_VOLUME_CLAIMS, host_key(KIND, key))
            wanted.add(f"pvc-{uid}")
            if virtual["metadata"].get("deletionTimestamp"):
                continue
            if host is not None and virtual_uid(host) != uid and self._held(host):
                continue
            if host is None or virtual_uid(host) != uid:
                yield f"claim {key} has no host claim"
            elif virtual["status"].get("phase") != host["status"].get("phase"):
                phases = [each["status"].get("phase") for each in (virtual, host)]
                yield f"claim {key}: phase is {phases[0]} in the plane, {phases[1]} on the host"
            elif _is_bound(host):
                yield from self._volume(virtual)
        for volume in self._plane.store.all(PERSISTENT_VOLUMES):
            if key_of(volume).name not in wanted:
                yield f"volume {key_of(volume).name} has no claim"
        for host in self._host.store.all(PERSISTENT_VOLUME_CLAIMS, self._work):
            virtual_one = self._plane.store.get(PERSISTENT_VOLUME_CLAIMS, origin_of(host))
            gone = virtual_one is None or uid_of(virtual_one) != virtual_uid(host)
            if gone and not self._held(host):
                yield f"host claim of {origin_of(host)} has no virtual one"

    def _held(self, host: Obj) -> bool:
        """Whether a host claim goes with the last pod that runs with it.

        A pod may be placed on the host in the very moment in which the plane, where it is not placed yet, lets its claim go.
        """
        return bool(host["metadata"].get("deletionTimestamp")) and key_of(host) in _used(self._host)

    def _volume(self, virtual: Obj) -> Iterator[str]:
        key, name = key_of(virtual), f"pvc-{uid_of(virtual)}"
        volume = self._plane.store.get(PERSISTENT_VOLUMES, Key("", name))
        if virtual["spec"].get("volumeName") != name:
            yield f"claim {key} is bound and names {virtual['spec'].get('volumeName')!r} as its volume"
        if volume is None or volume["metadata"].get("deletionTimestamp") or volume["status"].get("phase") != "Bound":
            yield f"claim {key} has no bound volume"
        elif volume["spec"]["claimRef"]["uid"] != uid_of(virtual):
            yield f"the volume of claim {key} is for another one"


def _is_bound(claim: Obj) -> bool:
    return bool(claim["status"].get("phase") == "Bound" and claim["spec"].get("volumeName"))
