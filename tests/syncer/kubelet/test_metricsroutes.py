"""Which paths of metrics.k8s.io exist, and which do not."""

import pytest

from syncer.http1 import BadRequestError, parse_head
from syncer.kubelet.metricsroutes import Question, question

ROOT = "/apis/metrics.k8s.io"
V1 = f"{ROOT}/v1beta1"


def asked(target: str, method: str = "GET") -> Question:
    return question(parse_head(f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()))


@pytest.mark.parametrize(
    ("target", "understood"),
    [
        (ROOT, Question("group")),
        (V1, Question("resources")),
        (f"{V1}?timeout=32s", Question("resources")),
        (f"{V1}/pods", Question("pods")),
        (f"{V1}/pods?labelSelector=app%3Dweb%2C%21old&limit=500", Question("pods", label_selector="app=web,!old")),
        (f"{V1}/pods?fieldSelector=metadata.name%3Dweb", Question("pods", field_selector="metadata.name=web")),
        (f"{V1}/namespaces/train/pods", Question("pods", "train")),
        (f"{V1}/namespaces/train/pods/web", Question("pods", "train", "web")),
        (f"{V1}/nodes", Question("nodes")),
        (f"{V1}/nodes/n1", Question("nodes", name="n1")),
    ],
)
def test_item_87_what_is_understood(target: str, understood: Question) -> None:
    assert asked(target) == understood


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/apis", 404),
        ("GET", "/apis/apps/v1", 404),
        ("GET", f"{ROOT}/v1", 404),
        ("GET", f"{V1}/", 404),
        ("GET", f"{V1}/secrets", 404),
        ("GET", f"{V1}/namespaces", 404),
        ("GET", f"{V1}/namespaces/train", 404),
        ("GET", f"{V1}/namespaces/train/nodes", 404),
        ("GET", f"{V1}/namespaces/TRAIN/pods", 404),
        ("GET", f"{V1}/namespaces/train/pods/web/log", 404),
        ("GET", f"{V1}/pods?watch=true", 405),
        ("GET", f"{V1}/pods?asUser=root", 400),
        ("GET", f"{V1}/pods?limit=1&limit=2", 400),
        ("GET", f"{V1}/pods?labelSelector={'a' * 5000}", 400),
        ("DELETE", f"{V1}/namespaces/train/pods/web", 405),
        ("POST", f"{V1}/pods", 405),
    ],
)
def test_item_86_what_is_refused(method: str, target: str, status: int) -> None:
    with pytest.raises(BadRequestError) as refused:
        asked(target, method)
    assert refused.value.status == status
