"""Host and plane side by side: which object of one belongs to which of the other, and which fields of a pod matter to both.

The owner of a host object follows from its annotations. They are read here without the syncer's code, which is under test.
"""

from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES
from syncer.settings import Settings
from syncer.translate.references import of_pod
from tests.simulation.api import Api
from tests.simulation.kinds import GPU

KINDS: Final = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS, "Service": SERVICES, "Pod": PODS}


class Sides:
    """Both API servers of one tenant."""

    def __init__(self, host: Api, plane: Api, settings: Settings) -> None:
        self.host = host
        self.plane = plane
        self.work = settings.work_namespace
        self.waits_for_ledger = bool(settings.gated_resources)
        self._tenant_uid = settings.tenant_uid

    def host_key(self, kind: str, key: Key) -> Key:
        """Where the host object of a virtual one lies."""
        return Key(self.work, names.host_name(self._tenant_uid, kind, key.namespace, key.name))

    def mirror(self, uid: str) -> Obj | None:
        """The host pod of a virtual UID."""
        pods = self.host.store.all(PODS, self.work)
        return next((each for each in pods if marks.is_mirrored(each) and virtual_uid(each) == uid), None)


def virtual_uid(host: Obj) -> str:
    """The UID of the virtual object; empty where it names none."""
    return str((host["metadata"].get("annotations") or {}).get(marks.VIRTUAL_UID, ""))


def origin_of(host: Obj) -> Key:
    """Namespace and name of the virtual object."""
    annotations = host["metadata"]["annotations"]
    return Key(annotations[marks.VIRTUAL_NAMESPACE], annotations[marks.VIRTUAL_NAME])


def ended(pod: Obj) -> bool:
    """Whether all its containers have ended for good."""
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def needs(virtual: Obj) -> set[tuple[str, Key]]:
    """The ConfigMaps and Secrets that a virtual pod refers to."""
    found = of_pod(virtual) if virtual else frozenset()
    return {(each.kind, Key(each.namespace, each.name)) for each in found if each.kind in {"ConfigMap", "Secret"}}


def mounts(host: Obj) -> set[tuple[str, str]]:
    """Kind and name of what a host pod runs with."""
    return {(each.kind, each.name) for each in of_pod(host)}


def gpus(pod: Obj) -> int:
    """How many GPUs a pod asks for."""
    asked = ((each.get("resources") or {}).get("requests") or {} for each in pod["spec"]["containers"])
    return sum(int(each.get(GPU, 0)) for each in asked)


def changes(pod: Obj) -> list[object]:
    """The fields of a pod that may change while it runs: its CPU, and its containers for debugging."""
    cpu = [((each.get("resources") or {}).get("requests") or {}).get("cpu") for each in pod["spec"]["containers"]]
    return [*cpu, *sorted(each["name"] for each in pod["spec"].get("ephemeralContainers") or ())]
