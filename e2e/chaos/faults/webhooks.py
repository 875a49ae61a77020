"""Admission webhooks in the target that do not answer, answer late, or answer with far too much.

A plane reaches nothing but its own pods, so the webhook's server is a pod of the target, with a certificate made here.
"""

import base64
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from e2e import workloads
from e2e.api import Obj
from e2e.chaos.faults import parts
from e2e.chaos.faults.fault import Fault, Proof, Reversible, Scene, quietly, write_fails
from e2e.poll import until

_EVERYTHING: Final[Obj] = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["*"],
    "resources": ["*/*"],
    "scope": "*",
}
SERVER: Final = """
import http.server, json, os, ssl, time
# One for all requests: the server needs no more memory for many than for one.
START = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"allowed":true,"warnings":["'
    + b"w" * int(os.environ["SIZE"]) + b'"],"uid":'
)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(float(os.environ["DELAY"]))
        end = json.dumps(review["request"]["uid"]).encode() + b"}}"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(START) + len(end)))
        self.end_headers()
        self.wfile.write(START)
        self.wfile.write(end)
        # In one piece: requests are answered by threads, and print writes each of its arguments by itself.
        print(f"answered {len(START) + len(end)}\\n", end="", flush=True)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("", 8443), Answer)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/etc/webhook/tls.crt", "/etc/webhook/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
IMAGE: Final = "docker.io/bulkhead/bulkhead:0.1.0"
_NAME: Final = "chaos-webhook"


def answered(log: str) -> list[int]:
    """The sizes in bytes of the answers that a server's log tells of. Pure."""
    return [int(size) for size in re.findall(r"^answered (\d+)$", log, re.MULTILINE)]


def _configuration(client: Obj, *, timeout: int, rule: Obj) -> Obj:
    webhook = {
        "name": "fault.chaos.example",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": timeout,
        "clientConfig": client,
        "rules": [rule],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": _NAME},
        "webhooks": [webhook],
    }


def _remove_configuration(scene: Scene) -> None:
    closed = partial(scene.target.api.delete, "ValidatingWebhookConfiguration", _NAME)
    until("the webhook to be deleted", closed, seconds=30)


@dataclass(frozen=True, slots=True)
class FailClosedWebhook(Fault):
    """A validating webhook in the target without a server, which every write must pass."""

    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        scene.target.api.apply(_configuration({"url": "https://127.0.0.1:9/"}, timeout=2, rule=_EVERYTHING))
        deadline = time.monotonic() + self.seconds
        refusal = ""
        while time.monotonic() < deadline:
            refusal = refusal or write_fails(scene.target.api)
            time.sleep(0.5)
        proven = "webhook" in refusal
        running = bool(parts.syncers(scene))
        return [(proven, f"a write was refused: {refusal[:140] or 'no'}"), (running, "the target's syncer still runs")]

    def lift(self, scene: Scene) -> None:
        _remove_configuration(scene)


@dataclass(frozen=True, slots=True)
class AnsweringWebhook(Reversible):
    """A validating webhook for every write of pods and ConfigMaps whose server answers late, or with megabytes."""

    delay: float = 0.0  # seconds
    size: int = 0  # bytes of a warning in each answer
    seconds: float = 20.0
    timeout: int = 10

    def inject(self, scene: Scene) -> Sequence[Proof]:
        authority = self._serve(scene)
        rule = _EVERYTHING | {"apiGroups": [""], "resources": ["pods", "pods/status", "pods/binding", "configmaps", "events"]}
        service = {"name": _NAME, "namespace": "default", "port": 443, "path": "/"}
        client = {"service": service, "caBundle": base64.b64encode(authority).decode()}
        self.undo.later("the webhook's configuration", partial(_remove_configuration, scene))
        scene.target.api.apply(_configuration(client, timeout=self.timeout, rule=rule))
        time.sleep(1)
        slowest, failure, end = 0.0, "", time.monotonic() + self.seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            failure = write_fails(scene.target.api, timeout=self.timeout + 5.0) or failure
            slowest = max(slowest, time.monotonic() - begin)
            time.sleep(0.2)
        log = scene.target.api.text(f"/api/v1/namespaces/default/pods/{_NAME}/log", {"limitBytes": str(1 << 20)})
        answers = answered(log)
        largest = max(answers, default=0)
        return [
            (bool(answers) or self.delay >= self.timeout, f"the webhook's server logged {len(answers)} answers"),
            (slowest >= min(self.delay, self.timeout) * 0.9, f"the slowest write took {slowest:.1f} s"),
            (largest >= self.size, f"its largest answer had {largest >> 10} KiB; last failure: {failure[:120] or 'none'}"),
        ]

    def _serve(self, scene: Scene) -> bytes:
        """Start the server; returns its certificate."""
        api = scene.target.api
        certificate, key = self_signed(f"{_NAME}.default.svc")
        data = {name: base64.b64encode(value).decode() for name, value in (("tls.crt", certificate), ("tls.key", key))}
        metadata = {"name": _NAME, "namespace": "default"}
        self.undo.later("the webhook's server", partial(_remove_server, scene))
        api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        service = workloads.service(_NAME, _NAME, 443)
        service["spec"]["ports"][0]["targetPort"] = 8443
        api.apply(service)
        spec = workloads.pod_spec(("python3", "-c", SERVER))
        container = spec["containers"][0]
        container |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent"}
        container["env"] = [{"name": "DELAY", "value": str(self.delay)}, {"name": "SIZE", "value": str(self.size)}]
        container["resources"]["limits"]["memory"] = "512Mi"
        container["readinessProbe"] = {"tcpSocket": {"port": 8443}, "periodSeconds": 1}
        container["volumeMounts"] = [{"name": "tls", "mountPath": "/etc/webhook"}]
        spec["volumes"] = [{"name": "tls", "secret": {"secretName": _NAME}}]
        api.create(workloads.pod(_NAME, spec))
        workloads.wait_running(api, _NAME, seconds=60)
        return certificate


def _remove_server(scene: Scene) -> None:
    api = scene.target.api
    quietly(lambda: api.delete("Pod", _NAME, "default", grace=0))
    quietly(lambda: api.delete("Service", _NAME, "default"))
    quietly(lambda: api.delete("Secret", _NAME, "default"))


def self_signed(name: str, *, days: float = 1.0) -> tuple[bytes, bytes]:
    """Certificate and key of a TLS server, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=2))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoded = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(serialization.Encoding.PEM), encoded
