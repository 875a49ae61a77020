"""Tests with one pod each: claims, GPUs, user namespaces, images; and whether Pod Security refuses.

Each test waits for its own pods. The caller sets the deadline, and then uses what is known.
"""

import asyncio
import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import Forbidden, KubeError, NotFound
from workstation.preflight.facts import Pull, Unseen
from workstation.preflight.judge import gpus, nodes
from workstation.preflight.probes import objects
from workstation.preflight.probes.space import Space, phase, waiting

_SECRET_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
GIVEN = "preflight-given"
_MAX_NODES = 16


async def pod_security(space: Space) -> bool | Unseen:
    """Whether a privileged pod is refused; the dry run creates none."""
    body = codec.encode(objects.privileged_pod())
    try:
        await space.client.transport.request("POST", kinds.PODS.path(space.name), params={"dryRun": "All"}, body=body)
    except Forbidden as error:
        if "PodSecurity" in error.message:
            return True
        return Unseen(f"a privileged pod was refused for another reason: {error.message}")
    except KubeError as error:
        return Unseen(f"a privileged pod could not be tested: {error}")
    return False


async def copy_secrets(space: Space, names: Iterable[str], namespace: str, given: bytes | None) -> dict[str, str]:
    """The pull secrets of the release namespace, copied for the probes, each with its fault; empty if it has none."""
    found = {name: await _copied(space, name, namespace) for name in names}
    if given is not None:
        data = {".dockerconfigjson": base64.b64encode(given).decode()}
        found[GIVEN] = await _made(space, GIVEN, _SECRET_TYPES[0], data)
    return found


async def _copied(space: Space, name: str, namespace: str) -> str:
    try:
        secret = await space.client.get(kinds.SECRETS, name, namespace)
    except NotFound:
        return f"does not exist in {namespace}"
    except (KubeError, ValueError) as error:
        return f"cannot be read: {error}"
    kind = text(secret.get("type"))
    if kind not in _SECRET_TYPES:
        return f"has type {kind}, which is not a type of pull secret"
    data = {key: value for key, value in mapping(secret.get("data")).items() if key in {".dockerconfigjson", ".dockercfg"}}
    return _unreadable(data) or await _made(space, name, kind, data)


async def _made(space: Space, name: str, kind: str, data: Mapping[str, Any]) -> str:
    try:
        await space.client.create(kinds.SECRETS, {"metadata": {"name": name}, "type": kind, "data": dict(data)}, space.name)
    except KubeError as error:
        return f"cannot be used: {error}"
    return ""


def _unreadable(data: Mapping[str, Any]) -> str:
    try:
        plain = [json.loads(base64.b64decode(value, validate=True)) for value in data.values()]
    except (ValueError, TypeError, binascii.Error, RecursionError):
        return "holds no configuration of registries"
    return "" if plain and all(isinstance(entry, dict) for entry in plain) else "holds no configuration of registries"


async def claim(space: Space, shape: objects.Shape, name: str, class_name: str, mode: str) -> None:
    """A claim, and a pod that writes to it; the pod also triggers classes that wait for a first consumer."""
    made = objects.pod(shape, name, {"write": "/data/preflight"})
    try:
        await space.client.create(kinds.PERSISTENT_VOLUME_CLAIMS, objects.claim(name, class_name, mode), space.name)
    except KubeError as error:
        space.refuse(name, str(error))
        return
    await space.add(objects.with_claim(made, name))
    await space.until(name, lambda pod: phase(pod) == "Succeeded")


async def user_namespace(space: Space, shape: objects.Shape) -> None:
    """A pod in a user namespace, which reports who its root is."""
    await _ended(space, objects.in_user_namespace(objects.pod(shape, nodes.USER_NAMESPACE, {"facts": True})))


async def gpu(space: Space, shape: objects.Shape, names: list[str]) -> None:
    """A pod on a node with GPUs, which requests none but sets NVIDIA_VISIBLE_DEVICES=all."""
    env = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
    if names:
        await _ended(space, objects.on_nodes(objects.pod(shape, gpus.RUNTIME, {"facts": True}, env=env), names))


async def _ended(space: Space, pod: Obj) -> None:
    await space.add(pod)
    await space.until(pod["metadata"]["name"], lambda found: phase(found) == "Succeeded")


async def pulls(space: Space, shape: objects.Shape, images: Mapping[str, str], on: list[str], found: dict[str, Pull]) -> None:
    """Pull every image once, and the first one on every node, because each node must know the registry.

    All pulls run at once. `found` is filled as they finish, so that nothing is lost at the deadline.
    """
    wanted: dict[str, tuple[str, str]] = {name: (reference, "") for name, reference in images.items()}
    first = next(iter(images), "")
    wanted |= {f"{first} on node {node}": (images[first], node) for node in on[:_MAX_NODES] if first}
    roles = {name: f"image-{number}" for number, name in enumerate(wanted)}
    for name, (reference, node) in wanted.items():
        found[name] = Pull(reference, pulled=False)
        pod = objects.image_pod(shape, roles[name], reference)
        await space.add(objects.on_nodes(pod, [node]) if node else pod)
    await asyncio.gather(*(_pull(space, roles[name], name, found) for name in wanted))


async def _pull(space: Space, role: str, name: str, found: dict[str, Pull]) -> None:
    reference = found[name].reference
    pod = await space.until(role, lambda pod: pull_of(pod, reference) is not None) or space.pods.get(role)
    decided = pull_of(pod, reference) if pod is not None else None
    if decided is None:
        probed = await space.probed(role, said=False)
        decided = Pull(reference, pulled=False, trouble="" if probed.pending else probed.trouble)
    found[name] = decided


# The kubelet gets to these reasons only once the image is there.
_AFTER = frozenset(
    {"CreateContainerError", "CreateContainerConfigError", "RunContainerError", "CrashLoopBackOff", "StartError"}
)
_REFUSED = frozenset({"ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImagePullBackOff", "RegistryUnavailable"})


def pull_of(pod: Mapping[str, Any], reference: str) -> Pull | None:
    """What a pod tells about its image; None as long as it tells nothing."""
    node = text(mapping(pod.get("spec")).get("nodeName"))
    reason, message = waiting(pod)
    if reason in _REFUSED:
        return Pull(reference, pulled=False, trouble=f"{reason}: {message}", node=node)
    for status in mappings(mapping(pod.get("status")).get("containerStatuses"), 4):
        state = mapping(status.get("state"))
        if reason in _AFTER or "terminated" in state or "running" in state:
            return Pull(reference, pulled=True, node=node)
    return None
