"""Credentials and endpoints of two tenants and the host: what `identities.yaml` lists, made and reachable.

    plane red ──┐  each an etcd and an API server with a plane's own flags and certificates, and the syncer's shim
    plane blue ─┤
    front door ─┤  a real HAProxy that leads to both planes by name
    the host ───┘  an API server with the chart's rights and the bindings that the controller makes for both tenants

A credential and an endpoint are plain values; `ask` brings them together.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from bulkhead.api.objects import Obj
from bulkhead.api.syncersettings import GPU_AUDIENCE
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import SERVICE_ACCOUNTS
from bulkhead.work.clock import SystemClock
from controller.pki import issue, people
from controller.plane import render, syncer
from controller.plane.pki import Usage, controller_credential, etcd_credential, leaves
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import API_PORT, ETCD_PORT, PlaneSpec
from controller.slurm import keygen
from controller.slurm.client import tokens
from controller.slurm.spec import Forwarding
from controller.slurm.ssh.certify import certify
from frontdoor.routes import Route
from gpumetrics.__main__ import _serve
from gpumetrics.callers import Callers
from gpumetrics.hostview import HostView
from gpumetrics.kubelets import Kubelets
from gpumetrics.rounds import Rounds
from gpumetrics.settings import Settings as GpuSettings
from syncer import issuers
from syncer.gpumetrics import GpuMetrics
from syncer.kubelet.exposition import Page
from syncer.kubelet.metricsroutes import Question
from syncer.kubelet.pace import Paces
from syncer.kubelet.server import Kubelet, tls_context
from syncer.kubelet.targets import Target
from syncer.kubelet.turns import Turns
from tests.kit import yamlfiles
from tests.kit.applying import apply_all
from tests.kit.background import background
from tests.kit.crds import install
from tests.kit.helmchart import rendered
from tests.kit.planeprocess import PlaneProcesses
from tests.kit.ports import free_port
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

SECONDS: Final = 30.0
DATA: Final[dict[str, dict[str, dict[str, Any]]]] = yamlfiles.load(Path(__file__).with_name("identities.yaml"))
SPECS: Final = {name: plane_spec(tenant=name, service_slice=f"10.112.{at}.0/22") for name, at in (("red", 4), ("blue", 8))}
RIGHTS: Final = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"})
_SYSTEM: Final = "bulkhead-system"


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate with its key, or a token."""

    owner: str
    name: str
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where it listens, and by which CA it is verified: no refusal comes from the client itself."""

    owner: str
    name: str
    at: str
    port: int
    ca: bytes
    path: str = ""
    server_name: str = ""


@dataclass(frozen=True, slots=True)
class Shim:
    """The ports of a syncer's servers."""

    kubelet: int
    gpus: int


def names_of(owner: str) -> Mapping[str, Any]:
    """The credentials that the data list for an owner."""
    return DATA["host" if owner == "host" else "tenant"]


def opens(credential: Credential, endpoint: Endpoint) -> bool:
    """Whether the data say that the credential opens the endpoint."""
    entry = names_of(credential.owner)[credential.name]
    return endpoint.name in entry.get("all", ()) or (
        endpoint.owner == credential.owner and endpoint.name in entry.get("own", ())
    )


async def prepare(host: ApiServer) -> None:
    """On the host: the chart's rights, and for both tenants the namespaces and bindings that the controller makes."""
    spaces = [
        _SYSTEM,
        "bulkhead-shared",
        *(space for spec in SPECS.values() for space in (spec.namespace, spec.work_namespace)),
    ]
    async with Client(host.admin, user_agent="tests", field_manager="tests") as client:
        await install(client)
        await apply_all(client, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in spaces])
        chart = rendered("--set", "exposure.domains={k8s.example.org}")
        await apply_all(client, [obj for obj in chart if obj["kind"] in RIGHTS])
        for spec in SPECS.values():
            await apply_all(client, rights(spec))


def rights(spec: PlaneSpec) -> list[Obj]:
    """The accounts of a tenant on the host and the bindings that the controller makes for it."""
    return [*render.ground(spec)[1], *syncer.accounts(spec), *syncer.access(spec)]


async def of_host(host: ApiServer) -> list[Credential]:
    """The credentials of the host, and those that each tenant's syncer and workloads have there."""
    assert host.admin.client_cert is not None
    assert host.admin.client_key is not None
    found = [Credential("host", "an admin", host.admin.client_cert, host.admin.client_key)]
    accounts = {
        ("host", "the controller"): (_SYSTEM, "bulkhead-controller"),
        ("host", "the front door"): (_SYSTEM, "bulkhead-proxy"),
        ("host", "any other account"): ("default", "someone"),
    }
    for name, spec in SPECS.items():
        accounts[name, "the syncer on the host"] = (spec.namespace, "syncer")
        accounts[name, "a workload's account on the host"] = (spec.work_namespace, syncer.WORKLOAD)
    async with Client(host.admin, user_agent="tests", field_manager="tests") as client:
        for (owner, name), (space, account) in accounts.items():
            found.append(Credential(owner, name, token=await token_of(client, space, account)))
        for owner, name, holder in (
            *((tenant, "the syncer's token for GPU metrics", "the syncer on the host") for tenant in SPECS),
            ("host", "the controller's token for GPU metrics", "the controller"),
        ):
            token = await token_of(client, *accounts[owner, holder], audience=GPU_AUDIENCE)
            found.append(Credential(owner, name, token=token))
    return found


