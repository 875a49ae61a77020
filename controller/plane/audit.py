"""Who did what in a plane: the API server's audit policy and flags, where the files lie, and who reads them.

    class says nothing ──> Metadata into an emptyDir            sink File ──> emptyDir, or etcd's volume ──> container `audit`
                                                                sink Stdout ──> what the API server's container prints
                                                                webhook ──> the class's receiver (`auditreceiver`)

Bodies of what may hold credentials are never written down. Policies go by who has signed in, not by whom they impersonate, so
nobody is left out by acting as one of the platform's users. Container `audit` does nothing until `bulkhead audit` runs the
reader in it: the images of the other containers hold one program each.
"""

from typing import Final

from bulkhead.api.objects import Obj
from controller.plane import auditreceiver
from controller.plane.parts import CONTAINER_SECURITY, mount
from controller.plane.pki import DNS_USER, SYNCER_USER
from controller.plane.sizing import API_SERVER_MIB
from controller.plane.spec import CONFIG_PATH, PlaneSpec
from controller.plane.trail import Audit

AUDIT_PATH: Final = "/var/log/audit"
READER: Final = "audit"
_MIB: Final = 1 << 20
_READ: Final = ["get", "list", "watch"]
_HEALTH: Final[Obj] = {"level": "None", "nonResourceURLs": ["/livez*", "/readyz*", "/healthz*", "/version", "/openapi/*"]}
_LEASES: Final[Obj] = {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]}
_EVENTS: Final[Obj] = {"level": "None", "resources": [{"group": "", "resources": ["events"]}]}
_OWN_READS: Final[Obj] = {"level": "None", "verbs": _READ, "users": [SYNCER_USER, DNS_USER]}
_SYSTEM_READS: Final[Obj] = {"level": "None", "verbs": _READ, "userGroups": ["system:serviceaccounts:kube-system"]}
# What may hold credentials; what is sent to exec and the like is not in a request's body at all.
_CONFIDENTIAL: Final = [
    {"group": "", "resources": ["secrets", "secrets/*", "configmaps", "configmaps/*", "serviceaccounts/token"]},
    {"group": "authentication.k8s.io"},
    {"group": "certificates.k8s.io"},
]
# Of other groups, which tenants define themselves, nobody knows what their objects hold.
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
# The largest head of a request, 1 MiB, is at most this with each character escaped, twice: once more in the answer's message.
_LARGEST_EVENT_BYTES: Final = 12 * _MIB


def policy(asked: Audit | None) -> Obj:
    """The audit policy; reads by service accounts of kube-system are left out only where no class asks for a trail."""
    made: Obj = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    if asked is None:
        return made | {"rules": [_HEALTH, _LEASES, _EVENTS, _OWN_READS, _SYSTEM_READS, {"level": "Metadata"}]}
    rules = [_HEALTH, _LEASES, _EVENTS, _OWN_READS]
    if asked.requests:
        rules += [
            {"level": "Metadata", "users": [SYNCER_USER, DNS_USER]},
            {"level": "Metadata", "resources": _CONFIDENTIAL},
            {"level": "Request", "resources": [{"group": group} for group in _KNOWN]},
        ]
    return made | {"omitManagedFields": True, "rules": [*rules, {"level": "Metadata"}]}


def flags(asked: Audit | None, memory_mib: int = API_SERVER_MIB) -> list[str]:
    """The API server's flags; `memory_mib` is the most that it may use besides its store's."""
    sent = [] if asked is None or asked.receiver is None else auditreceiver.flags(memory_mib)
    return [f"--audit-policy-file={CONFIG_PATH}/audit-policy.json", *_kept(asked), *sent]


def _kept(asked: Audit | None) -> list[str]:
    """Flags of what is written down in the pod."""
    if asked is not None and asked.sink == "Webhook":
        return []
    if asked is None:
        asked, more = Audit(), []
    else:
        # An event that is larger than a file would be dropped; the body of one is dropped instead.
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
    """Where the files are, for the one who writes and the one who reads them."""
    if asked is not None and not asked.files:
        return []
    if asked is not None and asked.retain:
        return [mount("data", AUDIT_PATH, read_only=read_only) | {"subPath": "audit"}]
    return [mount("audit", AUDIT_PATH, read_only=read_only)]


def volumes(asked: Audit | None) -> list[Obj]:
    """The volume of files that end with the pod."""
    if asked is not None and (not asked.files or asked.retain):
        return []
    return [{"name": "audit", "emptyDir": {"sizeLimit": f"{(asked or Audit()).room_mib}Mi"}}]


def readers(spec: PlaneSpec) -> list[Obj]:
    """The container in which `bulkhead audit` runs the reader, where a class asks for files."""
    if spec.audit is None or not spec.audit.files:
        return []
    return [
        {
            "name": READER,
            "image": spec.images.bulkhead,
            "imagePullPolicy": spec.images.pull_policy,
            "command": ["python3", "-m", "bulkhead.auditreader", "--wait"],
            "resources": {"requests": {"cpu": "1m", "memory": "20Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": mounts(spec.audit, read_only=True),
        }
    ]
