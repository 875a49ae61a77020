"""Which parts of a store become a clone's own, and which stay behind: one verdict for each key. Pure.

    a clone is the plane as it would be if all of its nodes were lost at one moment, with empty volumes

Field numbers are those of the API's `generated.proto`, which never change. The same rules say what a clone would be, before
anything is made (`workstation.cli.tenant.cloneplan`), and make it (`controller.restores.owning`).
Its page: docs/decisions/0057-clones.md.
"""

import base64
import hashlib
import hmac
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from bulkhead.api import labels, names
from bulkhead.snapshots import protobuf
from bulkhead.snapshots.protobuf import ProtobufError

Network: TypeAlias = IPv4Network | IPv6Network

REGISTRY: Final = "/registry/"
_SEALED: Final = b"k8s:enc:secretbox:v1:"
_ENCRYPTED: Final = b"k8s:enc:"
_SEALED_BY: Final = _SEALED + b"key1:"  # as `controller.plane.apiserver` names the key
_NONCE_BYTES: Final = SecretBox.NONCE_SIZE
_MOST_NAMED: Final = 1000
_TOKEN_TYPE: Final = b"kubernetes.io/service-account-token"
_FROM_THE_PLANE: Final = frozenset({"kube-root-ca.crt", "extension-apiserver-authentication"})
_MADE_BY_CONTROLLERS: Final = frozenset({"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"})
_API_SERVER: Final = "default/kubernetes"
# ObjectMeta, and then what each kind has; 1 is the metadata, 2 the spec, 3 the status.
_META, _SPEC, _STATUS = 1, 2, 3
_UID, _LABELS, _ANNOTATIONS, _OWNERS = 5, 11, 12, 13
_OWNER_KIND, _OWNER_CONTROLS = 1, 6
_SELECTOR, _CLUSTER_IP, _CLUSTER_IPS = 2, 3, 18
_VOLUME_NAME, _DATA_SOURCE, _DATA_SOURCE_REF = 3, 7, 8
_SECRET_DATA, _SECRET_TYPE = 2, 3
_BINDING: Final = "pv.kubernetes.io/"
_PROVISIONING: Final = ("volume.kubernetes.io/", "volume.beta.kubernetes.io/")


class CloneError(ValueError):
    """A store cannot become a clone; the message says why, and quotes nothing of it but names."""


class What(StrEnum):
    """What happens to an object, for people."""

    RECREATED = "pods that their controllers create again"
    ALONE = "pods that no controller makes again"
    CLAIMS = "volume claims that get new, empty volumes"
    SNAPSHOTS = "snapshots of volumes that stay behind"
    SERVICES = "Services that get addresses of the clone's own slice"
    TOKENS = "Secrets with tokens of service accounts, which get new ones"
    SECRETS = "Secrets that are encrypted with the clone's own key"
    CRON = "CronJobs that run in both"
    OTHER = "other objects that the plane makes again"


# What is about nodes, pods, volumes, leases, certificates and addresses of the original, and is made again or is gone.
BEHIND: Final = (
    "certificatesigningrequests/",
    "csinodes/",
    "csistoragecapacities/",
    "events/",
    "ipaddresses/",
    "leases/",
    "masterleases/",
    "minions/",
    "peerserverleases/",
    "persistentvolumes/",
    "ranges/",
    "resourceslices/",
    "servicecidrs/",
    "volumeattachments/",
)
_PODS: Final = "pods/"
_SNAPSHOTS: Final = "snapshot.storage.k8s.io/volumesnapshots/"
_SNAPSHOT_CONTENTS: Final = "snapshot.storage.k8s.io/volumesnapshotcontents/"
_SERVICES, _ENDPOINTS, _SLICES = "services/specs/", "services/endpoints/", "endpointslices/"
_CLAIMS, _RESOURCE_CLAIMS, _SECRETS, _CONFIG_MAPS = "persistentvolumeclaims/", "resourceclaims/", "secrets/", "configmaps/"
_CLUSTER, _CRON = "namespaces/kube-system", "cronjobs/"
# Nothing of these comes along.
WHOLE: Final = (*BEHIND, _PODS, _SNAPSHOTS, _SNAPSHOT_CONTENTS)
# In this order: which Endpoints are made by a controller shows in the Service.
JUDGED: Final = (_SERVICES, _ENDPOINTS, _SLICES, _CLAIMS, _RESOURCE_CLAIMS, _SECRETS, _CONFIG_MAPS, _CLUSTER)
# Of these only the names count.
NAMES_ONLY: Final = frozenset({_ENDPOINTS})
# What only a plan counts, beside the rest.
COUNTED: Final = (_CRON,)


