"""`bulkhead chaos run | list | stop`: the parser, and `chaos list`."""

import argparse
from dataclasses import dataclass

from bulkhead.api.names import SYSTEM_NAMESPACE
from workstation.chaos.experiments import EXPERIMENTS
from workstation.chaos.judge import Limits
from workstation.chaos.plan import MAX_TENANTS, MIN_TENANTS, Order
from workstation.chaos.report import experiment_document
from workstation.cli import values
from workstation.cli.arguments import Form, add_host, add_output, add_tunnel, form_of, host_of
from workstation.cli.chaos import running, show
from workstation.cli.chaos.running import RunRequest, StopRequest
from workstation.cli.failures import Exit
from workstation.cli.output import document
from workstation.cli.parsing import RAW, Actions, Parser

_DESCRIPTION = """\
Break one tenant of this cluster on purpose, and measure what the other tenants and the host notice.

Without --yes it only says what it would touch. With --yes it creates tenants of its own, measures them and the host
without a fault, breaks one of them by each experiment in turn, and holds the others against what they were before:
no failed request, no restart, and a p99 of at most factor x baseline + allowance. Each fault is proven by something
else than the call that made it. At its end, after Ctrl-C too, it deletes everything that it has created; what it is
about to do stands in a ConfigMap on the host, so that `bulkhead chaos stop` and the next run undo a run that died.
"""
_EPILOG = """\
examples:
  bulkhead chaos list
  bulkhead chaos run --experiment webhook-fails                      says what it would touch, and changes nothing
  bulkhead chaos run --experiment webhook-fails --experiment plane-deleted --class standard --yes
  bulkhead chaos run --experiment objects-flood --yes -o json --junit chaos.xml
  bulkhead chaos run --experiment syncer-deleted --target red --confirm red --yes    breaks a tenant that has users
  bulkhead chaos stop

exit codes: 0 every experiment held and nothing is left, 1 one was violated or not proven, or something is left,
            2 wrong usage or refused, 3 not found, 130 interrupted (and undone)
"""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """`chaos list`."""

    form: Form


def add_arguments(parser: Parser) -> None:
    """`chaos`."""
    parser.description = "Break a tenant on purpose, and measure what the others notice."
    actions = parser.actions("ACTION")
    for add in (_add_run, _add_list, _add_stop):
        add(actions)


def _add_run(actions: Actions) -> None:
    parser = actions.add_parser("run", help="run experiments; without --yes, say what they would touch", formatter_class=RAW)
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add_host(parser)
    parser.add_argument(
        "--experiment",
        metavar="NAME",
        action="append",
        choices=[experiment.name for experiment in EXPERIMENTS],
        required=True,
        help="an experiment of `bulkhead chaos list`; may be repeated, they run in this order",
    )
    sure = parser.add_mutually_exclusive_group()
    sure.add_argument("-y", "--yes", action="store_true", help="do it")
    sure.add_argument("--dry-run", action="store_true", help="say what it would touch; the default")
    parser.add_argument("--class", dest="class_name", metavar="CLASS", type=values.object_name, help="class of its tenants")
    parser.add_argument(
        "--tenants",
        metavar="N",
        type=values.between(MIN_TENANTS, MAX_TENANTS, "a number of tenants"),
        default=3,
        help="tenants to create; without --target one of them is broken, the others are measured (default: 3)",
    )
    parser.add_argument(
        "--target", metavar="TENANT", type=values.tenant_name, help="break this tenant instead of one of its own"
    )
    parser.add_argument(
        "--confirm", metavar="TENANT", type=values.tenant_name, help="the same name again: its users will notice"
    )
    _add_bounds(parser)
    parser.add_argument("--junit", metavar="FILE", help="also write the result as JUnit, for pipelines")
    _add_shared(parser)
    parser.does(_run_request, running.run)


