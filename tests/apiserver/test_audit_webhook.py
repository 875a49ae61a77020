"""A real API server sends its audit trail to a real receiver, and does not care how that one behaves."""

import asyncio
import contextlib
import itertools
import json
import threading
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.resources import CONFIG_MAPS, SERVICES
from controller.inside.planemetrics import METRICS_ANSWER_BYTES
from controller.pki.receivers import TYPE, credential_of
from controller.plane import audit, auditreceiver
from controller.plane.auditlosses import losses_of
from controller.plane.spec import CONFIG_PATH
from controller.plane.trail import Audit, Receiver
from tests.apiserver.auditreceiver import AuditReceiver
from tests.kit.servers import ApiServer, ServerOptions
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.auditing]
CALL_SECONDS = 25.0  # less than what is waited for a receiver that keeps silent
BUFFER = 60
AT_ONCE = 100  # writes, between two looks at what was lost
MOST = 200  # of these
LAST = "test_events_arrive_by_tenant_with_a_token_that_may_change"


@dataclass
class Sent:
    """A plane whose trail is sent, and where to."""

    server: ApiServer
    client: Client
    receiver: AuditReceiver
    folder: Path

    async def write(self, name: str, *, size: int = 0) -> None:
        """One write, which has to be answered within its deadline."""
        async with asyncio.timeout(CALL_SECONDS):
            await self.client.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"x": "<" * size}}, "default")

    async def arrives(self, name: str, who: str | None = None) -> None:
        async def there() -> bool:
            return name in self.receiver.names(who)

        await until(there, f"an event of {name}", 120)

    async def lost(self, why: str) -> int:
        text = await self.client.get_raw("/metrics")
        assert len(text) < METRICS_ANSWER_BYTES
        return dict(losses_of(text)).get(why, 0)

    def put(self, secret: dict[str, bytes]) -> None:
        """Have the files be those of the class's Secret, as the kubelet writes them."""
        put(self.folder, self.receiver, secret)


def put(folder: Path, receiver: AuditReceiver, secret: dict[str, bytes]) -> Audit:
    """Write a plane's files; returns what is asked of it."""
    data = {name: b64encode(value).decode() for name, value in secret.items()}
    asked = Audit(
        requests=True,
        receiver=Receiver(
            f"https://127.0.0.1:{receiver.port}/events/team-a",
            "127.0.0.1",
            receiver.authority.pem.decode(),
            "x",
            credential=credential_of({"type": TYPE, "data": data}),
        ),
    )
    (made,) = auditreceiver.secrets(plane_spec(audit=asked))
    for name, value in made["data"].items():
        beside = folder / f"{name}.new"
        beside.write_bytes(b64decode(value).replace(auditreceiver.PATH.encode(), str(folder).encode()))
        beside.replace(folder / name)
    return asked


async def begin(folder: Path, receiver: AuditReceiver, secret: dict[str, bytes]) -> ApiServer:
    asked = put(folder, receiver, secret)
    (folder / "audit-policy.json").write_text(json.dumps(audit.policy(asked)))
    # With a buffer that is soon full, and five attempts that are soon over; all else is as it is rendered.
    flags = audit.flags(asked, 1024)
    soon = {
        f"buffer-size={auditreceiver.Bounds.of(1024).buffer}": f"buffer-size={BUFFER}",
        "initial-backoff=1s": "initial-backoff=50ms",
    }
    for usual, sooner in soon.items():
        flags = [flag.replace(usual, sooner) for flag in flags]
        assert any(flag.endswith(sooner) for flag in flags)
    for path in (auditreceiver.PATH, CONFIG_PATH, audit.AUDIT_PATH):
        flags = [flag.replace(path, str(folder)) for flag in flags]
    server = ApiServer("sending", folder / "server", ServerOptions(flags=tuple(flags)))
    await asyncio.to_thread(server.start)
    await asyncio.to_thread(server.wait)
    return server


@contextlib.asynccontextmanager
async def sending(folder: Path, *, certificate: bool = False) -> AsyncIterator[Sent]:
    """A plane that sends, and signs in with a token or with a certificate."""
    async with AuditReceiver(folder / "receiver") as receiver:
        secret = {"token": b"first-token\n"}
        if certificate:
            cert, key = receiver.authority.issue("plane of team-a")
            secret = {"tls.crt": cert, "tls.key": key}
        server = await begin(folder, receiver, secret)
        async with Client(server.admin, user_agent="tests", field_manager="tests", max_body=METRICS_ANSWER_BYTES) as client:
            try:
                yield Sent(server, client, receiver, folder)
            finally:
                await receiver.go()
                await asyncio.to_thread(server.stop)


@pytest.fixture
async def sent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sent]:
    """A plane that sends."""
    async with sending(tmp_path, certificate=getattr(request, "param", "token") == "certificate") as plane:
        yield plane


