"""The entry point: from words to an exit code. An expected error becomes one line with a next step.

    words ──> the table of commands ──> the parser of the named command ──> its request ──> the command

The named command loads what talks to a cluster or draws tables. A traceback is never shown for an error that the user can act
on.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import bulkhead
from workstation.cli import commands
from workstation.cli.arguments import add_host
from workstation.cli.failures import CliError, Exit
from workstation.cli.parsing import RAW, Command, JsonParser, Parser, asks_json, tell

_DESCRIPTION = "A Kubernetes control plane for each tenant of a shared GPU cluster."
_EPILOG = """\
examples:
  bulkhead host up                                    a whole cluster on this machine, with simulated GPU nodes
  bulkhead preflight --values values.yaml             check whether a cluster can run Bulkhead, before you install it
  bulkhead doctor                                     check an installation, and name what is wrong with it
  bulkhead tenant create red --gpus 8                 a tenant with its own API server and 8 GPUs, ready when it returns
  bulkhead tenant list                                all tenants with their readiness and GPUs
  bulkhead tenant describe red                        what a tenant waits for, and what was refused and why
  bulkhead tenant why red                             the first cause of what is wrong with it, and what to type
  bulkhead connect red -- kubectl get nodes           one command inside the tenant
  bulkhead connect red                                a shell inside the tenant
  bulkhead login red                                  a kubeconfig of your own whose credential renews itself
  bulkhead login -f red.yaml                          the same without rights on the host, with a file from the admin
  bulkhead revoke red alice                           end alice's certificates, and issue no new ones
  bulkhead kubeconfig red --write red.yaml            a kubeconfig without secrets
  bulkhead slurm red -- sinfo                         one command in the tenant's Slurm cluster
  bulkhead ssh red                                    its login nodes by ssh, as your user in the tenant
  bulkhead top                                        which tenants hold and borrow GPUs, and a map of the nodes
  bulkhead console                                    the same and more in the browser, always current
  bulkhead console -f team-a.yaml                     your own pods, quota and queue, with a tenant's kubeconfig
  bulkhead why red train-0                            why a pod waits, in detail
  bulkhead quota try red nvidia.com/gpu=16            which tenants would lose quota, and when; changes nothing
  bulkhead usage --since 30d                          GPU-hours of each tenant
  bulkhead audit red --since 1h                       who did what in the tenant
  bulkhead debug collect red                          an archive about a tenant for a colleague, without secrets
  bulkhead chaos run --experiment plane-deleted       what a chaos experiment would touch; --yes runs it
  bulkhead images push registry.example.org/bulkhead  push every image, and write a values file for the chart
  bulkhead tenant delete red                          the tenant and everything in it

The host cluster is found through --kubeconfig, $KUBECONFIG, ~/.kube/config, or the embedded host, in this order.
The command is also installed as `kubectl bulkhead`.

exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 timed out, 130 interrupted;
            `connect`, `slurm` and `ssh` return the exit code of their command
