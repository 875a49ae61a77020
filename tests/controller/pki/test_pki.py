"""Certificates: what a handshake accepts and refuses, when they are renewed, and that no key is lost that data depends on."""

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.kubeconfig import KubeConfig
from controller.pki import issue, standing
from controller.pki.material import Assembled, KeysLostError, assemble
from controller.plane import pki, secrets
from controller.plane.pki import CertSpec, Pair, Usage
from controller.plane.render import render
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import LEAF_ANNOTATION
from tests.kit.tenantsamples import plane_spec

NOW = datetime.now(UTC)


def stored() -> dict[str, Obj]:
    spec = plane_spec()
    objects = render(spec, assemble(spec, {}, NOW).keys).everything()
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "Secret"}


def context(side: int, own: Pair | None, trusted: Pair, tmp_path_name: str) -> ssl.SSLContext:
    made = ssl.SSLContext(side)
    made.load_verify_locations(cadata=trusted.certificate.decode())
    made.verify_mode = ssl.CERT_REQUIRED
    if own is not None:
        with open(tmp_path_name, "wb") as file:  # noqa: PTH123
            file.write(own.certificate + own.key)
        made.load_cert_chain(tmp_path_name)
    return made


def shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """A whole TLS handshake in memory; raises what either side raises."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(down, up, server_hostname=name)
    answering = server.wrap_bio(up, down, server_side=True)
    waiting = [asking, answering]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
        if not waiting:
            break
    # In TLS 1.3 a refusal of the client's certificate comes with the first read.
    answering.write(b"x")
    assert asking.read(1) == b"x"


@pytest.fixture(scope="module")
def keys():  # type: ignore[no-untyped-def]
    return assemble(plane_spec(), {}, NOW).keys


def handshake(tmp_path, *, server: Pair, client: Pair, server_ca: Pair, client_ca: Pair, name: str) -> None:  # type: ignore[no-untyped-def]
    shake(
        context(ssl.PROTOCOL_TLS_SERVER, server, client_ca, str(tmp_path / "server.pem")),
        context(ssl.PROTOCOL_TLS_CLIENT, client, server_ca, str(tmp_path / "client.pem")),
        name,
    )


def call_the_api(tmp_path, keys, client: Pair, *, name: str = "plane") -> None:  # type: ignore[no-untyped-def]
    """A client meets the tenant's API server under a name of it."""
    handshake(
        tmp_path,
        server=keys.leaves["pki-apiserver/server"],
        client=client,
        server_ca=keys.authorities["serving"],
        client_ca=keys.authorities["client"],
        name=name,
    )


@pytest.mark.parametrize(
    "name", ["plane.bh-team-a.svc", "plane", "kubernetes.default.svc", "10.112.4.1", "127.0.0.1", "localhost"]
)
def test_the_api_server_is_accepted_under_every_name_it_has(tmp_path, keys, name) -> None:
    call_the_api(tmp_path, keys, keys.leaves["pki-syncer/client"], name=name)


def test_a_name_that_the_certificate_does_not_say_is_refused(tmp_path, keys) -> None:
    with pytest.raises(ssl.SSLError, match="mismatch"):
        call_the_api(tmp_path, keys, keys.leaves["pki-syncer/client"], name="plane.bh-team-b.svc")


def test_a_certificate_of_another_tenants_ca_is_refused(tmp_path, keys) -> None:
    other = assemble(plane_spec(tenant="team-b"), {}, NOW).keys
    with pytest.raises(ssl.SSLError):
        call_the_api(tmp_path, keys, other.leaves["pki-syncer/client"])


@pytest.mark.parametrize("authority", ["etcd", "front-proxy", "kubelet", "serving"])
def test_a_certificate_of_another_purposes_ca_is_not_a_client_of_the_api(tmp_path, keys, authority) -> None:
    forged = issue.issue(CertSpec(authority, "bulkhead:admin", Usage.CLIENT), keys.authorities[authority], NOW)
    with pytest.raises(ssl.SSLError):
        call_the_api(tmp_path, keys, forged)


