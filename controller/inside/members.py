"""The members of planes' etcd: the cluster as each member lists it, and the requests that change it."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from bulkhead.kube.errors import KubeError
from controller.inside.etcdaccess import CORRUPT, Etcd, EtcdAccess
from controller.plane.memberrecord import Record, peer_url, pods_of
from controller.plane.membership import Add, Disarm, Listed, Move, Pod, Promote, Remove, Standing, Why
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PlaneSpec

Change: TypeAlias = Remove | Add | Move | Promote | Disarm
_log = logging.getLogger(__name__)
# What etcd answers while a learner has not caught up.
_NOT_READY: Final = "in sync with leader"
_VOLUME: Final[Mapping[Why, str]] = {
    "empty": "empty",
    "other data": "that of other data",
    "gone": "gone",
    "forgotten": "without what it had received",
}


class Members:
    """Asks members and changes the cluster; nothing is remembered."""

    def __init__(self, access: EtcdAccess, url: Callable[[PlaneSpec, str], str] = peer_url) -> None:
        """`url`: the peer URL of each pod."""
        self._access = access
        self._url = url

    async def look(
        self, spec: PlaneSpec, keys: KeyMaterial, addresses: Mapping[str, str], record: Record, pods: Iterable[Pod]
    ) -> Standing:
        """The members of the cluster now. `addresses` are those of the plane's pods."""
        asked = [pod for pod in pods_of(spec) if pod in addresses]
        answers = await asyncio.gather(*(self._ask(spec, keys, pod, addresses[pod]) for pod in asked))
        learning = tuple(pod for pod, answer in zip(asked, answers, strict=True) if answer is not None and answer.learner)
        found = {pod: answer for pod, answer in zip(asked, answers, strict=True) if answer is not None and not answer.learner}
        return Standing(
            urls={pod: self._url(spec, pod) for pod in pods_of(spec)},
            record=record,
            pods={pod.name: pod for pod in pods},
            lists={pod: answer.members for pod, answer in found.items() if answer.members},
            heard={pod: answer.revision for pod, answer in found.items()},
            learning=learning,
            corrupt=tuple(sorted({member for answer in found.values() for member in answer.corrupt})),
            size=max((answer.size for answer in found.values() if answer.members), default=0),
        )

    async def change(
        self,
        spec: PlaneSpec,
        keys: KeyMaterial,
        addresses: Mapping[str, str],
        standing: Standing,
        step: Change,
    ) -> None:
        """Do one step, by the first member that answers. Raises KubeError."""
        changed = step.pod if isinstance(step, Remove | Add | Promote) else ""
        pod = min(pod for pod in standing.lists if pod != changed)
        etcd = await self._access.etcd(spec.tenant, keys, pod, addresses[pod])
        _log.info("the members change: %s", _words(step), extra={"tenant": spec.tenant})
        await _apply(etcd, step)

    async def _ask(self, spec: PlaneSpec, keys: KeyMaterial, pod: str, address: str) -> "_Answer | None":
        """What one member says; None if it does not answer, or if it is a learner without a leader."""
        try:
            etcd = await self._access.etcd(spec.tenant, keys, pod, address)
            state = await etcd.status(pod)
            if state.learner:
                return _Answer(0, 0, learner=True) if state.leader else None
            answer = _Answer(state.revision, state.size, corrupt=state.corrupt)
        except (KubeError, TimeoutError) as error:
            _log.info("the etcd of pod %s does not answer: %s", pod, error, extra={"tenant": spec.tenant})
            return None
        try:
            return replace(answer, members=await etcd.members()) if state.leader else answer
        except (KubeError, TimeoutError) as error:
            _log.info("the etcd of pod %s does not list the members: %s", pod, error, extra={"tenant": spec.tenant})
            return answer


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a member says of itself."""

    revision: int
    size: int  # bytes of its file
    corrupt: tuple[str, ...] = ()
    learner: bool = False  # then it says nothing else
    members: tuple[Listed, ...] = ()  # as it lists them, if it follows a leader or leads


async def _apply(etcd: Etcd, step: Change) -> None:
    match step:
        case Remove(_, member, _):
            await etcd.remove(member.id)
        case Add(_, url):
            await etcd.add_learner(url)
        case Disarm(member_id):
            await etcd.disarm(member_id, CORRUPT)
        case Move(_, member, url):
            await etcd.move(member.id, url)
        case Promote(_, member):
            try:
                await etcd.promote(member.id)
            except KubeError as error:
                if _NOT_READY not in str(error):
                    raise


def _words(step: Change) -> str:
    match step:
        case Remove(pod, member, why):
            return f"removing member {member.id} of {pod}, whose volume is {_VOLUME[why]}"
        case Disarm(member_id):
            return f"ending the alarm of member {member_id}, which had other data"
        case Add(pod, url):
            return f"adding a learner for {pod} at {url}"
        case Move(pod, member, url):
            return f"member {member.id} of {pod} is reached at {url}"
        case Promote(pod, member):
            return f"promoting member {member.id} of {pod}"
