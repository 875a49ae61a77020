"""How the controller reaches the etcd members of planes: by HTTP at the pod's address, with a certificate kept in memory only.

    controller ── mutual TLS, port 2382, a NetworkPolicy for the controller alone ──> the member's JSON gateway and its metrics

Keys and values are never read or written. Every answer and every call is bounded. There is one client for each member; it is
replaced at half of its certificate's life, or if its address or its CA changes.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, ProtocolError
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work.clock import Clock
from controller.pki import issue
from controller.plane.membership import Listed
from controller.plane.pki import etcd_credential
from controller.plane.secrets import KeyMaterial, digest
from controller.plane.spec import ETCD_HTTP_PORT
from controller.plane.storestate import Member

NO_SPACE: Final = "NOSPACE"
CORRUPT: Final = "CORRUPT"
# A status tells alarms as text; reading them as alarms is a write to the log.
_CORRUPT: Final = re.compile(r"(?:memberID:(\d{1,20}) +)?alarm:CORRUPT")
_ANSWER_BYTES: Final = 64 * 1024
_METRICS_BYTES: Final = 2 << 20
_REQUEST_DEADLINE_SECONDS: Final = 3.0
_METRICS_DEADLINE_SECONDS: Final = 5.0
_CHANGE_DEADLINE_SECONDS: Final = 10.0
_COMPACT_DEADLINE_SECONDS: Final = 60.0
_DEFRAGMENT_DEADLINE_SECONDS: Final = 120.0
_CONNECTIONS: Final = 2


class _Header(msgspec.Struct, gc=False):
    revision: str = "0"
    member: str = msgspec.field(default="", name="member_id")


class _Status(msgspec.Struct, gc=False, rename="camel"):
    """Numbers come as text; zeros are left out."""

    header: _Header = msgspec.field(default_factory=_Header)
    db_size: str = "0"
    db_size_in_use: str = "0"
    db_size_quota: str = "0"
    leader: str = ""
    is_learner: bool = False
    errors: list[str] = []


class _Alarm(msgspec.Struct, gc=False):
    member: str = msgspec.field(default="0", name="memberID")
    alarm: str = ""


class _Alarms(msgspec.Struct, gc=False):
    alarms: list[_Alarm] = []


class _MemberInfo(msgspec.Struct, gc=False):
    id: str = msgspec.field(default="", name="ID")
    name: str = ""
    peer_urls: list[str] = msgspec.field(default_factory=list, name="peerURLs")
    client_urls: list[str] = msgspec.field(default_factory=list, name="clientURLs")
    is_learner: bool = msgspec.field(default=False, name="isLearner")


class _MemberList(msgspec.Struct, gc=False):
    members: list[_MemberInfo] = []


_member_list = msgspec.json.Decoder(_MemberList)
_status = msgspec.json.Decoder(_Status)
_alarms = msgspec.json.Decoder(_Alarms)


class Etcd:
    """The requests to one member. They raise KubeError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def member(self, name: str) -> Member:
        """Its state with the alarms, under the name of its pod. Without a leader it does not answer."""
        status = await self.status(name)
        # A learner answers nothing but its status.
        raised = [] if status.learner else (await self._ask("/v3/maintenance/alarm", {"action": "GET"}, _alarms)).alarms
        return replace(status, alarms=tuple(alarm.member for alarm in raised if alarm.alarm == NO_SPACE))

    async def status(self, name: str) -> Member:
        """Its state without alarms, under the name of its pod; it needs no leader."""
        status = await self._ask("/v3/maintenance/status", {}, _status)
        return Member(
            name,
            size=_number(status.db_size),
            used=_number(status.db_size_in_use),
            quota=_number(status.db_size_quota),
            revision=_number(status.header.revision),
            id=status.header.member,
            leader="" if status.leader == "0" else status.leader,
            learner=status.is_learner,
            corrupt=tuple(sorted({found or "0" for error in status.errors for found in _CORRUPT.findall(error)})),
        )

    async def metrics(self) -> bytes:
        """Its metrics, as text."""
        return await self._client.transport.request(
            "GET", "/metrics", accept="text/plain", timeout=_METRICS_DEADLINE_SECONDS, max_body=_METRICS_BYTES
        )

    async def compact(self, revision: int) -> None:
        """Forget the versions before a revision."""
        try:
            await self._call(
                "/v3/kv/compaction", {"revision": str(revision), "physical": True}, seconds=_COMPACT_DEADLINE_SECONDS
            )
        except KubeError as error:
            # etcd itself or the API server has already compacted further.
            if "compacted" not in str(error):
                raise

    async def defragment(self) -> None:
        """Rewrite its file; it serves nothing meanwhile."""
        await self._call("/v3/maintenance/defragment", {}, seconds=_DEFRAGMENT_DEADLINE_SECONDS)

    async def hand_leadership_to(self, member: str) -> None:
        """Let another member lead; only the leader can."""
        await self._call("/v3/maintenance/transfer-leadership", {"targetID": member})

    async def disarm(self, member: str, alarm: str = NO_SPACE) -> None:
        """End a member's alarm, so that etcd accepts writes."""
        await self._call("/v3/maintenance/alarm", {"action": "DEACTIVATE", "memberID": member, "alarm": alarm})

    async def members(self) -> tuple[Listed, ...]:
        """The members of the cluster, as this one lists them; it answers only if a quorum confirms its leader."""
        found = (await self._ask("/v3/cluster/member/list", {"linearizable": True}, _member_list)).members
        return tuple(
            # etcd knows names from its flags; a member that has started has published where clients reach it.
            Listed(member.id, member.name if member.client_urls else "", next(iter(member.peer_urls), ""), member.is_learner)
            for member in found
        )

    async def add_learner(self, peer_url: str) -> None:
        """Add a member without a vote."""
        await self._call(
            "/v3/cluster/member/add", {"peerURLs": [peer_url], "isLearner": True}, seconds=_CHANGE_DEADLINE_SECONDS
        )

    async def move(self, member: str, peer_url: str) -> None:
        """Tell the cluster at which URL a member's peers reach it."""
        await self._call("/v3/cluster/member/update", {"ID": member, "peerURLs": [peer_url]}, seconds=_CHANGE_DEADLINE_SECONDS)

    async def remove(self, member: str) -> None:
        """Remove a member for ever: with its old data it cannot come back."""
        await self._call("/v3/cluster/member/remove", {"ID": member}, seconds=_CHANGE_DEADLINE_SECONDS)

    async def promote(self, member: str) -> None:
        """Let a learner vote; refused until it has caught up."""
        await self._call("/v3/cluster/member/promote", {"ID": member}, seconds=_CHANGE_DEADLINE_SECONDS)

    async def _ask(self, path: str, body: Mapping[str, Any], shape: "msgspec.json.Decoder[Any]") -> Any:
        data = await self._call(path, body)
        try:
            return shape.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ProtocolError(f"etcd answered something else than its state: {error}"[:300]) from error

    async def _call(self, path: str, body: Mapping[str, Any], *, seconds: float = _REQUEST_DEADLINE_SECONDS) -> bytes:
        return await self._client.transport.request("POST", path, body=json.dumps(body).encode(), timeout=seconds)