def test_a_server_certificate_is_not_a_client(tmp_path, keys) -> None:
    wrong = issue.issue(CertSpec("client", "eve", Usage.SERVER), keys.authorities["client"], NOW)
    with pytest.raises(ssl.SSLError):
        call_the_api(tmp_path, keys, wrong)


def test_an_expired_certificate_is_refused(tmp_path, keys) -> None:
    old = issue.issue(CertSpec("client", "eve", Usage.CLIENT), keys.authorities["client"], NOW - timedelta(days=91))
    with pytest.raises(ssl.SSLError):
        call_the_api(tmp_path, keys, old)


def test_what_is_there_and_fresh_is_kept() -> None:
    spec, secrets = plane_spec(), stored()
    first, second = assemble(spec, secrets, NOW), assemble(spec, secrets, NOW + timedelta(days=59))
    assert first.issued == second.issued == ()
    assert first.keys == second.keys


def test_leaves_are_renewed_at_two_thirds_of_their_life_and_nothing_else_is() -> None:
    spec, secrets = plane_spec(), stored()
    before, after = assemble(spec, secrets, NOW), assemble(spec, secrets, NOW + timedelta(days=61))
    assert {name for name, _ in after.issued} == set(pki.leaves(spec))
    assert after.keys.authorities == before.keys.authorities
    assert after.keys.trust == before.keys.trust


def test_a_lost_ca_takes_its_leaves_with_it_and_no_others() -> None:
    spec, secrets = plane_spec(), stored()
    del secrets["pki-ca-kubelet"]
    issued = {name for name, _ in assemble(spec, secrets, NOW).issued}
    assert issued == {"pki-ca-kubelet", "pki-apiserver/kubelet-client", "pki-syncer/shim"}


def restarts(keys: KeyMaterial) -> dict[str, str]:
    """By Deployment, the digest in its pod template of the certificates that it reads only at its start."""
    objects = render(plane_spec(), keys).everything()
    templates = {obj["metadata"]["name"]: obj["spec"]["template"] for obj in objects if obj["kind"] == "Deployment"}
    return {name: template["metadata"]["annotations"][LEAF_ANNOTATION] for name, template in templates.items()}


@pytest.mark.parametrize(
    ("lost", "restarted"),
    [
        ("pki-ca-kubelet", {"syncer"}),
        ("pki-ca-front-proxy", {"syncer"}),
        ("pki-ca-client", {"syncer", "dns"}),
        ("pki-ca-serving", {"syncer", "dns"}),
        ("pki-ca-etcd", set()),
        ("pki-ca-users", set()),
    ],
)
def test_a_reissued_ca_restarts_what_has_loaded_it(lost: str, restarted: set[str]) -> None:
    there = stored()
    before = restarts(assemble(plane_spec(), there, NOW).keys)
    assert set(before) == {"syncer", "dns"}
    del there[lost]
    after = restarts(assemble(plane_spec(), there, NOW).keys)
    assert {name for name, digest in after.items() if digest != before[name]} == restarted


def test_a_reissued_certificate_of_the_kubelets_server_restarts_the_syncer() -> None:
    there = stored()
    before = restarts(assemble(plane_spec(), there, NOW).keys)
    del there["pki-syncer"]["data"]["shim.crt"]
    found = assemble(plane_spec(), there, NOW)
    assert {name for name, _ in found.issued} == {"pki-syncer/shim"}
    after = restarts(found.keys)
    assert {name for name, digest in after.items() if digest != before[name]} == {"syncer"}