async def token_changes(folder: Path, over: threading.Event) -> None:
    """The test of this name, which waits for most of a minute: an API server reads a token again no sooner."""
    async with sending(folder) as sent:
        await sent.write("told")
        await sent.arrives("told", "Bearer first-token")
        assert {path.rstrip("/") for path, _, _ in sent.receiver.events} == {"/events/team-a"}
        # The file is written as well, and what holds credentials is in neither.
        assert '"name":"told"' in (sent.folder / "audit.log").read_text()
        told = [event for _, _, event in sent.receiver.events if event.get("objectRef", {}).get("name") == "told"]
        assert not any("requestObject" in event for event in told)
        sent.put({"token": b"second-token"})
        number = itertools.count()

        async def signs_in_anew() -> bool:
            assert not over.is_set()
            await sent.write(f"again-{next(number)}")
            await asyncio.sleep(1)
            return bool(sent.receiver.names("Bearer second-token"))

        await until(signs_in_anew, "the other token", 120)
        assert await sent.lost("webhook") == 0


@pytest.fixture(scope="module", autouse=True)
def changing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[None] | None]:
    """`token_changes` beside the other tests of this file: it waits while they compute. The last test takes its result."""
    if not any(item.name == LAST for item in request.session.items):
        yield None
        return
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(asyncio.run, token_changes(tmp_path_factory.mktemp("changing"), over))
        over.set()


@pytest.mark.parametrize("sent", ["certificate"], indirect=True)
async def test_a_certificate_will_do(sent: Sent) -> None:
    await sent.write("told")
    await sent.arrives("told", "plane of team-a")


@pytest.mark.parametrize("behaviour", ["silent", "refusing", "hanging up", "gone"])
async def test_no_receiver_slows_a_plane_or_ends_it(sent: Sent, behaviour: str) -> None:
    # The positive control: nothing is lost while it takes them, but for what did not fit of the flood that every start is.
    await sent.write("started")
    await sent.arrives("started")
    lost = await sent.lost("buffered"), await sent.lost("webhook")
    await sent.write("before")
    await sent.arrives("before")
    assert (await sent.lost("buffered"), await sent.lost("webhook")) == lost
    if behaviour == "gone":
        await sent.receiver.go()
    sent.receiver.behaves = behaviour
    pid = sent.server.pid("kube-apiserver")
    written = 0
    # The buffer, and what is under way or sent meanwhile, take some; a write waits for none of it.
    while await sent.lost("buffered") == lost[0]:
        assert written < AT_ONCE * MOST, "all of it fits"
        await asyncio.gather(*(sent.write(f"during-{written + number}") for number in range(AT_ONCE)))
        written += AT_ONCE
    if behaviour != "silent":  # that takes five times thirty seconds

        async def given_up() -> bool:
            return await sent.lost("webhook") > lost[1]

        await until(given_up, "what is not taken to be counted", 120)
    # Where it is written into files too, all of it is there.
    told = (sent.folder / "audit.log").read_text()
    assert all(f'"name":"during-{number}"' in told for number in range(written))
    if behaviour == "gone":
        await sent.receiver.come()
    sent.receiver.behaves = "well"

    numbers = itertools.count()

    async def arrives() -> bool:
        await sent.write(f"after-{next(numbers)}")
        await asyncio.sleep(0.5)
        return any(name.startswith("after-") for name in sent.receiver.names())

    await until(arrives, "events again", 120)
    assert sent.server.pid("kube-apiserver") == pid


async def test_what_is_too_large_comes_without_its_body_or_is_counted(sent: Sent) -> None:
    note = {"annotations": {"note": "x" * 30_000}}
    await sent.client.create(SERVICES, {"metadata": {"name": "large"} | note, "spec": {"ports": [{"port": 80}]}}, "default")
    await sent.arrives("large")
    (event,) = [event for _, _, event in sent.receiver.events if event.get("objectRef", {}).get("name") == "large"]
    assert event["annotations"]["audit.k8s.io/truncated"] == "true"
    assert "requestObject" not in event
    assert await sent.lost("truncate") == 0
    await sent.client.get_raw(f"/api/v1/namespaces/default/pods?pretty={'x' * 20_000}")
    assert await sent.lost("truncate") == 1
    assert "x" * 20_000 in (sent.folder / "audit.log").read_text()


async def test_a_plane_without_a_credential_starts_and_takes_over_one_that_comes(tmp_path: Path) -> None:
    async with AuditReceiver(tmp_path / "receiver") as receiver:
        asked = put(tmp_path, receiver, {"token": b"x"})
        assert asked.receiver is not None
        none = Receiver(asked.receiver.url, "127.0.0.1", asked.receiver.certificate_authority, "x")
        (made,) = auditreceiver.secrets(plane_spec(audit=Audit(receiver=none)))
        assert auditreceiver.kept(made) == ()
        server = await begin(tmp_path, receiver, {"token": b64decode(made["data"]["token"])})
        try:
            async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
                await client.create(CONFIG_MAPS, {"metadata": {"name": "early"}, "data": {}}, "default")
                plane = Sent(server, client, receiver, tmp_path)
                await plane.arrives("early", f"Bearer {b64decode(made['data']['token']).decode()}")
        finally:
            await asyncio.to_thread(server.stop)


async def test_events_arrive_by_tenant_with_a_token_that_may_change(changing: Future[None]) -> None:
    await asyncio.wrap_future(changing)
