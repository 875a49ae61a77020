"""Level 3: every case against the host's policies alone, by objects that never met a check of the syncer.

    honest mirror + attack ──> create │ merge patch │ ephemeral container ─┬─> refused: policy, Pod Security, API server
                                                                           ├─> ignored: the patch changes nothing
                                                                           └─> harmless
    `harmless.yaml` lists the last two with their reasons: what is ignored never counts as refused

The controls: the honest mirror and every case's honest twin are let in by the same server, as the same syncer.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest
import pytest_asyncio

from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube.client import MERGE_PATCH, Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import SERVICE_CIDRS
from bulkhead.kube.transport import JSON
from syncer.translate import TenantView
from syncer.translate.kinds.pod import ephemeral_containers
from syncer.translate.registry import KINDS
from tests.adversarial import smuggled
from tests.adversarial.cases import CASES, HARMLESS, IGNORED, PODS, ignored, view_of
from tests.chart.test_policies_and_translation import offer
from tests.kit import translationsamples as samples
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver
DEBUGGED: Final = sorted(name for name, case in PODS.items() if "container" in case)
TWINS: Final = sorted(name for name, case in CASES.items() if "twin" in case)
# Each case is one request or two: a loop and connections for the file, not for each test.
ONE_LOOP: Final = pytest.mark.asyncio(loop_scope="module")
_ready: set[str] = set()
# Honest mirrors by namespace and name, to which each change is tried; their names are not those of what is created.
_kept: dict[tuple[str, str], Obj] = {}
CHANGED: Final = {"metadata": {"name": "changed"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(translated_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(by_token(translated_server.admin), user_agent="tests", field_manager="tests") as client:
        yield client


class Smuggler:
    """A syncer whose own checks are gone, for the tenant of one case."""

    def __init__(self, admin: Client, syncer: Client, view: TenantView) -> None:
        self._admin = admin
        self._syncer = syncer
        self.view = view

    async def create(self, obj: Obj) -> str:
        """The words of a refused create; empty if it would be accepted. Nothing stays stored."""
        kind, space = _resource(obj), self.view.work_namespace
        try:
            if obj["kind"] != "Service":
                await self._try("POST", kind.path(space), obj)
                return ""
            # A dry run looks for a Service's address in any one of the ranges.
            made = await self._syncer.create(kind, obj, space)
        except ApiError as error:
            return error.message
        await self._admin.patch(kind, made["metadata"]["name"], {"metadata": {"finalizers": None}}, space)
        await self._admin.delete(kind, made["metadata"]["name"], space, grace_seconds=0)
        return ""

    async def patch(self, mirror: Obj, change: Obj, subresource: str | None = None) -> str:
        """The same of a merge patch of the honest mirror; `IGNORED` if the API server takes it and changes nothing."""
        kind, name = _resource(mirror), mirror["metadata"]["name"]
        if (made := _kept.get((self.view.work_namespace, name))) is None:
            made = await self._syncer.create(kind, mirror, self.view.work_namespace)
            _kept[self.view.work_namespace, name] = made
        try:
            found = await self._try("PATCH", kind.path(self.view.work_namespace, name, subresource), change, MERGE_PATCH)
        except ApiError as error:
            return error.message
        return IGNORED if smuggled.content(found) == smuggled.content(made) else ""

    async def _try(self, method: str, path: str, body: Obj, content_type: str = JSON) -> Obj:
        """A request that is decided like any other, and stores nothing."""
        params = {"dryRun": "All", "fieldManager": self._syncer.field_manager}
        data = await self._syncer.transport.request(
            method, path, params=params, body=codec.encode(body), content_type=content_type
        )
        return codec.decode_obj(data)


def _resource(obj: Obj) -> Resource:
    kind = KINDS[obj["kind"]]
    return Resource(kind.group, kind.version, kind.plural, kind.kind, True)


Smuggling = Callable[[Any], Awaitable[Smuggler]]
Telling = Callable[[str], str]


@pytest.fixture
def told(record_property: Callable[[str, object], None]) -> Telling:
    """Notes who refused what is tried, and hands the refusal on."""

    def note(refusal: str) -> str:
        record_property("decided_by", decider(refusal))
        return refusal

    return note


def decider(refusal: str) -> str:
    """The source of a refusal: a policy by its name, Pod Security, or the API server itself."""
    if named := re.search(r"ValidatingAdmissionPolicy '([\w.-]+)'", refusal):
        return named[1]
    if "violates PodSecurity" in refusal:
        return "Pod Security"
    return {"": "harmless", IGNORED: IGNORED}.get(refusal, "the host's API server")


def outcome(refusal: str) -> str:
    """What became of an attack."""
    return {"": "let in", IGNORED: IGNORED}.get(refusal, "refused")


def wanted(operation: str, name: str) -> str:
    """What has to become of a case, by the reviewed lists."""
    if name in ignored(operation):
        return IGNORED
    return "let in" if name in HARMLESS[operation] else "refused"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def smuggling(translated_server: ApiServer, admin: Client) -> AsyncIterator[Smuggling]:
    """Opens the tenant of a case: its namespace with the facts and labels that the controller writes, the policies in force."""
    syncers: dict[str, Client] = {}

    async def opened(changes: Any) -> Smuggler:
        view = view_of(changes)
        if view.tenant not in syncers:
            config = translated_server.config_for(f"system:serviceaccount:bh-{view.tenant}:syncer", "system:masters")
            made = Client(config, user_agent="tests", field_manager="syncer")
            syncers[view.tenant] = await made.__aenter__()
        found = Smuggler(admin, syncers[view.tenant], view)
        if view.tenant not in _ready:
            await offer(admin, view)
            await admin.apply(SERVICE_CIDRS, {"metadata": {"name": "planes"}, "spec": {"cidrs": [view.service_slice]}})
            await _in_force(found)
            _ready.add(view.tenant)
        return found

    yield opened
    for client in syncers.values():
        await client.__aexit__(None, None, None)


async def _in_force(smuggler: Smuggler) -> None:
    """Wait until policies know the tenant's facts: they refuse a pod that tolerates every taint, and let the honest one in."""
    mirror = KINDS["Pod"].to_host(_honest(smuggler.view), smuggler.view)

    async def known() -> bool:
        """The addresses of planes are known by then too."""
        if await smuggler.create(smuggled.honest_of("Service", smuggler.view)):
            return False
        tolerant = smuggled.over(mirror, {"spec": {"tolerations": [{"operator": "Exists"}]}})
        return "'bulkhead-syncer-" in await smuggler.create(tolerant) and not await smuggler.create(mirror)

    await until(known, "policies that know the tenant")