def test_a_pause_restarts_nothing_because_both_sides_compute_the_same_digest() -> None:
    there = stored()
    rendered = restarts(assemble(plane_spec(), there, NOW).keys)
    assert {name: standing.loaded(f"pki-{name}", there) for name in rendered} == rendered
    # What is renewed in a pause is what the next reconcile finds.
    later = NOW + timedelta(days=61)
    for certificate in standing.due(there, later, issue.Known()):
        files = standing.renewed(certificate, there, later, issue.Known())
        there[certificate.secret]["data"] |= {file: base64.b64encode(content).decode() for file, content in files.items()}
    resumed = assemble(plane_spec(), there, later)
    assert resumed.issued == ()
    assert {name: standing.loaded(f"pki-{name}", there) for name in rendered} == restarts(resumed.keys)
    assert set(restarts(resumed.keys).values()).isdisjoint(rendered.values())


@pytest.mark.parametrize("lost", ["pki-service-account", "pki-apiserver"])
def test_the_keys_that_data_depends_on_survive_the_loss_of_either_copy(lost: str) -> None:
    spec, secrets = plane_spec(), stored()
    before = assemble(spec, secrets, NOW).keys
    del secrets[lost]
    after = assemble(spec, secrets, NOW).keys
    assert after.encryption_key == before.encryption_key
    assert after.service_account == before.service_account


KEYS = ("pki-service-account", "pki-apiserver")


@pytest.mark.parametrize("damage", [None, "", "AAAA", "not base64!"])
def test_over_data_no_other_key_is_drawn_where_both_copies_are_gone(damage: str | None) -> None:
    spec, secrets = plane_spec(), stored()
    before = assemble(spec, secrets, NOW, has_data=True).keys
    lost = {name: secret for name, secret in secrets.items() if name not in KEYS}
    if damage is not None:
        lost |= {name: secrets[name] | {"data": dict.fromkeys(secrets[name]["data"], damage)} for name in KEYS}
    with pytest.raises(KeysLostError, match=r"pki-service-account .* pki-apiserver .* no other key is created over it"):
        assemble(spec, lost, NOW, has_data=True)
    # The way back: either copy is enough. If there is no data yet, or no longer any, a key is generated.
    for name in KEYS:
        assert assemble(spec, lost | {name: secrets[name]}, NOW, has_data=True).keys.encryption_key == before.encryption_key
    assert assemble(spec, lost, NOW).keys.encryption_key != before.encryption_key


@pytest.mark.parametrize("garbage", ["", "AAAA", "not base64!"])
def test_garbage_in_a_secret_is_replaced_and_stops_nothing(garbage: str) -> None:
    spec, secrets = plane_spec(), stored()
    for secret in ("pki-ca-client", "pki-syncer", "pki-ca-users"):
        secrets[secret]["data"] = dict.fromkeys(secrets[secret]["data"], garbage)
    issued = {name for name, _ in assemble(spec, secrets, NOW).issued}
    assert {"pki-ca-client", "pki-syncer/client", "pki-ca-users"} <= issued


def test_a_changed_address_reissues_what_carries_it() -> None:
    moved = assemble(plane_spec(service_slice="10.112.8.0/22"), stored(), NOW)
    assert {name for name, _ in moved.issued} == {"pki-apiserver/server", "pki-syncer/shim"}


def test_no_certificate_that_is_kept_is_a_persons_or_a_masters() -> None:
    assert all(not leaf.groups for leaf in pki.leaves(plane_spec()).values())
    config = KubeConfig.from_bytes(base64.b64decode(stored()["pki-syncer"]["data"]["kubeconfig"]), hostile=True)
    assert config.server == "https://10.112.4.1:443"


def test_the_api_server_trusts_two_cas_and_no_component_waits_for_that_of_people() -> None:
    keys = assemble(plane_spec(), {}, NOW).keys
    files = {obj["metadata"]["name"]: obj["data"] for obj in secrets.leaf_secrets(plane_spec(), keys)}
    bundle = base64.b64decode(files["pki-apiserver"]["client-ca.crt"])
    assert bundle == keys.authorities["client"].certificate + keys.authorities["users"].certificate
    people = keys.authorities["users"].certificate
    holders = [name for name, data in files.items() for value in data.values() if people in base64.b64decode(value)]
    assert holders == ["pki-apiserver"]
    assert {leaf.authority for leaf in pki.leaves(plane_spec()).values()} == {
        "client",
        "etcd",
        "kubelet",
        "front-proxy",
        "serving",
    }


