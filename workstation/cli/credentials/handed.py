"""The file that an admin hands to users without rights on the host: where a tenant is, and where its users sign in.

    admin:   bulkhead kubeconfig red --oidc --write red.yaml     user:     bulkhead login -f red.yaml
                                                                           bulkhead connect -f red.yaml -- kubectl get pods

It is a kubeconfig that kubectl can use, without secrets (`document.with_tokens`; docs/contracts.md lists its fields). Only
these fields are read here, each within bounds. The command in it is never run, and a file with other fields is refused.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, sequence, text
from bulkhead.kube.errors import ConfigError
from bulkhead.kube.kubeconfig import KubeConfig
from workstation.cli import homefolder, hostfile
from workstation.cli.arguments import Host
from workstation.cli.credentials.provider import Issuer, authority_of
from workstation.cli.failures import CliError, Exit

_FILE_LIMIT_BYTES: Final = 256 * 1024
_WORDS: Final = ["credential", "token"]
_ONCE: Final = ("--issuer-url", "--client-id", "--discovery-url", "--issuer-ca-data", "--redirect-port")
_ASK: Final = "ask the tenant's admin for the file that this prints: bulkhead kubeconfig TENANT --oidc"


@dataclass(frozen=True, slots=True)
class Handed:
    """The content of such a file."""

    tenant: Obj  # only what a kubeconfig needs: name, endpoint, authority, TLS server name
    issuer: Issuer
    redirect_port: int = 0

    @property
    def name(self) -> str:
        """The tenant's name."""
        return str(self.tenant["metadata"]["name"])


def default_file(tenant: str) -> Path:
    """The default path of a tenant's kubeconfig."""
    return homefolder.home() / ".kube" / "bulkhead" / f"{tenant}.yaml"


def addresses_in(path: Path) -> tuple[str, ...]:
    """The addresses of a kubeconfig's clusters; empty for a file that does not exist or is not a kubeconfig."""
    try:
        with path.open("rb") as file:
            document = _document(file.read(_FILE_LIMIT_BYTES + 1))
    except (OSError, ValueError):
        return ()
    servers = (text(mapping(entry.get("cluster")).get("server")) for entry in mappings(document.get("clusters")))
    return tuple(server for server in servers if server)


def given(file: str, tenant: str | None) -> Handed:
    """The file that a command got by `-f`. The tenant may be omitted; if it is named, it must be the file's."""
    found = _of(Path(file))
    if tenant not in {None, found.name}:
        raise CliError(f"{file} is of tenant {found.name}, not of {tenant}", next_step="name one of them", code=Exit.USAGE)
    return found


def kept(tenant: str) -> Handed | None:
    """The kubeconfig that `bulkhead login` wrote for a tenant, if its users sign in at a provider."""
    try:
        found = _of(default_file(tenant))
    except CliError:
        return None
    return found if found.name == tenant else None


def instead_of_host(host: Host, tenant: str) -> Handed | None:
    """The kubeconfig that this user logged in with, if there is no host to ask. $KUBECONFIG may be that file."""
    if host.kubeconfig:
        return None
    try:
        path = hostfile.find_kubeconfig(None)
    except CliError:
        return kept(tenant)
    try:
        found = _of(path)
    except CliError:
        return None  # another file: the host's
    return found if found.name == tenant else kept(tenant)


def _of(path: Path) -> Handed:
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror}", next_step=_ASK, code=Exit.USAGE) from error
    try:
        return read(data)
    except (ValueError, ConfigError) as error:
        raise CliError(f"{path} is not a file to log in with: {error}", next_step=_ASK, code=Exit.USAGE) from error


def read(data: bytes) -> Handed:
    """The content of a file. Raises ValueError or ConfigError if it does not have this form."""
    document = _document(data)
    cluster = _only(document, "clusters", "cluster")
    plugin = mapping(_only(document, "users", "user").get("exec"))
    arguments = [argument for argument in sequence(plugin.get("args")) if isinstance(argument, str)]
    at = next((at for at in range(len(arguments) - 2) if arguments[at : at + 2] == _WORDS), None)
    if at is None:
        raise ValueError("it does not name an identity provider to sign in to")
    name = arguments[at + 2]
    try:
        names.check_tenant_name(name)
    except names.InvalidTenantNameError as error:
        raise ValueError(str(error)) from error
    issuer, port = _issuer(arguments[at + 3 :])
    # Files that it names are not read, and unverified connections are refused.
    config = KubeConfig.from_bytes(_anonymous(cluster), hostile=True)
    status = {
        "endpoint": config.server,
        "certificateAuthority": (config.ca or b"").decode("ascii"),
        "tlsServerName": config.tls_server_name,
    }
    return Handed({"metadata": {"name": name}, "status": status}, issuer, port)


def _document(data: bytes) -> Mapping[str, Any]:
    if len(data) > _FILE_LIMIT_BYTES:
        raise ValueError(f"it has more than {_FILE_LIMIT_BYTES // 1024} KiB")
    import yaml  # noqa: PLC0415 - slow to load

    try:
        found = json.loads(data) if data.lstrip().startswith(b"{") else yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError("it is neither YAML nor JSON") from error
    return mapping(found)


def _only(document: Mapping[str, Any], section: str, field: str) -> Mapping[str, Any]:
    found = [mapping(entry.get(field)) for entry in mappings(document.get(section))]
    if len(found) != 1:
        raise ValueError(f"it must have one entry in {section}, not {len(found)}")
    return found[0]


def _issuer(words: Sequence[str]) -> tuple[Issuer, int]:
    options: dict[str, str] = {}
    scopes: list[str] = []
    if len(words) % 2:
        raise ValueError("its command ends with an option that has no value")
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "--scope":
            scopes.append(value)
        elif option in _ONCE and option not in options:
            options[option] = value
        else:
            raise ValueError(f"its command has {option[:40]!r}, which such a file never has")
    if not options.get("--issuer-url") or not options.get("--client-id"):
        raise ValueError("its command lacks --issuer-url or --client-id")
    authority = authority_of(options["--issuer-ca-data"]) if "--issuer-ca-data" in options else ""
    port = options.get("--redirect-port", "0")
    if not port.isascii() or not port.isdecimal() or len(port) > 5 or not (port == "0" or 1024 <= int(port) <= 65535):
        raise ValueError(f"its command has --redirect-port {port[:10]!r}, which is neither 0 nor a port from 1024 to 65535")
    made = Issuer(options["--issuer-url"], options["--client-id"], options.get("--discovery-url", ""), authority, tuple(scopes))
    return made, int(port)


def _anonymous(cluster: Mapping[str, Any]) -> bytes:
    """A kubeconfig with the cluster and without a user."""
    scope = {"cluster": "x", "user": "x"}
    document = {"clusters": [{"name": "x", "cluster": cluster}], "users": [{"name": "x", "user": {}}], "current-context": "x"}
    return json.dumps(document | {"contexts": [{"name": "x", "context": scope}]}).encode()
