"""Defines the CA of a cluster's ssh certificates, as data: how it is stored, rotated and replaced.

Pure: keys and the time come from the caller. Login nodes trust every key of `trusted`, one of which signs.

    rotation requested ──> a key is staged: login nodes learn it ──> SPREAD after the plane has it, it signs
                                                                       ──> KEPT later the old key is removed
    certificates are revoked ──> another key signs at once, and earlier keys are no longer trusted
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from controller.slurm.spec.keys import BadKeysError

# A changed ConfigMap reaches the files of a running pod within about a minute and a half.
SPREAD: Final = timedelta(minutes=3)
# Longer than any certificate that the old key has signed, with the clocks' difference.
KEPT: Final = timedelta(minutes=30)
FILE: Final = "authority.json"


@dataclass(frozen=True, slots=True, repr=False)
class SshKey:
    """A key pair in OpenSSH's own forms."""

    private: str
    public: str


@dataclass(frozen=True, slots=True, repr=False)
class Authority:
    """The CA; `rotated` and `revoked` are the requests that were carried out last, `since` when the last step was taken."""

    signing: SshKey
    staged: SshKey | None = None
    previous: str = ""
    rotated: str = ""
    revoked: str = ""
    since: str = ""

    @property
    def trusted(self) -> tuple[str, ...]:
        """The public keys that login nodes trust."""
        staged = self.staged.public if self.staged else ""
        return tuple(filter(None, (self.signing.public, staged, self.previous)))


def stepped(
    kept: Authority,
    *,
    rotate: str,
    revoke: str,
    now: datetime,
    draw: Callable[[], SshKey],
    spread: Mapping[str, datetime],
) -> Authority:
    """The CA after the next step of a requested rotation or revocation; unchanged if nothing is due.

    `spread` says since when the plane has had each public key: no staged key signs before every login node trusts it.
    """
    at = now.isoformat(timespec="seconds")
    if revoke and revoke != kept.revoked:
        return Authority(draw(), rotated=rotate or kept.rotated, revoked=revoke, since=at)
    due = _due(kept.since, now)
    if kept.staged is not None:
        known = spread.get(kept.staged.public)
        if not due(SPREAD) or known is None or now - known < SPREAD:
            # The plane was away, or this process has just begun.
            return kept
        return replace(kept, signing=kept.staged, staged=None, previous=kept.signing.public, since=at)
    if rotate and rotate != kept.rotated:
        return replace(kept, staged=draw(), rotated=rotate, since=at)
    return replace(kept, previous="", since=at) if kept.previous and due(KEPT) else kept


def _due(since: str, now: datetime) -> Callable[[timedelta], bool]:
    try:
        began = datetime.fromisoformat(since)
        return lambda wait: now >= began + wait
    except (ValueError, TypeError):
        return lambda _: True


def to_data(authority: Authority) -> dict[str, str]:
    """The `data` of the Secret that keeps it."""
    return {FILE: base64.b64encode(json.dumps(asdict(authority)).encode()).decode()}


def from_data(data: Mapping[str, str]) -> Authority:
    """The CA from a Secret's `data`; raises `BadKeysError` when it cannot be used."""
    try:
        found = json.loads(base64.b64decode(data[FILE], validate=True))
        staged = found.pop("staged")
        return Authority(**found | {"signing": SshKey(**found["signing"]), "staged": SshKey(**staged) if staged else None})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadKeysError(f"the CA of ssh certificates: unreadable: {type(error).__name__}") from error