def _honest(view: TenantView) -> Obj:
    """The sample pod; at level restricted with what that asks for."""
    if view.pod_security != "restricted":
        return samples.pod()
    tight = {
        "allowPrivilegeEscalation": False, "runAsNonRoot": True, "runAsUser": 1000,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    return samples.container(securityContext=tight)


@ONE_LOOP
@pytest.mark.parametrize("name", sorted(CASES))
async def test_a_create_is_refused_whatever_the_syncer_does(smuggling: Smuggling, name: str, told: Telling) -> None:
    case = CASES[name]
    smuggler = await smuggling(case.get("view"))
    refusal = told(await smuggler.create(smuggled.host_object(case, smuggler.view)))
    assert outcome(refusal) == wanted("create", name), refusal


@ONE_LOOP
@pytest.mark.parametrize("name", sorted(PODS))
async def test_a_change_is_refused_whatever_the_syncer_does(smuggling: Smuggling, name: str, told: Telling) -> None:
    case = PODS[name]
    smuggler = await smuggling(case.get("view"))
    mirror = KINDS["Pod"].to_host(samples.merged(_honest(smuggler.view), CHANGED), smuggler.view)
    refusal = told(await smuggler.patch(mirror, smuggled.attack(case, mirror)))
    assert outcome(refusal) == wanted("update", name), refusal


@ONE_LOOP
@pytest.mark.parametrize("name", DEBUGGED)
async def test_an_ephemeral_container_is_refused_whatever_the_syncer_does(
    smuggling: Smuggling, name: str, told: Telling
) -> None:
    case = PODS[name]
    smuggler = await smuggling(case.get("view"))
    volumes = {"metadata": {"name": "debugged"}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    mirror = KINDS["Pod"].to_host(samples.merged(_honest(smuggler.view), volumes), smuggler.view)
    refusal = told(await smuggler.patch(mirror, smuggled.debugger(case, mirror), "ephemeralcontainers"))
    assert outcome(refusal) == wanted("ephemeral", name), refusal


@ONE_LOOP
async def test_an_honest_ephemeral_container_is_let_in(smuggling: Smuggling) -> None:
    """The control of the test above."""
    smuggler = await smuggling(None)
    mirror = KINDS["Pod"].to_host(samples.pod(metadata=CHANGED["metadata"]), smuggler.view)
    late = [{"name": "debug", "image": "a", "command": ["true"]}]
    translated = ephemeral_containers(samples.pod({"ephemeralContainers": late}), smuggler.view)
    assert await smuggler.patch(mirror, {"spec": {"ephemeralContainers": list(translated)}}, "ephemeralcontainers") == ""


@ONE_LOOP
@pytest.mark.parametrize("kind", sorted({case["object"]["kind"] for case in CASES.values() if "object" in case}))
async def test_an_honest_object_of_every_kind_is_let_in(smuggling: Smuggling, kind: str) -> None:
    """The control of cases of other kinds than pods: nothing but their attack is in their way."""
    name = next(name for name, case in CASES.items() if case.get("object", {}).get("kind") == kind)
    smuggler = await smuggling(CASES[name].get("view"))
    assert await smuggler.create(smuggled.honest_of(kind, smuggler.view)) == ""


@ONE_LOOP
@pytest.mark.parametrize("name", TWINS)
async def test_the_honest_twin_is_let_in(smuggling: Smuggling, name: str) -> None:
    twin = CASES[name]["twin"]
    smuggler = await smuggling(twin.get("view"))
    virtual = smuggled.virtual(twin, _honest(smuggler.view))
    assert await smuggler.create(KINDS[virtual["kind"]].to_host(virtual, smuggler.view)) == ""


def test_what_is_called_harmless_is_a_case_and_says_why() -> None:
    for operation, reasons in HARMLESS.items():
        assert reasons.keys() <= CASES.keys(), operation
        assert all(len(reason) > 20 for reason in reasons.values()), json.dumps(reasons, indent=1)
        of_same = operation.removeprefix("ignored in ")
        assert operation == of_same or not reasons.keys() & HARMLESS.get(of_same, {}).keys(), operation
