"""Every name that Bulkhead gives to something on the host, in one place.

Pure functions over strings. A name is part of the isolation between tenants: two different virtual objects must never meet
under one host name, and no tenant may be named so that its namespaces meet another's. Nothing here asks a cluster.
"""

import functools
import hashlib
import re
from typing import Final

GROUP: Final = "bulkhead.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

SYSTEM_NAMESPACE: Final = "bulkhead-system"
TEARDOWN_FINALIZER: Final = "bulkhead.dev/teardown"
PROXY_ROUTE: Final = "plane-proxy"  # the Service by which the proxy finds a plane
# In a plane, the holder of a person's certificate is in this group; the user is named as the host's API server knows them.
ADMIN_GROUP: Final = "bulkhead:host-admins"
HOST_USER_PREFIX: Final = "bulkhead:host:"
# By this signer a CertificateSigningRequest on the host asks for such a certificate; the label names the tenant.
LOGIN_SIGNER: Final = "bulkhead.dev/tenant-admin"
# Users with this verb on a Tenant get a certificate.
LOGIN_VERB: Final = "login"
# The ClusterRole of the chart by which people see the quotas of all tenants, and what was metered.
QUOTA_ROLE: Final = "bulkhead-quota-view"
# In a plane, what its API server knows of a user by a token: when that ends, in seconds since 1970.
TOKEN_ENDS: Final = "bulkhead.dev/token-ends"  # noqa: S105 - the name of a fact

# Inside the plane of a tenant with Slurm.
SLURM_NAMESPACE: Final = "slurm"
SLURM_GROUP: Final = "slurm.bulkhead.dev"  # of its kinds in the plane
SLURM_CONTROLLER: Final = "slurmctld"
SLURM_LOGIN: Final = "login"
SLURM_KEYS: Final = "slurm-keys"
SLURM_TOKEN_KEY: Final = "jwt_hs256.key"  # noqa: S105 - the file of that Secret with the key of slurmrestd's tokens
# All Secrets and ConfigMaps that the controller makes in that namespace of a plane.
SLURM_SECRETS: Final = frozenset({SLURM_KEYS, "slurm-database", "slurm-ssh-host-keys"})
SLURM_CONFIG_MAPS: Final = frozenset({"slurm-authorized-keys", "slurm-config", "slurm-ssh-trust", "slurm-users"})
SLURM_SSH_PORT: Final = 22
SLURM_LOGINS_MOST: Final = 8
# By this signer a CertificateSigningRequest in the plane asks for an ssh certificate, and by these annotations it is answered.
SSH_SIGNER: Final = "bulkhead.dev/slurm-ssh"
SSH_CERTIFICATE: Final = "slurm.bulkhead.dev/ssh-certificate"
SSH_HOST_KEY: Final = "slurm.bulkhead.dev/ssh-host-key"
SSH_REFUSED: Final = "slurm.bulkhead.dev/ssh-refused"

TENANT_NAME_LIMIT: Final = 40
# Places for snapshots that an installation offers by name; a name is a part of the name of a volume.
TARGET_NAME_LIMIT: Final = 40
TARGET_NAME_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$"
MOST_TARGETS: Final = 16
TENANT_NAME_PATTERN: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
RESERVED_TENANT_NAMES: Final = ("system", "bulkhead-system")
RESERVED_TENANT_PREFIX: Final = "kube-"
# ResourceQuotas of a tenant's work namespace.
POD_QUOTA: Final = "tenant-quota"
SECRET_QUOTA: Final = "tenant-secrets"  # noqa: S105 - the name of a quota
OBJECT_QUOTA: Final = "tenant-objects"
# ConfigMap of a work namespace with the variables by which pods find the tenant's API.
API_ENVIRONMENT: Final = "kubernetes-environment"
# Secret with which the platform's own images are pulled, in tenants' namespaces of the host.
PULL_SECRET: Final = "bulkhead-pull"  # noqa: S105 - the name of a Secret
WORK_SUFFIX: Final = "-work"
# ConfigMaps of the system's namespace with what was metered: the page that is written, and closed ones, `<day>-<number>`.
USAGE_PREFIX: Final = "bulkhead-usage-"
USAGE_OPEN: Final = "bulkhead-usage-open"
# Claims of shared volumes, called the same in planes and in work namespaces. With its dots none is what `host_name` gives.
READ_ONLY_CLAIM: Final = "shared.ro."
WRITABLE_CLAIM: Final = "shared.rw."

