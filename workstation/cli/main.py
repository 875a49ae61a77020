"""The entry point: words in, exit code out, and expected errors turned into one line with a next step.

    words ──> the table of commands ──> the parser of the one that is named ──> its request ──> the command

What talks to a cluster or draws tables is loaded by the command that is named. A traceback is never shown for an error that the
user can act on.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import bulkhead
from workstation.cli import commands
from workstation.cli.arguments import add_host
from workstation.cli.failures import CliError, Exit
from workstation.cli.parsing import RAW, Command, JsonParser, Parser, asks_json, tell

_DESCRIPTION = "A Kubernetes control plane for each tenant of a shared GPU cluster."
_EPILOG = """\
examples:
  bulkhead host up                                    a whole cluster on this machine, with simulated GPU nodes
  bulkhead preflight --values values.yaml             whether a cluster can carry Bulkhead, before it is installed
  bulkhead tenant create red --gpus 8                 a tenant with its own API server and 8 GPUs, ready when it returns
  bulkhead tenant list                                all tenants with their readiness and GPUs
  bulkhead tenant describe red                        what it waits for, what was refused and why
  bulkhead connect red -- kubectl get nodes           one command inside the tenant
  bulkhead connect red                                a shell inside the tenant
  bulkhead login red                                  a kubeconfig of your own whose credential renews itself
  bulkhead login -f red.yaml                          the same without any right on the host, with a file of the admin's
  bulkhead revoke red alice                           alice's certificates end now, and she gets no new ones
  bulkhead kubeconfig red --write red.yaml            a kubeconfig without secrets
  bulkhead slurm red -- sinfo                         one command in the tenant's Slurm cluster
  bulkhead ssh red                                    its login nodes by ssh, as who you are in the tenant
  bulkhead top                                        who has which GPUs, who borrows, and a map of the nodes
  bulkhead why red train-0                            why a pod waits, at length
  bulkhead quota try red nvidia.com/gpu=16            who would lose what, and when; changes nothing
  bulkhead usage --since 30d                          GPU-hours of each tenant
  bulkhead audit red --since 1h                       who did what in the tenant
  bulkhead images push registry.example.org/bulkhead  every image into a registry, and a values file for the chart
  bulkhead tenant delete red                          the tenant and everything in it

The host cluster is found through --kubeconfig, $KUBECONFIG, ~/.kube/config, or the embedded host, in this order.
The command is also installed as `kubectl bulkhead`.

exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 timed out, 130 interrupted;
            `connect`, `slurm` and `ssh` return the exit code of their command
with -o json an error is JSON too, in the last line of stderr; completion: source <(bulkhead completion bash)
"""


def build_parser(argv: Sequence[str]) -> Parser:
    """The whole parser, of whose commands only the one that `argv` names knows its options."""
    program = "kubectl bulkhead" if os.path.basename(sys.argv[0]) == "kubectl-bulkhead" else "bulkhead"  # noqa: PTH119 - pathlib is slow to load
    kind = JsonParser if asks_json(argv) else Parser
    parser = kind(prog=program, description=_DESCRIPTION, epilog=_EPILOG, formatter_class=RAW)
    parser.add_argument("--version", action="version", version=f"bulkhead {bulkhead.__version__}")
    add_host(parser, default=None)
    commands.add_all(parser.actions("COMMAND"), argv)
    return parser


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and those after `--` of a command.

    Of `slurm` and `ssh`, as argparse would not find our options between the tenant and the `--`; of `connect` where no tenant
    is named before it, as it would take the first word behind for one.
    """
    if "--" not in argv or commands.named(argv) not in {"slurm", "ssh", "connect"}:
        return argv, []
    place = argv.index("--")
    if commands.named(argv) == "connect" and commands.named(argv[argv.index("connect") + 1 : place]):
        return argv, []
    return argv[:place], argv[place + 1 :]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Whoever starts us with closed outputs wants to read nothing; everybody else here may rely on there being some.
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: PTH123, SIM115
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _run(words)
        finally:
            # A reader that went away is noticed here, and not while Python ends.
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail(CliError("interrupted", code=Exit.INTERRUPTED), as_json=asks_json(words))
    except BrokenPipeError:
        # The reader went away (`| head`); Python would complain once more while flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE


def _run(words: list[str]) -> int:
    """Read the words, and run the command; an error that a person can act on is told, and is an exit code."""
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
        sys.stderr.write("\n")  # `^C` stands in the line already
    tell(plain(error.cause, 2000), error.next_step, error.code, as_json=as_json, head="" if interrupted else "error: ")
    return error.code


def _expected(error: Exception) -> CliError | None:
    """An error of the host's API with its next step; None for what should never happen."""
    from bulkhead.kube import errors  # noqa: PLC0415

    for kind, cause, next_step in (
        (errors.Unauthorized, "the host's API rejects these credentials", "give another --kubeconfig"),
        (errors.Forbidden, "not allowed", "ask an admin of the host cluster for permission"),
        (
            errors.Unavailable,
            "the host's API cannot be reached",
            "check the server in the kubeconfig; for the embedded host: bulkhead host status",
        ),
        (errors.Timeout, "the host's API did not answer in time", "try again"),
        (errors.KubeError, "the host's API", ""),
        (OSError, "this machine", ""),
    ):
        if isinstance(error, kind):
            return CliError(f"{cause}: {error}", next_step=next_step)
    return None


if __name__ == "__main__":
    sys.exit(main())
