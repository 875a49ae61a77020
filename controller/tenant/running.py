"""Runs the facets of one turn in their order, and returns how the turn ended.

    facet ─> facet ── failed          facets that act in any case ─> end
                     └─ the others do not act ─┘

A facet acts only if earlier facets produced what it needs. Nothing here knows a facet by name.
"""

import logging
from collections.abc import Sequence

from bulkhead.api.conditions import Reason
from bulkhead.kube.errors import KubeError
from controller import metrics
from controller.decide.identity import InDoubtError
from controller.pki.material import KeysLostError
from controller.refusal import Refusal
from controller.restores.decide import WaitsError
from controller.tenant.failure import failure_of
from controller.tenant.tracing import UNTIMED, Steps
from controller.tenant.turn import Facet, Turn

_log = logging.getLogger(__name__)


async def run(facets: Sequence[Facet], turn: Turn, steps: Steps = UNTIMED) -> tuple[Turn, Refusal | None]:
    """The turn at its end, and its first failure. Raises `Outdated`, because nothing more can be decided then."""
    failure: Refusal | None = None
    for facet in facets:
        if not _acts(facet, turn, failure):
            continue
        try:
            with metrics.facet_seconds.labels(facet.name).time(), steps.step(facet.name):
                turn = await facet.reconcile(turn)
        except KeysLostError as error:
            failure = failure or Refusal(Reason.KEYS_LOST, str(error))
            _log.error("keys lost: %s", error, extra={"tenant": turn.tenant})
        except InDoubtError as error:
            failure = failure or Refusal(Reason.IDENTITY_IN_DOUBT, str(error))
            _log.error("identity in doubt: %s", error, extra={"tenant": turn.tenant})
        except WaitsError as error:
            failure = failure or Refusal(Reason.RESTORING, str(error))
        except (KubeError, TimeoutError) as error:
            failure = failure or failure_of(error)
            _log.warning("reconcile failed: %s", error, extra={"tenant": turn.tenant, "facet": facet.name})
    return turn, failure


def _acts(facet: Facet, turn: Turn, failure: Refusal | None) -> bool:
    return (failure is None or facet.in_any_case) and all(turn.of(kind) is not None for kind in facet.needs)
