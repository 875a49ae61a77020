"""Serves the metrics of the tenant's own GPUs to its pods, in dcgm-exporter's format and in the names of its plane.

Callers show a token of the plane, and the plane says whether it holds and whether its user may `get` the path `/metrics`, as
a kubelet asks. The samples come from `gpumetrics`, the one program that scrapes the nodes; it is asked at most once in five
seconds however many scrape.

    GET /metrics, token ──TokenReview, SubjectAccessReview──> plane
    a user ── nodes/NAME/proxy/metrics/gpus ──> plane's API server, which judges their right ──> `page`
                        ──token of the host──> gpumetrics ──> samples of this tenant ──translate──> page
"""

import hashlib
import logging
import ssl
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from bulkhead.api.untrusted import mapping, text
from bulkhead.gpus.exposition import MAX_TENANT_BYTES, MAX_TENANT_SAMPLES, Sample, parse, render
from bulkhead.gpus.fields import ABOUT, FIELDS, HOSTNAME
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from bulkhead.work.clock import Clock
from bulkhead.work.seldom import NoAnswerError, Seldom
from syncer import http1
from syncer.http1 import BadRequestError, Request
from syncer.kubelet.turns import Turns
from syncer.onerequest import OneRequestServer
from syncer.translate.gpusamples import Mirrored, translated

_log = logging.getLogger(__name__)

PATH: Final = "/metrics"
_FRESH_SECONDS: Final = 5.0
_SOURCE_SECONDS: Final = 8.0
_REMEMBERED_SECONDS: Final = 30.0
_MAX_REMEMBERED: Final = 256
_MAX_TOKEN_CHARACTERS: Final = 8192
_REFUSALS: Final = {
    401: b"a token of this cluster is needed, such as a pod's own\n",
    403: b"the token's user may not get /metrics: grant the verb get on the non-resource URL /metrics\n",
}


class GpuMetrics:
    """The server."""

    def __init__(
        self, plane: Client, namespace: str, clock: Clock, *, find: Callable[[str], Mirrored | None], turns: Turns
    ) -> None:
        """`find`: the pod that a host pod of `namespace` mirrors, by its name."""
        self._plane = plane
        self._namespace = namespace
        self._clock = clock
        self._find = find
        self._turns = turns
        # In the names of the plane.
        self._samples = Seldom(self._ask, clock, seconds=_FRESH_SECONDS)
        # None where the platform measures no GPUs.
        self._source: Client | None = None
        self._known: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    async def serve(self, address: str, port: int, tls: ssl.SSLContext | None, source: KubeConfig) -> None:
        """Serve until cancelled."""
        async with Client(
            source,
            user_agent="bulkhead-syncer",
            field_manager="bulkhead-syncer",
            timeout=_SOURCE_SECONDS,
            max_body=MAX_TENANT_BYTES,
        ) as client:
            self._source = client
            await OneRequestServer(self.respond).serve(address, port, tls)

    async def respond(self, request: Request) -> bytes:
        """The answer to one request."""
        if request.path != PATH:
            return http1.response(404, b"not found\n")
        if request.method != "GET":
            return http1.response(405, b"only GET\n")
        try:
            status = await self._allowed(request.headers.get("authorization", ""))
            if status != 200:
                return http1.response(status, _REFUSALS[status])
            samples = await self._samples.answer()
        except (KubeError, TimeoutError, NoAnswerError):
            return http1.response(503, b"GPU metrics cannot be read now; try again\n")
        return http1.response(200, await self._turns.make(lambda: render(samples, ABOUT)), http1.METRICS)

    async def page(self, node: str) -> bytes:
        """The metrics of the tenant's GPUs on one virtual node, for its kubelet's page, or BadRequestError."""
        if self._source is None:
            raise BadRequestError(404, "metrics of GPUs: the platform does not measure them")
        try:
            samples = await self._samples.answer()
        except NoAnswerError as error:
            raise BadRequestError(503, "metrics of GPUs cannot be read now; try again") from error
        here = [sample for sample in samples if sample.labels.get(HOSTNAME) == node]
        return await self._turns.make(lambda: render(here, ABOUT))

    async def _allowed(self, header: str) -> int:
        """200 for a caller whose token the plane knows and lets read metrics; else the status to answer."""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN_CHARACTERS:
            return 401
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock.monotonic()
        known = self._known.get(digest)
        if known is None or now - known[0] >= _REMEMBERED_SECONDS:
            known = (now, await self._review(token))
            self._known[digest] = known
            self._known.move_to_end(digest)
            while len(self._known) > _MAX_REMEMBERED:
                self._known.popitem(last=False)
        return known[1]

    async def _review(self, token: str) -> int:
        review = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": {"token": token}}
        status = mapping((await self._plane.create(TOKEN_REVIEWS, review)).get("status"))
        if status.get("authenticated") is not True:
            return 401
        user = mapping(status.get("user"))
        asked = {
            "user": text(user.get("username")),
            "uid": text(user.get("uid")),
            "groups": list(user.get("groups") or []),
            "extra": dict(mapping(user.get("extra"))),
            "nonResourceAttributes": {"path": PATH, "verb": "get"},
        }
        access = {"apiVersion": SUBJECT_ACCESS_REVIEWS.api_version, "kind": SUBJECT_ACCESS_REVIEWS.kind, "spec": asked}
        decided = mapping((await self._plane.create(SUBJECT_ACCESS_REVIEWS, access)).get("status"))
        return 200 if decided.get("allowed") is True else 403

    async def _ask(self) -> tuple[Sample, ...]:
        """The tenant's samples now."""
        try:
            if self._source is None:
                raise NoAnswerError("the platform measures no GPUs")
            text = await self._source.get_raw("/tenant", timeout=_SOURCE_SECONDS)
        except (KubeError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            _log.warning("GPU metrics: %s", why)
            raise NoAnswerError(why) from error
        page = parse(text, FIELDS, max_bytes=MAX_TENANT_BYTES, max_samples=MAX_TENANT_SAMPLES)
        if page.left_out:
            _log.warning("GPU metrics: %d samples left out", page.left_out)
        return tuple(translated(page.samples, namespace=self._namespace, find=self._find))