_READABLE_LIMIT: Final = 30
_COMMON_NAME: Final = 64  # bytes of a certificate's common name
_NAME_DIGEST: Final = 16
_DIGEST_HEX: Final = 32  # 128 bits
_TENANT_NAME = re.compile(TENANT_NAME_PATTERN)
_NOT_IN_LABEL = re.compile(r"[^a-z0-9]+")


class InvalidTenantNameError(ValueError):
    """A tenant may not be called this; the text says why."""


def check_tenant_name(name: str) -> str:
    """Return `name` if a tenant may be called so; the API server holds the same rules in the CRD."""
    if len(name) > TENANT_NAME_LIMIT:
        raise InvalidTenantNameError(f"tenant name: {len(name)} characters, at most {TENANT_NAME_LIMIT} are allowed")
    if not _TENANT_NAME.fullmatch(name):
        raise InvalidTenantNameError(
            f"tenant name: {name!r} must be lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
        )
    if name in RESERVED_TENANT_NAMES or name.startswith(RESERVED_TENANT_PREFIX):
        raise InvalidTenantNameError(f"tenant name: {name!r} is reserved")
    if name.endswith(WORK_SUFFIX):
        raise InvalidTenantNameError(f"tenant name: {name!r} must not end in {WORK_SUFFIX!r}, which marks work namespaces")
    return name


def plane_namespace(tenant: str) -> str:
    """The host namespace of the tenant's plane and syncer."""
    return f"bh-{check_tenant_name(tenant)}"


def work_namespace(tenant: str) -> str:
    """The host namespace of the tenant's mirrored objects."""
    return f"bh-{check_tenant_name(tenant)}{WORK_SUFFIX}"


def tenant_of_plane(namespace: str) -> str:
    """The tenant whose plane a host namespace holds; empty if it holds none."""
    name = namespace.removeprefix("bh-")
    try:
        return name if namespace == plane_namespace(name) else ""
    except InvalidTenantNameError:
        return ""


def tenant_of_work(namespace: str) -> str:
    """The tenant whose mirrored objects a host namespace holds; empty if it holds none."""
    name = namespace.removeprefix("bh-").removesuffix(WORK_SUFFIX)
    try:
        return name if namespace == work_namespace(name) else ""
    except InvalidTenantNameError:
        return ""


def host_user(requester: str) -> str:
    """What a user of the host is called in planes; a name that a certificate has no room for ends in a digest of the whole."""
    name = HOST_USER_PREFIX + requester
    whole = name.encode()
    # The limit counts bytes. A full name never equals the shortened name of another user.
    if len(whole) <= _COMMON_NAME and whole[-_NAME_DIGEST - 1 : -_NAME_DIGEST] != b"~":
        return name
    digest = hashlib.sha256(requester.encode()).hexdigest()[:_NAME_DIGEST]
    return f"{whole[: _COMMON_NAME - _NAME_DIGEST - 1].decode(errors='ignore')}~{digest}"


def is_shared_claim(name: str) -> bool:
    """Whether a claim of this name belongs to a shared volume, so that only the controller may make it."""
    return name.startswith((READ_ONLY_CLAIM, WRITABLE_CLAIM))


@functools.lru_cache(maxsize=2048)
def host_name(tenant_uid: str, kind: str, namespace: str, name: str) -> str:
    """The host name of a virtual object: a readable prefix and 128 bits of digest over all four parts.

    Each part is preceded by its length in bytes, so that no two different quadruples hash the same text. The result is a
    DNS label that begins with a letter, which every kind accepts, and names that would already fit are treated alike: a
    tenant cannot pick a name that another object's translation yields.
    """
    digest = hashlib.sha256()
    for part in (tenant_uid, kind, namespace, name):
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return f"{_readable(name)}-{digest.hexdigest()[:_DIGEST_HEX]}"


def _readable(name: str) -> str:
    """The part of `name` that a person may recognise, as the beginning of a DNS label."""
    plain = _NOT_IN_LABEL.sub("-", name.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"x-{plain}"
    return plain[:_READABLE_LIMIT].strip("-")
