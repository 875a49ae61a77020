"""The syncer answers with the documents of the ConfigMap, and with nothing else."""

from typing import Any

from bulkhead.kube.errors import Timeout
from syncer.issuers import Issuers
from tests.kit.fakeclock import FakeClock


class Host:
    """A host with one ConfigMap, or without an answer."""

    def __init__(self) -> None:
        self.data: dict[str, str] | None = {
            "corp.discovery": '{"issuer": "x"}',
            "corp.keys": '{"keys": []}',
            "corp.source": "s",
        }
        self.asked = 0

    async def get(self, *_: Any) -> dict[str, Any]:
        self.asked += 1
        if self.data is None:
            raise Timeout("away")
        return {"data": self.data}


def server() -> tuple[Issuers, Host, FakeClock]:
    host, clock = Host(), FakeClock()
    return Issuers(host, "bh-team-a", clock), host, clock  # type: ignore[arg-type]


async def test_documents_of_any_version_are_answered_and_nothing_else() -> None:
    issuers, _, _ = server()
    for path, word in {"/corp/7/.well-known/openid-configuration": b"issuer", "/corp/other/keys": b"keys"}.items():
        answer = await issuers.respond("GET", path)
        assert answer.startswith(b"HTTP/1.1 200")
        assert word in answer
    for path in ("/", "/corp", "/corp/keys", "/corp/7/source", "/corp/7/keys/x", "/other/7/keys", "/corp/7/", "//7/keys"):
        assert (await issuers.respond("GET", path)).startswith(b"HTTP/1.1 404"), path
    assert (await issuers.respond("POST", "/corp/7/keys")).startswith(b"HTTP/1.1 405")


async def test_a_version_that_is_not_here_yet_is_looked_for_at_once_and_once() -> None:
    issuers, host, _ = server()
    host.data = {"corp.discovery": '{"jwks_uri": "https://x/corp/7/keys"}', "corp.keys": "old"}
    assert (await issuers.respond("GET", "/corp/7/keys")).endswith(b"old")
    # Written within the second; the API server has read its file again, and asks.
    host.data = {"corp.discovery": '{"jwks_uri": "https://x/corp/8/keys"}', "corp.keys": "new"}
    assert (await issuers.respond("GET", "/corp/7/keys")).endswith(b"old")
    assert (await issuers.respond("GET", "/corp/8/keys")).endswith(b"new")
    assert host.asked == 2
    # One that has not read it yet asks for the earlier version, as often as it likes.
    for _ in range(10):
        assert (await issuers.respond("GET", "/corp/7/keys")).endswith(b"new")
        assert (await issuers.respond("GET", "/corp/8/keys")).endswith(b"new")
    assert host.asked == 3


async def test_the_host_is_asked_at_most_once_a_second_and_its_last_answer_stays() -> None:
    issuers, host, clock = server()
    for _ in range(10):
        await issuers.respond("GET", "/corp/7/keys")
    assert host.asked == 1
    host.data = None
    clock.advance(1)
    assert (await issuers.respond("GET", "/corp/7/keys")).startswith(b"HTTP/1.1 200")
    host.data = {"corp.keys": "other"}
    assert (await issuers.respond("GET", "/corp/7/keys")).endswith(b"other")
    assert host.asked == 3


async def test_versions_that_nobody_has_cost_the_host_one_request_a_second() -> None:
    """A tenant asks by its plane's proxy to nodes, and may make up as many versions as it likes."""
    issuers, host, clock = server()
    await issuers.respond("GET", "/corp/0/keys")
    for number in range(1, 1000):
        assert (await issuers.respond("GET", f"/corp/{number}/keys")).startswith(b"HTTP/1.1 200")
    assert host.asked <= 9
    host.data, before = None, host.asked
    for second in range(10):
        clock.advance(1)
        for number in range(100):
            await issuers.respond("GET", f"/corp/{second}-{number}/keys")
    assert host.asked - before <= 12, "nor while the host does not answer"