@dataclass(frozen=True, slots=True, repr=False)
class Own:
    """What the clone has instead of the original's. It has no text form, so that no key gets into a log.

    service_slice, former_slice: where Services have their addresses. cluster_uid: of the plane, that is of its kube-system.
    key, former_key: with which Secrets are encrypted, in base64. slurm: whether its Tenant has a Slurm cluster.
    """

    service_slice: str
    former_slice: str
    cluster_uid: str
    key: str
    former_key: str
    slurm: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one key: `value` is what takes its place, None if it goes; `keep` if nothing changes."""

    value: bytes | None = None
    keep: bool = False


_KEEP: Final = Verdict(keep=True)
_GONE: Final = Verdict()


@dataclass(frozen=True, slots=True, repr=False)
class _Entry:
    """A key, its `namespace/name`, and what is stored there."""

    key: str
    name: str
    value: bytes


@dataclass(slots=True)
class Cloning:
    """The verdicts on one store, in the order of `JUDGED`; it counts what it finds."""

    own: Own
    counted: "Counter[What]" = field(default_factory=Counter)
    alone: list[str] = field(default_factory=list)
    _selecting: set[str] = field(default_factory=set)
    _new: SecretBox = field(init=False)
    _former: SecretBox = field(init=False)
    _nonces: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._new, self._former = _box(self.own.key), _box(self.own.former_key)
        self._nonces = hmac.digest(bytes(self._new), b"bulkhead.dev/clone-nonce/v1", hashlib.sha256)

    def judge(self, scope: str, key: str, value: bytes) -> Verdict:
        """The verdict on a key of this scope. Raises CloneError."""
        rules = {
            _PODS: self._pod,
            _SERVICES: self._service,
            _ENDPOINTS: self._endpoints,
            _SLICES: self._slice,
            _CLAIMS: self._claim,
            _RESOURCE_CLAIMS: self._resource_claim,
            _SECRETS: self._secret,
            _CONFIG_MAPS: self._config_map,
            _CLUSTER: self._cluster,
            _CRON: self._cron_job,
        }
        rule = rules.get(scope)
        if rule is None:
            return self._gone(What.SNAPSHOTS if scope == _SNAPSHOTS else What.OTHER)
        try:
            return rule(_Entry(key, key.removeprefix(f"{REGISTRY}{scope}"), value))
        except ProtobufError as error:
            raise CloneError(f"{key} cannot be made the clone's own: {error}") from error

    def _gone(self, what: What) -> Verdict:
        self.counted[what] += 1
        return _GONE

    def _pod(self, entry: _Entry) -> Verdict:
        if _is_platforms(entry.value):
            # A worker of Slurm. Pods go in any case, so it does not matter whose word that is.
            return self._gone(What.OTHER)
        owners = _owners(entry.value)
        if any(protobuf.is_set(owner, _OWNER_CONTROLS) for owner in owners):
            return self._gone(What.RECREATED)
        if len(self.alone) < _MOST_NAMED:
            self.alone.append(entry.name)
        return self._gone(What.ALONE)

    def _endpoints(self, entry: _Entry) -> Verdict:
        made_by_controller = entry.name == _API_SERVER or entry.name in self._selecting
        return self._gone(What.OTHER) if made_by_controller else _KEEP

    def _config_map(self, entry: _Entry) -> Verdict:
        # A daemon of Slurm that began with the original's settings would keep its cluster's name in its state for good.
        made_again = entry.name.rpartition("/")[2] in _FROM_THE_PLANE or self._is_slurms(entry, names.SLURM_CONFIG_MAPS)
        return self._gone(What.OTHER) if made_again else _KEEP

    def _is_slurms(self, entry: _Entry, made: frozenset[str]) -> bool:
        """Whether the controller makes an object again, for the clone's Slurm cluster.

        By its name, under which the controller writes whatever is there: a tenant can put any label on its own objects, and
        take any from ours.
        """
        namespace, _, name = entry.name.partition("/")
        return self.own.slurm and namespace == names.SLURM_NAMESPACE and name in made

    def _cluster(self, entry: _Entry) -> Verdict:
        if entry.name:
            # A namespace whose name begins like that of kube-system.
            return _KEEP
        return _put(entry.value, _with_meta(entry.value, {_UID: (self.own.cluster_uid.encode(),)}))

    def _cron_job(self, _: _Entry) -> Verdict:
        self.counted[What.CRON] += 1
        return _KEEP

    def _service(self, entry: _Entry) -> Verdict:
        name, value = entry.name, entry.value
        message = protobuf.object_in(value)
        spec = protobuf.field(message, _SPEC)
        if protobuf.field(spec, _SELECTOR):
            self._selecting.add(name)
        addresses = protobuf.texts(spec, _CLUSTER_IPS)
        first = protobuf.texts(spec, _CLUSTER_IP)
        moved = protobuf.changed(
            spec,
            {
                _CLUSTER_IP: [self._moved(name, address).encode() for address in first],
                _CLUSTER_IPS: [self._moved(name, address).encode() for address in addresses],
            },
        )
        self.counted[What.SERVICES] += 1
        # The status has addresses of the original's load balancer.
        return _put(value, protobuf.changed(message, {_SPEC: (moved,), _STATUS: (b"",)}))

    def _moved(self, name: str, text: str) -> str:
        """The address at the same place of the clone's slice; a headless Service has `None`, others may have no address."""
        try:
            address = ip_address(text)
        except ValueError:
            return text
        former, new = ip_network(self.own.former_slice), ip_network(self.own.service_slice)
        if address not in former:
            return text
        place = int(address) - int(former.network_address)
        if place >= new.num_addresses:
            raise CloneError(f"Service {name} has address {text}, for which the slice {new} has no place")
        return str(new.network_address + place)

    def _slice(self, entry: _Entry) -> Verdict:
        meta = protobuf.field(protobuf.object_in(entry.value), _META)
        made_by = protobuf.entries(meta, _LABELS).get("endpointslice.kubernetes.io/managed-by")
        mine = entry.name == _API_SERVER or made_by in _MADE_BY_CONTROLLERS
        return self._gone(What.OTHER) if mine else _KEEP

    def _claim(self, entry: _Entry) -> Verdict:
        message = protobuf.object_in(entry.value)
        meta, spec = protobuf.field(message, _META), protobuf.field(message, _SPEC)
        if labels.SHARED_VOLUME in protobuf.entries(meta, _LABELS):
            # The platform makes it again, for a volume that the class shares with all of its tenants.
            return self._gone(What.OTHER)
        kept = [
            found.content
            for found in protobuf.fields(meta)
            if found.number == _ANNOTATIONS and not _is_binding(protobuf.field(found.content, 1))
        ]
        self.counted[What.CLAIMS] += 1
        changes = {
            _META: (protobuf.changed(meta, {_ANNOTATIONS: kept}),),
            _SPEC: (protobuf.changed(spec, {_VOLUME_NAME: (), _DATA_SOURCE: (), _DATA_SOURCE_REF: ()}),),
            _STATUS: (protobuf.changed(b"", {1: (b"Pending",)}),),
        }
        return _put(entry.value, protobuf.changed(message, changes))

    def _resource_claim(self, entry: _Entry) -> Verdict:
        value = entry.value
        if any(protobuf.field(owner, _OWNER_KIND) == b"Pod" for owner in _owners(value)):
            return self._gone(What.OTHER)
        # The status has the devices that it was given.
        return _put(value, protobuf.changed(protobuf.object_in(value), {_STATUS: (b"",)}))

    def _secret(self, entry: _Entry) -> Verdict:
        key, plain = entry.key, self._opened(entry.key, entry.value)
        message = protobuf.object_in(plain)
        if self._is_slurms(entry, names.SLURM_SECRETS):
            # It has the original's keys.
            return self._gone(What.OTHER)
        if protobuf.field(message, _SECRET_TYPE) == _TOKEN_TYPE:
            # The plane's controller manager signs another token for a Secret of this type that has none.
            plain = protobuf.with_object(plain, protobuf.changed(message, {_SECRET_DATA: ()}))
            self.counted[What.TOKENS] += 1
        self.counted[What.SECRETS] += 1
        return Verdict(self._sealed(key, plain))

    def _opened(self, key: str, value: bytes) -> bytes:
        if not value.startswith(_ENCRYPTED):
            return value
        if not value.startswith(_SEALED):
            raise CloneError(f"{key} is encrypted in another way than planes do")
        try:
            return self._former.decrypt(value[len(_SEALED) :].partition(b":")[2])
        except (CryptoError, ValueError) as error:
            raise CloneError(f"{key} cannot be decrypted with the key of the snapshot") from error

    def _sealed(self, key: str, plain: bytes) -> bytes:
        # Every member of a plane makes the same bytes of the same store: the nonce follows from key and content.
        nonce = hmac.digest(self._nonces, key.encode() + b"\x00" + plain, hashlib.sha256)[:_NONCE_BYTES]
        return _SEALED_BY + bytes(self._new.encrypt(plain, nonce))


