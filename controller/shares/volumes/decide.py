"""Decides the steps by which a tenant gets the volumes granted to it, first on the host and then in its plane. Pure.

    host   no volume ──> Make volume, claim ──> bound by the host ──> ready
           another source, or a lost claim ──> Remove claim ──> (its pods have ended) ──> Remove volume ──> again from the start
    plane  ready ──> Make volume, claim in each namespace ──> Bind ──> done
           no longer granted, or no such namespace ──> Remove claim ──> (its pods have ended) ──> Release, Remove volume

Every removal names the UID that was observed. A claim stays until the last of its pods has ended: the API server of either side
ensures that. The data of a SharedVolume is never removed: a deleted volume keeps its content. `held` are SharedVolumes that
could not be read at the moment; their existing objects stay.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from controller.shares.decide import Space
from controller.shares.volumes.objects import plane_volume_name
from controller.shares.volumes.offers import Grant

MOST_CLAIMS: Final = 1000  # of all shared volumes, in one plane
Kind: TypeAlias = Literal["volume", "claim"]


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume of ours, on either side."""

    name: str
    shared: str
    uid: str
    phase: str = ""
    digest: str = ""
    going: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of ours, on either side."""

    namespace: str
    name: str
    shared: str
    uid: str
    phase: str = ""
    volume: str = ""
    going: bool = False


@dataclass(frozen=True, slots=True)
class There:
    """The platform's volumes and claims on one side."""

    volumes: tuple[Volume, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class Make:
    """Create a missing volume or claim."""

    kind: Kind
    grant: Grant
    namespace: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Write the status of a volume or claim of a plane."""

    kind: Kind
    grant: Grant
    namespace: str


@dataclass(frozen=True, slots=True)
class Release:
    """Release a volume of a plane whose claim is gone: it is protected as long as it counts as bound."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove one of our objects, if it is still the one that was observed."""

    kind: Kind
    namespace: str
    name: str
    uid: str


Step: TypeAlias = Make | Bind | Release | Remove


@dataclass(frozen=True, slots=True)
class Decision:
    """The steps to do on one side."""

    steps: tuple[Step, ...] = ()
    ready: frozenset[str] = frozenset()  # claims of the host that are bound
    wanted: frozenset[tuple[str, str]] = frozenset()  # namespaces and names of a plane's claims
    waits: tuple[str, ...] = ()  # claims that cannot be used yet
    leaving: frozenset[str] = frozenset()  # claims of the host that are removed once the last of their pods has ended
    beyond: int = 0


@dataclass(slots=True)
class _Host:
    there: There
    steps: list[Step] = field(default_factory=list)
    ready: set[str] = field(default_factory=set)
    waits: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)

    def remove_claim(self, claim: Claim) -> None:
        self.leaving.add(claim.name)
        if not claim.going:
            self.steps.append(Remove("claim", claim.namespace, claim.name, claim.uid))

    def remove_volume(self, volume: Volume) -> None:
        if not volume.going:
            self.steps.append(Remove("volume", "", volume.name, volume.uid))


def on_host(grants: Iterable[Grant], there: There, held: Collection[str], work: str) -> Decision:
    """The steps on the host for one tenant, whose claims are in namespace `work`."""
    host = _Host(there)
    volumes = {volume.name: volume for volume in there.volumes}
    claims = {claim.name: claim for claim in there.claims}
    wanted = {grant.volume: grant for grant in grants}
    for grant in wanted.values():
        _settle(host, grant, volumes.get(grant.volume), claims.get(grant.claim), work)
    used = {claim.volume for claim in there.claims}
    kept = {grant.claim for grant in wanted.values()}
    for claim in there.claims:
        if claim.shared in held:
            host.ready |= {claim.name} if claim.phase == "Bound" else set()
        elif claim.name not in kept:
            host.remove_claim(claim)
    for volume in there.volumes:
        if volume.name not in wanted and volume.name not in used and volume.shared not in held:
            host.remove_volume(volume)
    waits, leaving = tuple(sorted(host.waits)), frozenset(host.leaving)
    return Decision(tuple(host.steps), frozenset(host.ready), waits=waits, leaving=leaving)


def _settle(host: _Host, grant: Grant, volume: Volume | None, claim: Claim | None, work: str) -> None:
    """The steps of one grant, towards a volume of its source and a claim that is bound to it."""
    usable = volume is not None and not volume.going and volume.digest == grant.digest
    usable = usable and volume is not None and volume.phase not in ("Released", "Failed")
    if claim is not None and (claim.going or claim.volume != grant.volume or claim.phase == "Lost" or not usable):
        host.waits.add(grant.claim)
        host.remove_claim(claim)
    elif volume is not None and not usable:
        host.waits.add(grant.claim)
        host.remove_volume(volume)
    elif claim is not None and claim.phase == "Bound":
        host.ready.add(grant.claim)
    else:
        host.waits.add(grant.claim)
        host.steps += [Make("volume", grant, "")] if volume is None else []
        host.steps += [Make("claim", grant, work)] if claim is None else []


def in_plane(
    grants: Iterable[Grant],
    ready: Collection[str],
    spaces: Iterable[Space],
    there: There,
    held: Collection[str],
) -> Decision:
    """The steps in a plane, for the claims that the host has bound."""
    spaces = tuple(spaces)
    wanted, beyond = _slots(grants, spaces)
    claims = {(claim.namespace, claim.name): claim for claim in there.claims}
    volumes = {volume.name: volume for volume in there.volumes}
    steps: list[Step] = []
    for (namespace, name), grant in wanted.items():
        if grant.claim in ready:
            steps += _shown(grant, namespace, volumes.get(plane_volume_name(name, namespace)), claims.get((namespace, name)))
    steps += [
        Remove("claim", claim.namespace, claim.name, claim.uid)
        for slot, claim in claims.items()
        if slot not in wanted and not claim.going and claim.shared not in held
    ]
    shown = {plane_volume_name(name, namespace) for namespace, name in (*wanted, *claims)}
    for volume in there.volumes:
        if volume.name not in shown and volume.shared not in held:
            steps += [Release(volume.name, volume.uid)] if volume.phase == "Bound" else []
            steps += [] if volume.going else [Remove("volume", "", volume.name, volume.uid)]
    return Decision(tuple(steps), wanted=frozenset(wanted), beyond=beyond)


def _slots(grants: Iterable[Grant], spaces: Iterable[Space]) -> tuple[Mapping[tuple[str, str], Grant], int]:
    live = sorted((space for space in spaces if not space.going), key=lambda space: space.name)
    found = {
        (space.name, grant.claim): grant for grant in grants for space in live if grant.where.covers(space.name, space.labels)
    }
    kept = dict(list(found.items())[:MOST_CLAIMS])
    return kept, len(found) - len(kept)


def _shown(grant: Grant, namespace: str, volume: Volume | None, claim: Claim | None) -> Iterable[Step]:
    """The steps of one claim of a plane, with its volume."""
    if claim is not None and claim.going:
        return
    if claim is not None and claim.volume != plane_volume_name(grant.claim, namespace):
        yield Remove("claim", namespace, claim.name, claim.uid)
        return
    if volume is None:
        yield Make("volume", grant, namespace)
    elif volume.phase != "Bound" and not volume.going:
        yield Bind("volume", grant, namespace)
    if claim is None:
        yield Make("claim", grant, namespace)
    elif claim.phase != "Bound":
        yield Bind("claim", grant, namespace)