def test_a_plane_of_an_older_version_gets_a_ca_of_people_without_a_restart() -> None:
    before, older = stored(), stored()
    before = assemble(plane_spec(), older, NOW).keys
    del older["pki-ca-users"]
    after = assemble(plane_spec(), older, NOW)
    assert [name for name, _ in after.issued] == ["pki-ca-users"]
    assert after.keys.trust == before.trust
    assert after.keys.authorities["users"] != before.authorities["users"]


def revoked(objects: dict[str, Obj], mark: str) -> Assembled:
    return assemble(plane_spec(access={"certificates_revoked": mark}), objects, NOW)


def kept(found: Assembled) -> dict[str, Obj]:
    return {obj["metadata"]["name"]: obj for obj in render(plane_spec(), found.keys).everything() if obj["kind"] == "Secret"}


def test_a_request_to_revoke_replaces_the_ca_of_people_once_and_no_other() -> None:
    first = stored()
    once = revoked(first, "2026-11-23T10:00:00Z")
    assert [name for name, _ in once.issued] == ["pki-ca-users"]
    assert once.keys.trust == assemble(plane_spec(), first, NOW).keys.trust
    again = revoked(kept(once), "2026-11-23T10:00:00Z")
    assert (again.issued, again.keys) == ((), once.keys)
    assert revoked(kept(once), "").issued == ()
    assert [name for name, _ in revoked(kept(once), "2026-11-23T11:00:00Z").issued] == ["pki-ca-users"]


def test_a_revocation_that_was_cut_short_is_done_again() -> None:
    # The Secret of the CA was written, that of the API server was not: the bundle follows the CA.
    once = revoked(stored(), "now")
    halfway = stored() | {"pki-ca-users": kept(once)["pki-ca-users"]}
    found = revoked(halfway, "now")
    assert found.issued == ()
    bundle = base64.b64decode(kept(found)["pki-apiserver"]["data"]["client-ca.crt"])
    assert bundle.endswith(once.keys.authorities["users"].certificate)


def test_key_material_has_no_text_form(keys) -> None:
    assert "BEGIN" not in repr(keys)


def commented(secrets_of: dict[str, Obj], comment: str) -> dict[str, Obj]:
    """The Secrets of a plane with a comment in each certificate."""

    def of(file: str, content: str) -> str:
        text = base64.b64decode(content) + comment.encode()
        return base64.b64encode(text).decode() if file.endswith(".crt") else content

    return {
        name: obj | {"data": {file: of(file, content) for file, content in obj["data"].items()}}
        for name, obj in secrets_of.items()
    }


def test_however_many_planes_there_are_each_certificate_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    load = issue.x509.load_pem_x509_certificate

    def counted(data: bytes) -> object:
        parsed.append(data)
        return load(data)

    # The same certificates with a comment of each plane's behind them: other texts, and no keys to draw.
    first = stored()
    planes = [(commented(first, f"# plane {number}\n"), issue.Known()) for number in range(400)]

    def walk() -> int:
        parsed.clear()
        for there, known in planes:
            assert assemble(plane_spec(), there, NOW, known=known).issued == ()
        return len(parsed)

    with monkeypatch.context() as patched:
        patched.setattr(issue.x509, "load_pem_x509_certificate", counted)
        assert walk() > 400 * 16
        assert walk() == 0
        assert walk() == 0


def test_what_a_plane_no_longer_has_is_forgotten() -> None:
    known = issue.Known()
    sizes = []
    for _ in range(5):
        assemble(plane_spec(), stored(), NOW, known=known)
        sizes.append(len(known._asked) + len(known._before))
    assert sizes[1:] == [sizes[1]] * 4
    assert sizes[1] == 2 * sizes[0]