with -o json an error is JSON too, in the last line of stderr; completion: source <(bulkhead completion bash)
"""


def build_parser(argv: Sequence[str]) -> Parser:
    """The whole parser; only the command that `argv` names has its options in it."""
    program = "kubectl bulkhead" if os.path.basename(sys.argv[0]) == "kubectl-bulkhead" else "bulkhead"  # noqa: PTH119 - pathlib is slow to load
    kind = JsonParser if asks_json(argv) else Parser
    parser = kind(prog=program, description=_DESCRIPTION, epilog=_EPILOG, formatter_class=RAW)
    parser.add_argument("--version", action="version", version=f"bulkhead {bulkhead.__version__}")
    add_host(parser, default=None)
    commands.add_all(parser.actions("COMMAND"), argv)
    return parser


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the arguments of the command after `--`.

    `slurm` and `ssh` need it because argparse would not find our options between the tenant and the `--`. `connect` needs it
    if no tenant comes before the `--`, because argparse would take the first word after it for the tenant.
    """
    if "--" not in argv or commands.named(argv) not in {"slurm", "ssh", "connect"}:
        return argv, []
    place = argv.index("--")
    if commands.named(argv) == "connect" and commands.named(argv[argv.index("connect") + 1 : place]):
        return argv, []
    return argv[:place], argv[place + 1 :]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # A caller that starts us with closed streams wants to read or say nothing; the rest of the code may rely on open ones.
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: PTH123, SIM115
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115
    words = list(sys.argv[1:] if argv is None else argv)
    code: int = Exit.DONE
    try:
        try:
            code = _run(words)
        finally:
            # Notice here that the reader has gone, and not while Python exits.
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail(CliError("interrupted", code=Exit.INTERRUPTED), as_json=asks_json(words))
    except BrokenPipeError:
        # The reader has gone (`| head`). A command that has come to its end keeps its exit code.
        _write_no_more()
    except OSError as error:
        # What was printed cannot be written: the disk behind it is full.
        _write_no_more()
        return _fail(CliError(f"this machine: {error}"), as_json=asks_json(words))
    return code


def _write_no_more() -> None:
    # `--help` and completions load nothing of what prints results.
    from workstation.cli.output import let_go  # noqa: PLC0415

    let_go(sys.stdout)


def program() -> NoReturn:
    """Run one command as a process, and end with its exit code.

    obstore's threads may hand over an answer while Python takes itself down; one in three processes ended by SIGABRT then,
    whatever its command had found. So a process that has used it ends at once, with everything written.
    """
    code = main()
    if "obstore" not in sys.modules:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _run(words: list[str]) -> int:
    """Parse the words and run the command. An error that the user can act on is printed, and becomes an exit code."""
    arguments, command = split(words)
    options = build_parser(arguments).parse_args(arguments)
    if command:
        options.command = command
    try:
        handler: Command[Any] = options.handler
        return handler.of(options)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except CliError as error:
        return _fail(error, as_json=_as_json(options))
    except Exception as error:
        expected = _expected(error)
        if expected is None:
            raise
        return _fail(expected, as_json=_as_json(options))


def _as_json(options: argparse.Namespace) -> bool:
    return getattr(options, "output", None) == "json"


def _fail(error: CliError, *, as_json: bool) -> int:
    from workstation.cli.output import plain  # noqa: PLC0415

    interrupted = error.code == Exit.INTERRUPTED
    if interrupted and not as_json and sys.stderr.isatty():
        sys.stderr.write("\n")  # the terminal has printed `^C` in the line
    tell(plain(error.cause, 2000), error.next_step, error.code, as_json=as_json, head="" if interrupted else "error: ")
    return error.code


def _expected(error: Exception) -> CliError | None:
    """The error for a failure of the host's API, with a next step; None for a failure that should never happen."""
    from bulkhead.kube import errors  # noqa: PLC0415

    for kind, cause, next_step in (
        (
            errors.Unauthorized,
            "the API rejects these credentials",
            "they may have expired: sign in again as for kubectl, or give another --kubeconfig",
        ),
        (errors.Forbidden, "not allowed", "ask an admin of that cluster for permission"),
        (errors.Throttled, "the host's API is overloaded", "try again in some seconds"),
        (
            errors.Unavailable,
            "the host's API cannot be reached",
            "HTTPS_PROXY is set, and this command connects to the host directly: it needs a route to the kubeconfig's server"
            if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy"))
            else "check the server in the kubeconfig; for the embedded host: bulkhead host status",
        ),
        (errors.Timeout, "the host's API did not answer in time", "try again"),
        (errors.KubeError, "the host's API", ""),
        (OSError, "this machine", ""),
    ):
        if isinstance(error, kind):
            return CliError(f"{cause}: {error or type(error).__name__}", next_step=next_step)
    return None


if __name__ == "__main__":
    program()
