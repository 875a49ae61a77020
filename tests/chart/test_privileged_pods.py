"""A pod with privileges beyond baseline never enters a work namespace, for any user, and wherever in the pod the privilege is.

Planes admit such pods, so that their users can read the refusal on them; these tests show that this gains nothing.
"""

import re
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS
from controller.plane.namespaces import namespaces
from tests.chart.admission_objects import CLOSED, TEAM_A, debugger, pod
from tests.chart.policed import in_force, named
from tests.kit.applying import apply_all
from tests.kit.known import IN_FORCE
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

CONTEXTS: Final[dict[str, Obj]] = {
    "privileged": {"privileged": True},
    "one capability": {"capabilities": {"add": ["SYS_ADMIN"]}},
    "one among others": {"capabilities": {"add": ["KILL", "BPF"]}},
    "every capability": {"capabilities": {"add": ["ALL"]}},
    "no filter of system calls": {"seccompProfile": {"type": "Unconfined"}},
    "no AppArmor": {"appArmorProfile": {"type": "Unconfined"}},
    "a type of SELinux": {"seLinuxOptions": {"type": "spc_t"}},
    "a user of SELinux": {"seLinuxOptions": {"user": "system_u"}},
}
OF_PODS: Final[dict[str, Obj]] = {
    "the node's processes": pod(hostPID=True),
    "the node's IPC": pod(hostIPC=True),
    "the node's network": pod(hostNetwork=True),
    "a path of the node": pod(volumes=[{"name": "v", "hostPath": {"path": "/dev"}}]),
    "a port of the node": pod({"ports": [{"containerPort": 80, "hostPort": 80}]}),
    "a sysctl of the node": pod(
        securityContext=pod()["spec"]["securityContext"] | {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}
    ),
    "no filter of the pod": pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
    # No API server takes it without the node's network.
    "processes of a Windows host": pod(
        hostNetwork=True, securityContext=pod()["spec"]["securityContext"] | {"windowsOptions": {"hostProcess": True}}
    ),
}
_BY_ANYBODY: Final = re.compile(r'violates PodSecurity "baseline:v1.36"')
_BY_SOMEBODY: Final = re.compile(rf"{_BY_ANYBODY.pattern}|ValidatingAdmissionPolicy 'bulkhead-")


def with_init(context: Obj, **spec: Any) -> Obj:
    return pod(initContainers=[{"name": "i", "image": "x", "envFrom": CLOSED, "securityContext": context}], **spec)


# Pod Security lets a pod in a user namespace of its own have it, since v1.35; our policy does not.
UNMASKED: Final[Obj] = {
    "unmasked proc of a container": pod({"securityContext": {"procMount": "Unmasked"}}, hostUsers=False),
    "unmasked proc of an init container": with_init({"procMount": "Unmasked"}, hostUsers=False),
}
REFUSED: Final = (
    {f"{name} of a container": pod({"securityContext": context}) for name, context in CONTEXTS.items()}
    | {f"{name} of an init container": with_init(context) for name, context in CONTEXTS.items()}
    | OF_PODS
)
LABELS: Final = namespaces(TEAM_A)[1]["metadata"]["labels"]
LEVEL: Final = {key: value for key, value in LABELS.items() if key.startswith("pod-security.kubernetes.io/")}


async def said(client: Client, obj: Obj) -> str:
    """What refuses a pod; empty where it is taken, and gone again."""
    obj = named(obj)
    try:
        await client.create(PODS, obj)
    except ApiError as error:
        return error.message
    await client.delete(PODS, obj["metadata"]["name"], obj["metadata"]["namespace"])
    return ""


async def said_of_debuggers(client: Client, namespace: str) -> dict[str, str]:
    """The same of ephemeral containers in a pod that is there; the first is an ordinary one."""
    obj = named(moved(pod(), namespace))
    name = (await client.create(PODS, obj))["metadata"]["name"]
    answers = {}
    for at, (what, context) in enumerate(({"an ordinary one": {}} | CONTEXTS).items()):
        body: Any = {"spec": {"ephemeralContainers": [debugger(name=f"d{at}", securityContext=context)]}}
        if at:
            body["spec"]["ephemeralContainers"].insert(0, debugger(name="d0", securityContext={}))
        try:
            await client.patch(PODS, name, body, namespace, subresource="ephemeralcontainers")
        except ApiError as error:
            answers[what] = error.message
        else:
            answers[what] = ""
    await client.delete(PODS, name, namespace)
    return answers


def moved(obj: Obj, namespace: str) -> Obj:
    return obj | {"metadata": obj["metadata"] | {"namespace": namespace}}


def unrefused(answers: dict[str, str], by: "re.Pattern[str]") -> dict[str, str]:
    return {name: answer for name, answer in answers.items() if not by.search(answer)}


@pytest.mark.apiserver
async def test_pod_security_of_the_namespace_refuses_it_to_every_user(admin: Client) -> None:
    spec = plane_spec(tenant="team-p", service_slice="10.112.12.0/22")
    await apply_all(admin, namespaces(spec))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "workload", "namespace": spec.work_namespace}}
    await admin.apply(SERVICE_ACCOUNTS, account)
    assert await said(admin, moved(pod(), spec.work_namespace)) == ""
    answers = {name: await said(admin, moved(obj, spec.work_namespace)) for name, obj in REFUSED.items()}
    assert unrefused(answers, _BY_ANYBODY) == {}
    answers = await said_of_debuggers(admin, spec.work_namespace)
    assert answers.pop("an ordinary one") == ""
    assert unrefused(answers, _BY_ANYBODY) == {}


@pytest.mark.apiserver
async def test_what_a_syncer_asks_for_is_refused_with_both_deciders_in_force(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"labels": LEVEL}})
    try:
        # Only Pod Security looks at capabilities.
        capable = REFUSED["one capability of a container"]
        await until(lambda: _refused(syncer, capable), "the level of the namespace to count", IN_FORCE)
        assert await said(syncer, pod()) == ""
        answers = {name: await said(syncer, obj) for name, obj in (REFUSED | UNMASKED).items()}
        assert unrefused(answers, _BY_SOMEBODY) == {}
        answers = await said_of_debuggers(syncer, "bh-team-a-work")
        assert answers.pop("an ordinary one") == ""
        assert unrefused(answers, _BY_SOMEBODY) == {}
    finally:
        await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"labels": dict.fromkeys(LEVEL)}})
        await until(lambda: _taken(admin, capable), "the namespace to be as before", IN_FORCE)


async def _refused(client: Client, obj: Obj) -> bool:
    return bool(await said(client, obj))


async def _taken(client: Client, obj: Obj) -> bool:
    return not await said(client, obj)