def fits(service_slice: str, former_slice: str) -> bool:
    """Whether every address of the former slice has a place in the new one."""
    return ip_network(service_slice).num_addresses >= ip_network(former_slice).num_addresses


def _box(key: str) -> SecretBox:
    try:
        return SecretBox(base64.b64decode(key, validate=True))
    except (ValueError, TypeError, CryptoError) as error:
        raise CloneError("a key for Secrets is not one") from error


def _put(value: bytes, message: bytes) -> Verdict:
    return Verdict(protobuf.with_object(value, message))


def _with_meta(value: bytes, changes: dict[int, tuple[bytes, ...]]) -> bytes:
    message = protobuf.object_in(value)
    return protobuf.changed(message, {_META: (protobuf.changed(protobuf.field(message, _META), changes),)})


def _is_platforms(value: bytes) -> bool:
    """Whether an object says that the controller has made it."""
    labelled = protobuf.entries(protobuf.field(protobuf.object_in(value), _META), _LABELS)
    return labelled.get(labels.MANAGED_BY) == labels.MANAGED_BY_BULKHEAD


def _owners(value: bytes) -> list[bytes]:
    meta = protobuf.field(protobuf.object_in(value), _META)
    return [found.content for found in protobuf.fields(meta) if found.number == _OWNERS]


def _is_binding(name: bytes) -> bool:
    text = name.decode("utf-8", "replace")
    return text.startswith((_BINDING, *_PROVISIONING))