async def of_plane(name: str, plane: PlaneProcesses) -> list[Credential]:
    """Every credential of a tenant but those on the host."""
    keys = plane.keys
    found = [
        Credential(name, leaf, keys.leaves[leaf].certificate, keys.leaves[leaf].key)
        for leaf, wanted in leaves(plane.spec).items()
        if wanted.usage is not Usage.SERVER
    ]
    for title, wanted in (
        ("the controller at the plane", controller_credential()),
        ("the controller at etcd", etcd_credential()),
    ):
        pair = issue.issue(wanted, keys.authorities[wanted.authority], datetime.now(UTC))
        found.append(Credential(name, title, pair.certificate, pair.key))
    found.append(Credential(name, "a user's certificate", *person(keys)))
    async with Client(plane.admin, user_agent="tests", field_manager="tests") as client:
        found.append(Credential(name, "a ServiceAccount of the plane", token=await token_of(client)))
        found.append(Credential(name, "a Prometheus of the plane", token=await token_of(client, account="prometheus")))
        await apply_all(client, _may_read_metrics())
    return [*found, *of_slurm(name)]


def _may_read_metrics() -> list[Obj]:
    """The right that a Prometheus has by its chart."""
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": "prometheus"}}
    return [
        head | {"kind": "ClusterRole", "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
        head
        | {
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "prometheus"},
            "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}],
        },
    ]


def of_slurm(name: str) -> list[Credential]:
    """What a tenant's Slurm cluster and its users have; as bearer tokens, and the ssh key also as a key of TLS."""
    keys, authority, now = keygen.make_keys(), keygen.make_ssh_key(), datetime.now(UTC)
    key = ed25519.Ed25519PrivateKey.generate()
    signed, _ = certify(
        key.public_key(), identity="alice", principals=["alice"], forwarding=Forwarding(), authority=authority,
        now=now, ends=now + timedelta(minutes=15),
    )  # fmt: skip
    return [
        Credential(name, "a token of Slurm", token=tokens.mint(keys.jwt, "root", now).text),
        Credential(name, "a key of Slurm", token=keys.auth[0].secret.hex()),
        Credential(name, "an ssh certificate", token=signed.split()[1]),
        Credential(name, "the key of an ssh certificate", *self_signed(key)),
    ]


def self_signed(key: ed25519.Ed25519PrivateKey) -> tuple[bytes, bytes]:
    """A certificate that names the highest group of Kubernetes and is signed by its own key."""
    attributes = [
        x509.NameAttribute(x509.NameOID.COMMON_NAME, "alice"),
        x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "system:masters"),
    ]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(x509.Name(attributes)).issuer_name(x509.Name(attributes))
        .public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
        .sign(key, None)
    )  # fmt: skip
    return made.public_bytes(serialization.Encoding.PEM), _pem(key)


def person(keys: KeyMaterial) -> tuple[bytes, bytes]:
    """An admin of a plane, as `bulkhead connect` gets a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = people.certify(
        key.public_key(), user="alice", group="bulkhead:tenant-admins", authority=keys.authorities["users"],
        now=datetime.now(UTC), life=timedelta(hours=1),
    )  # fmt: skip
    return certificate, _pem(key)


def _pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, *form)


async def token_of(client: Client, space: str = "default", account: str = "someone", *, audience: str = "") -> str:
    """A token of a ServiceAccount, which is made where there is none."""
    with contextlib.suppress(AlreadyExists):
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": account}}, space)
    body: Obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    if audience:
        body["spec"] |= {"audiences": [audience]}
    made = await client.create_subresource(SERVICE_ACCOUNTS, account, "token", body, space)
    return str(made["status"]["token"])


def api_of(name: str, plane: PlaneProcesses) -> Endpoint:
    """The API server of a plane."""
    return Endpoint(name, "plane-api", "plane", plane.ports[API_PORT], plane.keys.authorities["serving"].certificate, "/api")


def endpoints(
    planes: Mapping[str, PlaneProcesses], host: ApiServer, shims: Mapping[str, Shim], *, door: int, source: int
) -> list[Endpoint]:
    """Every endpoint of the data, of each owner."""
    found = []
    for title, entry in DATA["endpoints"].items():
        for owner in ("host",) if entry["owner"] == "host" else planes:
            path = entry.get("path", "").format(tenant=owner)
            if entry["at"] == "host":
                found.append(Endpoint(owner, title, "host", host.port, host.authority.pem, path))
                continue
            if entry["at"] == "source":
                found.append(Endpoint(owner, title, "source", source, b"", path))
                continue
            plane, at = planes[owner], entry["at"]
            ports = {"plane": plane.ports[API_PORT], "etcd": plane.ports[ETCD_PORT], "door": door}
            port = (ports | {"shim": shims[owner].kubelet, "gpus": shims[owner].gpus})[at]
            authority = {"etcd": "etcd", "shim": "kubelet", "gpus": "kubelet"}.get(at, "serving")
            ca = plane.keys.authorities[authority].certificate
            found.append(Endpoint(owner, title, at, port, ca, path, door_name(owner) if at == "door" else ""))
    return found


def door_name(tenant: str) -> str:
    """The name under which the front door leads to a plane."""
    return f"{tenant}.k8s.example.org"


def routes(planes: Mapping[str, PlaneProcesses]) -> list[Route]:
    """The front door's routes to the planes."""
    return [Route(name, "127.0.0.1", (door_name(name),), plane.ports[API_PORT]) for name, plane in planes.items()]


