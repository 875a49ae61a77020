"""`bulkhead slurm token`: a token for the REST API of a tenant's Slurm.

Tenant (host) ──> kubeconfig ──> Secret slurm-keys in the plane ──> a JWT for slurmrestd
"""

import argparse
import base64
import binascii
import sys
import time
from dataclasses import dataclass

from bulkhead.api.names import SLURM_KEYS, SLURM_NAMESPACE, SLURM_TOKEN_KEY
from bulkhead.api.slurmtoken import sign
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError, NotFound
from workstation.cli import access, connection, eventloop, slurm, values
from workstation.cli.arguments import Host, add_host, add_tenant, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.parsing import RAW, Parser


@dataclass(frozen=True, slots=True)
class SlurmTokenRequest:
    """`slurm token TENANT`."""

    host: Host
    tenant: str
    user: str
    lifetime_seconds: float


def add_arguments(parser: Parser) -> None:
    """`slurm token`."""
    actions = parser.actions("ACTION")
    token = actions.add_parser(
        "token",
        help="a token for the REST API of a tenant's Slurm",
        description="Print a token for slurmrestd, as `scontrol token` does.\n"
        "Revoke all tokens of a tenant:\n  kubectl annotate tenant NAME bulkhead.dev/revoke-tokens=$(date +%s) --overwrite",
        epilog="examples:\n  export $(bulkhead slurm token red --user alice --lifetime 1h)\n",
        formatter_class=RAW,
    )
    add_host(token)
    add_tenant(token)
    token.add_argument("-u", "--user", metavar="NAME", required=True, help="the user that the token authenticates")
    token.add_argument("--lifetime", metavar="TIME", type=values.seconds, default=1800.0, help="90s, 30m, 1h; default 30m")
    token.does(_request, print_token)


def _request(options: argparse.Namespace) -> SlurmTokenRequest:
    return SlurmTokenRequest(host_of(options), options.tenant, options.user, options.lifetime)


def print_token(request: SlurmTokenRequest) -> int:
    """`bulkhead slurm token TENANT --user NAME --lifetime TIME`: one line that a shell can export."""
    key = eventloop.run(_signing_key(request))
    now = int(time.time())
    user = slurm.check_user(request.user)
    sys.stdout.write(f"SLURM_JWT={sign(key, user, issued=now, expires=now + int(request.lifetime_seconds))}\n")
    sys.stdout.flush()
    return Exit.DONE


async def _signing_key(request: SlurmTokenRequest) -> bytes:
    """The key with which the tenant's slurmrestd and slurmctld check tokens."""
    name = request.tenant
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, name)
        slurm.slurm_spec(tenant)
        data = await access.one_hour(client, request.host, tenant)
    try:
        async with slurm.plane_client(data) as plane:
            secret = await plane.get(kinds.SECRETS, SLURM_KEYS, SLURM_NAMESPACE)
        return base64.b64decode(secret["data"][SLURM_TOKEN_KEY], validate=True)
    except NotFound as error:
        raise CliError(
            f"tenant {name}: Slurm has no keys yet",
            next_step=f"see its progress: bulkhead tenant describe {name}",
            code=Exit.NOT_FOUND,
        ) from error
    except (KeyError, TypeError, binascii.Error) as error:
        raise CliError(f"tenant {name}: Secret {SLURM_NAMESPACE}/{SLURM_KEYS} has no key {SLURM_TOKEN_KEY}") from error
    except KubeError as error:
        raise slurm.silent(name, error) from error
