"""How much memory the programs of a plane may use, computed from the size of its store. Pure.

A store that is full to its quota is read as a whole, more than once at the same time: by the API server at its start, and from
there by the controller manager. A plane with a lower limit is killed again and again, and its tenant cannot clean it up either.
The factors are measured on the real programs (`make bench NAME=store`, docs/measurements/plane.md).

    etcd                 256 MiB + 2.25 x quota    a response with everything, twice; what is new since its last snapshot
    API server          1024 MiB + 4 x quota       that response, what it is decoded from, the objects; lists of clients
    controller manager   128 MiB + 4 x quota       every ConfigMap, and each of them again when it has to list once more

Only limits are computed from this: a plane requests what a nearly empty one uses. So hosts are overcommitted on purpose; only
tenants that fill their stores come near the limits.
"""

from collections.abc import Callable, Mapping
from typing import Final

# The size of a store if neither class nor Tenant sets one.
STORE_QUOTA_MIB: Final = 512
# A volume holds the data, its copy during a defragmentation, etcd's logs and perhaps an audit trail.
VOLUME_SHARE: Final = 4
# A volume may be large for its speed alone: what a store holds is read as a whole, so more than this has to be asked for.
_MOST_FOLLOWED_MIB: Final = 2048
_STORE_FACTOR: Final = 4
_PEERS_MIB: Final = 192
API_SERVER_MIB: Final = 1024  # for everything except its store


def _etcd(quota_mib: int, replicas: int) -> int:
    return 256 + -(-9 * quota_mib // 4) + (_PEERS_MIB if replicas > 1 else 0)


def _apiserver(quota_mib: int, _: int) -> int:
    return API_SERVER_MIB + _STORE_FACTOR * quota_mib


def _controller_manager(quota_mib: int, _: int) -> int:
    return 128 + _STORE_FACTOR * quota_mib


_NEEDS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "etcd": _etcd,
    "apiserver": _apiserver,
    "controller_manager": _controller_manager,
}


def quota_of_volume(volume_mib: int) -> int:
    """The size in MiB of a store for which neither class nor Tenant sets one."""
    return min(_MOST_FOLLOWED_MIB, max(STORE_QUOTA_MIB, volume_mib // VOLUME_SHARE))


def needed_mib(component: str, quota_mib: int = STORE_QUOTA_MIB, replicas: int = 1) -> int:
    """The memory limit in MiB with which a component of a plane can read a full store; 0 for one that reads none of it."""
    need = _NEEDS.get(component)
    return need(quota_mib, replicas) if need is not None else 0


def beside_store_mib(limit_mib: int, quota_mib: int) -> int:
    """The API server's memory in MiB for everything except its store; at least a third."""
    return max(limit_mib - _STORE_FACTOR * quota_mib, limit_mib // 3)


def snapshot_flags(replicas: int) -> list[str]:
    """How many entries of its log etcd keeps in memory, each of them up to 1.5 MiB.

    etcd bounds them by number only: with the default of 10 000, a tenant that writes large objects fills any memory. A member
    that was away for more than the second number gets the whole store, which is small.
    """
    return ["--snapshot-count=100", f"--snapshot-catchup-entries={20 if replicas == 1 else 100}"]