@contextlib.asynccontextmanager
async def gpu_source(host: ApiServer) -> AsyncIterator[int]:
    """The port of program gpumetrics after a round without any exporter."""
    async with Client(host.admin, user_agent="tests", field_manager="tests") as client:
        settings, clock = GpuSettings(listen_port=free_port()), SystemClock()
        view = HostView(client)
        rounds = Rounds(settings, view, dict, clock, ended_at=0.0)
        kubelets = Kubelets(settings, view, client.config, clock, ended_at=0.0)
        server = await _serve(settings, rounds, Callers(client, clock), kubelets)
        try:
            yield settings.listen_port
        finally:
            await server.cleanup()


@contextlib.asynccontextmanager
async def shim(plane: PlaneProcesses, host: ApiServer, folder: Path, source: int) -> AsyncIterator[Shim]:
    """A syncer's servers with the certificates of its plane. It has no pods, and answers questions about metrics."""
    _write_shim(folder, plane.keys)

    def lookup(_: Key) -> Target | None:
        return None

    async def answer(_: Question) -> Obj:
        return {"kind": "APIResourceList", "groupVersion": "metrics.k8s.io/v1beta1", "resources": []}

    async def page(_: Page, __: str) -> bytes:
        return b""

    async with (
        Client(host.admin, user_agent="tests", field_manager="tests") as client,
        Client(plane.admin, user_agent="tests", field_manager="tests") as inside,
    ):
        shim = Shim(free_port(), free_port())
        token = await token_of(client, plane.spec.namespace, "syncer", audience=GPU_AUDIENCE)
        turns = Turns(SystemClock())
        gpus = GpuMetrics(inside, plane.spec.work_namespace, SystemClock(), find=lambda _: None, turns=turns)
        origin = KubeConfig(server=f"http://127.0.0.1:{source}", token=token)
        async with (
            background(
                Kubelet(client, lookup, answer, page, paces=Paces(SystemClock()), turns=turns).serve(
                    "127.0.0.1", shim.kubelet, tls_context(folder)
                )
            ),
            background(gpus.serve("127.0.0.1", shim.gpus, issuers.tls_context(folder), origin)),
        ):
            for port in (shim.kubelet, shim.gpus):
                await until(partial(_listens, port), "the shim to listen")
            yield shim


def _write_shim(folder: Path, keys: KeyMaterial) -> None:
    folder.mkdir()
    (folder / "shim.crt").write_bytes(keys.leaves["pki-syncer/shim"].certificate)
    (folder / "shim.key").write_bytes(keys.leaves["pki-syncer/shim"].key)
    (folder / "shim-client-ca.crt").write_bytes(keys.authorities["kubelet"].certificate)
    (folder / "shim-proxy-ca.crt").write_bytes(keys.authorities["front-proxy"].certificate)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def ask(endpoint: Endpoint, credential: Credential | None, folder: Path, *headers: str) -> int:
    """The status that an endpoint answers, 0 if it closes the connection."""
    context = ssl.create_default_context(cadata=endpoint.ca.decode() or None)
    # The CA alone tells whose endpoint answers; certificates name addresses of a cluster.
    context.check_hostname = False
    tls = None if endpoint.at == "source" else context
    lines = list(headers)
    if credential is not None and credential.token:
        lines.append(f"Authorization: Bearer {credential.token}")
    elif credential is not None:
        file = folder / f"{credential.owner}-{credential.name.replace('/', '-')}.pem"
        file.write_bytes(credential.certificate + credential.key)
        context.load_cert_chain(file)
    request = "\r\n".join([f"GET {endpoint.path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode()
    if endpoint.at == "etcd":  # etcd speaks only gRPC, and checks certificates when it settles the connection's terms
        context.set_alpn_protocols(["h2"])
        request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0" + b"\0" * 4
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", endpoint.port, ssl=tls, server_hostname=(endpoint.server_name or "127.0.0.1") if tls else None
            )
            try:
                writer.write(request)
                answer = await (reader.readexactly(9) if endpoint.at == "etcd" else reader.readline())
            finally:
                writer.transport.abort()
    except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
        return 0
    if endpoint.at == "etcd":
        return 200
    return int(answer.split()[1]) if answer else 0