def _add_bounds(parser: Parser) -> None:
    parser.add_argument(
        "--duration", metavar="TIME", type=values.seconds_between(5, 300), default=20.0, help="of each fault (default: 20s)"
    )
    parser.add_argument(
        "--baseline",
        metavar="TIME",
        type=values.seconds_between(5, 600),
        default=30.0,
        help="how long to measure without a fault (default: 30s)",
    )
    parser.add_argument(
        "--p99-factor",
        metavar="FACTOR",
        type=values.decimal(1, 100, "a factor"),
        default=Limits().factor,
        help="the most that the p99 of others may grow (default: 1.25 times)",
    )
    parser.add_argument(
        "--p99-allowance",
        metavar="MILLISECONDS",
        type=values.between(0, 60_000, "a number of milliseconds"),
        default=round(Limits().allowance_seconds * 1000),
        help="in addition (default: 50)",
    )
    parser.add_argument(
        "--request-timeout",
        metavar="TIME",
        type=values.seconds_between(1, 60),
        default=Order(()).request_seconds,
        help="a request of others that takes longer counts as failed (default: 5s)",
    )
    parser.add_argument(
        "--image",
        metavar="IMAGE",
        type=values.plain_name,
        help="with python3, for pods (default: that of Bulkhead's controller)",
    )


def _add_shared(parser: Parser) -> None:
    add_tunnel(parser, "reach tenants")
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=values.object_name,
        default=SYSTEM_NAMESPACE,
        help=f"Bulkhead's namespace, in which it keeps its record (default: {SYSTEM_NAMESPACE})",
    )
    add_output(parser)


def _add_list(actions: Actions) -> None:
    parser = actions.add_parser("list", help="list the experiments, with what they claim and touch")
    parser.description = "List the experiments; with -o json also what each claims, touches and may take."
    parser.shows("bulkhead chaos list", "bulkhead chaos list -o json | jq '.[0]'")
    add_output(parser)
    parser.does(lambda options: ListRequest(form_of(options)), _list)


def _add_stop(actions: Actions) -> None:
    parser = actions.add_parser("stop", help="end the run that is going on, and undo every run that died", formatter_class=RAW)
    parser.description = (
        "End the run that is going on, and undo every run whose process is gone. A run that is alive undoes itself;\n"
        "a dead one is known by its lease, which has not been renewed for 30 s. It may be called at any time, and again."
    )
    parser.epilog = (
        "examples:\n  bulkhead chaos stop\n  bulkhead chaos stop --now      the process is certainly gone\n\n"
        "exit codes: 0 nothing is left, 1 something is left, which it names\n"
    )
    add_host(parser)
    parser.add_argument("--now", action="store_true", help="undo at once, without waiting for the run or its lease")
    _add_shared(parser)
    parser.does(_stop_request, running.stop)


def _order(options: argparse.Namespace) -> Order:
    return Order(
        experiments=tuple(options.experiment),
        target=options.target,
        confirmed=options.confirm,
        tenants=options.tenants,
        class_name=options.class_name,
        image=options.image,
        baseline_seconds=options.baseline,
        fault_seconds=options.duration,
        request_seconds=options.request_timeout,
        acts=options.yes,
    )


def _run_request(options: argparse.Namespace) -> RunRequest:
    return RunRequest(
        host=host_of(options),
        order=_order(options),
        limits=Limits(options.p99_factor, options.p99_allowance / 1000),
        confirmed=options.yes,
        tunnel=options.tunnel,
        namespace=options.namespace,
        junit=options.junit,
        form=form_of(options),
    )


def _stop_request(options: argparse.Namespace) -> StopRequest:
    return StopRequest(host_of(options), options.now, options.tunnel, options.namespace, form_of(options))


def _list(request: ListRequest) -> int:
    """`bulkhead chaos list`."""
    if request.form == "table":
        show.experiments()
    else:
        document([experiment_document(experiment) for experiment in EXPERIMENTS], request.form)
    return Exit.DONE
