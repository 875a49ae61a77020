"""Level 2: what every component may do, as real API servers answer, held against a reviewed file.

    chart + what the controller makes for a tenant ──> RBAC ──> SelfSubjectRulesReview as each component, in each namespace
                                                                            └──> rights.yaml, reviewed

The host has the chart's rights and a tenant that is offered everything; the plane has what the controller makes inside of it.
`everywhere` are rights in all namespaces that were asked about. Rights that every user or every ServiceAccount has stand there
once.
`UPDATE_GOLDEN=1` writes the file.
"""

import itertools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from controller.inside.objects import bootstrap
from controller.plane.pki import DNS_USER, SYNCER_USER
from controller.plane.syncer import WORKLOAD
from controller.slurm.objects import ssh
from controller.slurm.spec import LoginSpec
from tests.adversarial.identities import RIGHTS, rights
from tests.kit import yamlfiles
from tests.kit.applying import apply_all
from tests.kit.helmchart import rendered
from tests.kit.servers import ApiServer, running
from tests.kit.slurmsamples import slurm_spec
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = pytest.mark.apiserver
FILE: Final = Path(__file__).with_name("rights.yaml")
REVIEWS: Final = Resource("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False)
HEAD: Final = (
    "# What every component may do on the host and in a plane, as API servers answer it: reviewed. A line is\n"
    "# `resource.group [names]: verbs`. tests/adversarial/test_rights.py and `UPDATE_GOLDEN=1` write it.\n"
)
# Everything that a class can offer a tenant, so that no right is missing here.
SPEC: Final = plane_spec(
    offers={
        "pod_groups": True,
        "snapshot_classes": ("daily",),
        "ingress_classes": ("public",),
        "ingress_domains": ("apps.example.org",),
        "ingress_controllers": ("ingress-nginx",),
    },
    ledger={"admits": True, "gated_gangs": True},
    images={"pull_secrets": ("registry",), "own": ("registry",)},
)
CHART: Final = ("--set", "exposure.domains={k8s.example.org}", "--set", "ingressDomains={apps.example.org}")
SYSTEM: Final = "bulkhead-system"
NEIGHBOUR: Final = "bh-team-b"
SPACES: Final = (
    "default", "kube-system", SYSTEM, "bulkhead-shared", SPEC.namespace, SPEC.work_namespace, NEIGHBOUR, f"{NEIGHBOUR}-work",
)  # fmt: skip
IDENTITY: Final = "bulkhead:host:ada"


def account(space: str, name: str) -> tuple[str, ...]:
    """A ServiceAccount as a user with its groups."""
    return f"system:serviceaccount:{space}:{name}", "system:serviceaccounts", f"system:serviceaccounts:{space}"


# Rights that others have by being users at all stand there once.
BASES: Final = {"every user": ("someone",), "every ServiceAccount": account("none", "none")}
ON_HOST: Final = {
    **BASES,
    "controller": account(SYSTEM, "bulkhead-controller"),
    "front door": account(SYSTEM, "bulkhead-proxy"),
    "syncer, and its shim": account(SPEC.namespace, "syncer"),
    "a tenant's pods": account(SPEC.work_namespace, WORKLOAD),
}
IN_PLANE: Final = {
    **BASES,
    "syncer": (SYNCER_USER,),
    "DNS": (DNS_USER,),
    "API server, as the shim's client": ("bulkhead:apiserver",),
    "front proxy": ("bulkhead:front-proxy",),
    "controller manager": ("system:kube-controller-manager",),
    "a user of Slurm": (IDENTITY,),
    "a pod of Slurm": account("slurm", "default"),
    "an admin of the tenant": ("alice", names.ADMIN_GROUP),
}


Right = tuple[str, str]  # what, and a verb


def rights_of(rules: Iterable[Mapping[str, Any]]) -> set[Right]:
    """The rules of a review, one entry for each resource and verb."""
    found: set[Right] = set()
    for rule in rules:
        named = f" [{' '.join(sorted(rule['resourceNames']))}]" if rule.get("resourceNames") else ""
        groups = [f".{group}" if group else "" for group in rule.get("apiGroups", ("",))]
        what = [f"{resource}{group}{named}" for group in groups for resource in rule.get("resources", ())]
        found |= set(itertools.product([*what, *rule.get("nonResourceURLs", ())], rule["verbs"]))
    return found


def lines(found: set[Right]) -> list[str]:
    """One line for each resource, with its verbs."""
    return [
        f"{what}: {' '.join(sorted(verb for other, verb in found if other == what))}"
        for what in sorted({at for at, _ in found})
    ]


async def reviewed(config: KubeConfig, space: str) -> set[Right]:
    """What a user may do in a namespace."""
    async with Client(config, user_agent="tests", field_manager="tests") as client:
        status = (await client.create(REVIEWS, {"spec": {"namespace": space}}))["status"]
    assert not status["incomplete"], status
    return rights_of([*status["resourceRules"], *status["nonResourceRules"]])


async def found_on(server: ApiServer, users: Mapping[str, tuple[str, ...]], spaces: Iterable[str]) -> dict[str, Any]:
    """By component: its rights everywhere, and beyond those in single namespaces."""
    spaces, common, answer = tuple(spaces), set[Right](), dict[str, Any]()
    for name, user in users.items():
        by_space = {space: await reviewed(server.config_for(*user), space) for space in spaces}
        everywhere = set.intersection(*by_space.values())
        entry = {"everywhere": lines(everywhere - common)}
        entry |= {space: lines(found - everywhere) for space, found in by_space.items()}
        answer[name] = {place: found for place, found in entry.items() if found}
        if name in BASES:
            common |= everywhere
    return answer


async def prepare_host(client: Client) -> None:
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}} for space in SPACES]
    await apply_all(client, spaces)
    await apply_all(client, [obj for obj in rendered(*CHART) if obj["kind"] in RIGHTS])
    await apply_all(client, rights(SPEC))


