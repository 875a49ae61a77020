"""The places for snapshots of one installation: its own, which has no name, and those that classes choose by name.

Credentials are the files of a Secret for each place, read at each use: a rotated Secret counts at once, and no place is ever
opened with the credentials of another.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from bulkhead.signing import Ring
from bulkhead.snapshots.namedtargets import NamedTarget
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import Target, TargetError
from controller.settings import Settings
from controller.snapshots.source import EtcdOpened
from controller.snapshots.take import Means

# The key of a Secret, and what the library calls it.
_KEYS: Final = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
}
_NEEDED: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_MOST_BYTES: Final = 16 * 1024
# The folder with the installation's own credentials; the name of a target has no underscore.
OWN: Final = "_own"


@dataclass(frozen=True, slots=True)
class Places:
    """own: the installation's, None if it has none; named: those of `backup.targets`."""

    own: Means | None = None
    named: Mapping[str, Means] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, etcd: EtcdOpened, ring: Callable[[], Awaitable[Ring]]) -> Self:
        """The places of these settings. `etcd` opens a plane's store, `ring` gives the installation's keys."""
        own, folder = None, Path(settings.backup_credentials)
        if settings.backup_target:
            own = Means(etcd, partial(own_target, settings.backup_place, folder), settings.backup_recipients, ring)
        targets = settings.named_targets
        return cls(own, {found.name: Means(etcd, partial(opened, found, folder), found.recipients, ring) for found in targets})

    def at(self, name: str) -> Means | None:
        """What snapshots are taken with at one place; None if there is no such place."""
        return self.named.get(name) if name else self.own

    def missing(self, name: str) -> str:
        """Why there is no such place, and what to do."""
        if name:
            return f"the installation has no target {name!r}: add it to backup.targets of the chart, or choose another one"
        return (
            "the installation has no place for snapshots: set backup.target and backup.recipients of the chart (docs/backup.md)"
        )


def own_target(place: Place, credentials: Path) -> Target:
    """The installation's place, with the credentials of its Secret as they are now. Raises TargetError.

    Without a Secret they are those of the environment, such as a role that a cloud gives to the pod.
    """
    folder = credentials / OWN
    if place.scheme == "file" or not folder.is_dir():
        return Target(place)
    return Target(place, _read(folder, "the installation's target"))


def opened(named: NamedTarget, credentials: Path) -> Target:
    """A named place, with the credentials in its folder. Raises TargetError."""
    if named.place.scheme == "file":
        return Target(named.place)
    return Target(named.place, _read(credentials / named.name, f"target {named.name}"))


def _read(folder: Path, whose: str) -> dict[str, str]:
    found = {}
    for key, ours in _KEYS.items():
        try:
            with (folder / key).open("rb") as file:
                found[ours] = file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            if key in _NEEDED:
                raise TargetError(
                    f"{whose}: its credentialsSecret has no {key}: no other credentials are used for it"
                ) from None
        except OSError as error:
            raise TargetError(f"{whose}: its credentials cannot be read: {error.strerror}") from error
    return found