@dataclass(slots=True)
class _Held:
    client: Client
    identity: str
    renew_at: datetime


class EtcdAccess:
    """The clients of all planes' members; close it at the end."""

    def __init__(self, clock: Clock, *, port: int = ETCD_HTTP_PORT, ports: Mapping[str, int] | None = None) -> None:
        """`ports`: for pods that listen at another port than the others."""
        self._clock = clock
        self._port = port
        self._ports = dict(ports or {})
        self._held: dict[tuple[str, str], _Held] = {}
        self._opening = asyncio.Lock()

    async def etcd(self, tenant: str, keys: KeyMaterial, pod: str, address: str) -> Etcd:
        """The member in a pod."""
        authority = keys.authorities["etcd"]
        identity = digest(address.encode(), authority.certificate)
        async with self._opening:
            held, now = self._held.get((tenant, pod)), self._clock.now()
            if held is not None and held.identity == identity and now < held.renew_at:
                return Etcd(held.client)
            await self._close((tenant, pod))
            wanted = etcd_credential()
            client = self._client(keys, address, self._ports.get(pod, self._port), _CONNECTIONS)
            await client.__aenter__()
            self._held[(tenant, pod)] = _Held(client, identity, now + wanted.life / 2)
            return Etcd(client)

    @contextlib.asynccontextmanager
    async def client(self, keys: KeyMaterial, address: str) -> AsyncIterator[Client]:
        """A client of one member for one long stream, such as a snapshot, beside those that are held."""
        async with self._client(keys, address, self._port, 1) as client:
            yield client

    def _client(self, keys: KeyMaterial, address: str, port: int, connections: int) -> Client:
        authority = keys.authorities["etcd"]
        pair = issue.issue(etcd_credential(), authority, self._clock.now())
        config = KubeConfig(
            server=f"https://{address}:{port}",
            ca=authority.certificate,
            client_cert=pair.certificate,
            client_key=pair.key,
            tls_server_name="localhost",
        )
        return Client(
            config,
            user_agent="bulkhead-controller",
            field_manager="bulkhead-controller",
            timeout=_REQUEST_DEADLINE_SECONDS,
            max_body=_ANSWER_BYTES,
            connections=connections,
        )

    async def forget(self, tenant: str) -> None:
        """Close the clients of a tenant's plane."""
        for key in [key for key in self._held if key[0] == tenant]:
            await self._close(key)

    async def close(self) -> None:
        """Close every client."""
        for key in list(self._held):
            await self._close(key)

    async def _close(self, key: tuple[str, str]) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            await held.client.__aexit__(None, None, None)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ProtocolError(f"etcd answered {text[:30]!r} where a number is expected") from error