def inside() -> list[Obj]:
    """What the controller makes in a plane that carries rights, with those of the users of a Slurm cluster."""
    login = LoginSpec()
    spec = slurm_spec({"users": [{"name": "ada", "uid": 10001, "identities": [IDENTITY]}]})
    found = [*bootstrap.objects(SPEC, b"CA"), *ssh.rights(spec, login)]
    return [obj for obj in found if obj["kind"] in RIGHTS]


async def test_every_component_has_the_rights_that_were_reviewed_and_no_others(tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    with running("rights-host", tmp_path / "host") as host, running("plane-rights", tmp_path / "plane") as plane:
        async with (
            Client(host.admin, user_agent="tests", field_manager="tests") as on_host,
            Client(plane.admin, user_agent="tests", field_manager="tests") as in_plane,
        ):
            await prepare_host(on_host)
            await apply_all(in_plane, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slurm"}}])
            await apply_all(in_plane, inside())

        async def known() -> bool:
            """Whether the API servers answer by the last bindings that were made."""
            syncer = await reviewed(host.config_for(*ON_HOST["syncer, and its shim"]), SPEC.work_namespace)
            user = await reviewed(plane.config_for(IDENTITY), "slurm")
            return ("nodes", "list") in syncer and any("certificatesigningrequests" in what for what, _ in user)

        await until(known, "rights to count")
        found["host"] = await found_on(host, ON_HOST, SPACES)
        found["plane"] = await found_on(plane, IN_PLANE, ("default", "kube-system", "slurm"))
    text = HEAD + yaml.safe_dump(found, sort_keys=False, width=128, allow_unicode=True)
    if os.environ.get("UPDATE_GOLDEN"):
        FILE.write_text(text, encoding="utf-8")
    assert text == FILE.read_text(encoding="utf-8")


def test_no_component_and_no_user_of_a_tenant_may_make_tenants() -> None:
    """H6: a quota of Tenants for each user needs users that may create them; there is none but admins of the host."""
    listed = yamlfiles.load(FILE)
    verbs = {
        verb
        for entry in listed["host"].values()
        for line in itertools.chain.from_iterable(entry.values())
        if line.split(":")[0] in {"tenants.bulkhead.dev", "*.bulkhead.dev", "*.*"}
        for verb in line.rpartition(": ")[2].split()
    }
    assert verbs == {"get", "list", "watch", "patch"}


def test_what_was_reviewed_reaches_no_other_tenant_and_nothing_of_the_host() -> None:
    """Rules of thumb for the reviewer of the file: they hold for every component that works for one tenant."""
    listed = yamlfiles.load(FILE)
    for name in ("syncer, and its shim", "a tenant's pods"):
        entry = listed["host"][name]
        assert entry.keys() <= {"everywhere", SPEC.namespace, SPEC.work_namespace}, name
        verbs = {verb for line in entry.get("everywhere", ()) for verb in line.rpartition(": ")[2].split()}
        assert verbs <= {"get", "list", "watch"}, name
    assert listed["host"]["a tenant's pods"] == {}
    assert listed["plane"]["a pod of Slurm"] == {}
    assert listed["host"]["front door"] == {"everywhere": ["services: list watch"]}
    # Of Secrets the controller reads those of planes, and of what classes share.
    spaces = {
        space for space, found in listed["host"]["controller"].items() if any(line.startswith("secrets") for line in found)
    }
    assert "everywhere" not in spaces
    assert not spaces & {"default", "kube-system", NEIGHBOUR, f"{NEIGHBOUR}-work"}
