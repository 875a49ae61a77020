"""The audit trail of a plane: the API server's audit policy and flags, its files, and the container that reads them.

    class says nothing ──> Metadata into an emptyDir            sink File ──> emptyDir, or etcd's volume ──> container `audit`
                                                                sink Stdout ──> what the API server's container prints
                                                                webhook ──> the class's receiver (`auditreceiver`)

Bodies of objects that may contain credentials are never recorded. Policies match the authenticated user, not the impersonated
one, so impersonating one of the platform's users does not hide a request. Container `audit` sleeps until `bulkhead audit` runs
the reader in it: the images of the other containers contain one program each.
"""

from typing import Final

from bulkhead.api.objects import Obj
from controller.plane import auditreceiver
from controller.plane.budgets import Budget
from controller.plane.parts import CONTAINER_SECURITY, mount
from controller.plane.pki import DNS_USER, SYNCER_USER
from controller.plane.sizing import API_SERVER_MIB
from controller.plane.spec import CONFIG_PATH, PlaneSpec
from controller.plane.trail import Audit

AUDIT_PATH: Final = "/var/log/audit"
READER: Final = "audit"
READER_BUDGET: Final = Budget("1m", "20Mi", 128, cpu_limit="1")
# What the API server may print on stdout between two rotations of its log, if the trail is there.
_PRINTED_MIB: Final = 1024
_MIB: Final = 1 << 20
_READ: Final = ["get", "list", "watch"]
_HEALTH: Final[Obj] = {"level": "None", "nonResourceURLs": ["/livez*", "/readyz*", "/healthz*", "/version", "/openapi/*"]}
_LEASES: Final[Obj] = {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]}
_EVENTS: Final[Obj] = {"level": "None", "resources": [{"group": "", "resources": ["events"]}]}
_OWN_READS: Final[Obj] = {"level": "None", "verbs": _READ, "users": [SYNCER_USER, DNS_USER]}
# A tenant's admin can have a token of these accounts, so what they read of Secrets is recorded. The rest is noise.
_SYSTEM: Final = ["system:serviceaccounts:kube-system"]
_SYSTEM_READS: Final[tuple[Obj, ...]] = (
    {"level": "Metadata", "verbs": _READ, "userGroups": _SYSTEM, "resources": [{"group": "", "resources": ["secrets"]}]},
    {"level": "None", "verbs": _READ, "userGroups": _SYSTEM},
)
# May contain credentials. What is sent to exec, attach or portforward is never in a request's body.
_CONFIDENTIAL: Final = [
    {"group": "", "resources": ["secrets", "secrets/*", "configmaps", "configmaps/*", "serviceaccounts/token"]},
    {"group": "authentication.k8s.io"},
    {"group": "certificates.k8s.io"},
]
# Tenants define other groups themselves, and it is unknown what their objects contain.
_KNOWN: Final = (
    "",
    "apps",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
)
# The largest request header is 1 MiB. With each character escaped, and repeated in the response's message, it takes at most
# this.
_LARGEST_EVENT_BYTES: Final = 12 * _MIB


def policy(asked: Audit | None) -> Obj:
    """The audit policy. Unless a class requests a trail, it leaves out what accounts of kube-system read, except Secrets."""
    made: Obj = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    if asked is None:
        return made | {"rules": [_HEALTH, _LEASES, _EVENTS, _OWN_READS, *_SYSTEM_READS, {"level": "Metadata"}]}
    rules = [_HEALTH, _LEASES, _EVENTS, _OWN_READS]
    if asked.requests:
        rules += [
            {"level": "Metadata", "users": [SYNCER_USER, DNS_USER]},
            {"level": "Metadata", "resources": _CONFIDENTIAL},
            {"level": "Request", "resources": [{"group": group} for group in _KNOWN]},
        ]
    return made | {"omitManagedFields": True, "rules": [*rules, {"level": "Metadata"}]}


def flags(asked: Audit | None, memory_mib: int = API_SERVER_MIB) -> list[str]:
    """The API server's flags; `memory_mib` is the memory that it may use in addition to its store's, in MiB."""
    sent = [] if asked is None or asked.receiver is None else auditreceiver.flags(memory_mib)
    return [f"--audit-policy-file={CONFIG_PATH}/audit-policy.json", *_kept(asked), *sent]


def _kept(asked: Audit | None) -> list[str]:
    """Flags for the trail that is kept in the pod."""
    if asked is not None and asked.sink == "Webhook":
        return []
    if asked is None:
        asked, more = Audit(), []
    else:
        # The API server drops an event that is larger than a file. With this limit it drops only the event's body.
        most = min(_LARGEST_EVENT_BYTES, asked.file_mib * _MIB * 3 // 4)
        more = [
            "--audit-log-truncate-enabled=true",
            f"--audit-log-truncate-max-event-size={most}",
            f"--audit-log-truncate-max-batch-size={2 * most}",
        ]
    if not asked.files:
        return ["--audit-log-path=-", *more]
    return [
        f"--audit-log-path={AUDIT_PATH}/audit.log",
        f"--audit-log-maxage={asked.days}",
        f"--audit-log-maxbackup={asked.backups}",
        f"--audit-log-maxsize={asked.file_mib}",
        *more,
    ]


def mounts(asked: Audit | None, *, read_only: bool) -> list[Obj]:
    """The mounts of the files, for the container that writes them and for the one that reads them."""
    if asked is not None and not asked.files:
        return []
    if asked is not None and asked.retain:
        return [mount("data", AUDIT_PATH, read_only=read_only) | {"subPath": "audit"}]
    return [mount("audit", AUDIT_PATH, read_only=read_only)]


def volumes(asked: Audit | None) -> list[Obj]:
    """The volume of files that end with the pod; none if they are on etcd's volume."""
    if asked is not None and (not asked.files or asked.retain):
        return []
    return [{"name": "audit", "emptyDir": {"sizeLimit": f"{(asked or Audit()).room_mib}Mi"}}]


def files_mib(asked: Audit | None) -> int:
    """How much of the node's disk the trail may take, in MiB; none if it is on etcd's volume."""
    if asked is not None and asked.sink == "Stdout":
        return _PRINTED_MIB
    return sum((asked or Audit()).room_mib for _ in volumes(asked))


def readers(spec: PlaneSpec) -> list[Obj]:
    """The container in which `bulkhead audit` runs the reader, if a class requests files."""
    if spec.audit is None or not spec.audit.files:
        return []
    return [
        {
            "name": READER,
            "image": spec.images.bulkhead,
            "imagePullPolicy": spec.images.pull_policy,
            "command": ["python3", "-m", "bulkhead.auditreader", "--wait"],
            "resources": READER_BUDGET.resources(),
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": mounts(spec.audit, read_only=True),
        }
    ]
