"""A receiver of audit events on the host: a pod that prints each event, its certificate, and the credential that it expects."""

import base64

import bulkhead
from e2e.api import Obj
from e2e.fleet import Fleet
from tests.kit.pki import Authority

SPACE, SECRET = "e2e-receiver", "e2e-receiver"
PORT, OTHER_PORT = 8443, 8444
HOST = "audit.example.org"
# Prints one line for each event: path, user, verb, resource, name. Listens on a second port in the same way.
_SERVER = """
import json, ssl, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for each in body.get("items", ()):
            target = each.get("objectRef", {})
            words = self.headers["Authorization"], each["verb"], target.get("resource"), target.get("name")
            line = " ".join((self.path.split("?")[0].rstrip("/"), *map(str, words)))
            print(line + "\\n", end="", flush=True)  # one write, or lines of two requests mix
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
def listen(port):
    server = ThreadingHTTPServer(("", port), Receiver)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH); tls.load_cert_chain("/files/server.pem")
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()
threading.Thread(target=listen, args=(int(sys.argv[2]),), daemon=True).start()
listen(int(sys.argv[1]))
"""


def pod() -> Obj:
    command = ["python3", "/files/server.py", str(PORT), str(OTHER_PORT)]
    image = f"docker.io/bulkhead/bulkhead:{bulkhead.__version__}"
    container: Obj = {"name": "receiver", "image": image, "imagePullPolicy": "Never", "command": command}
    container |= {"volumeMounts": [{"name": "files", "mountPath": "/files"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "receiver", "namespace": SPACE, "labels": {"app": "receiver"}},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "files", "secret": {"secretName": "files"}}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def credential(token: str) -> Obj:
    meta = {"name": SECRET, "namespace": "bulkhead-shared"}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "bulkhead.dev/audit-receiver"}
    return kind | {"metadata": meta, "data": {"token": base64.b64encode(token.encode()).decode()}}


def start(fleet: Fleet) -> Obj:
    """Begin to start the receiver; it goes after all tenants. Returns a TenantClass's section that sends events there."""
    host, authority = fleet.host, Authority("receiver-ca")
    cert, key = authority.issue("receiver", addresses=(HOST,))
    host.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    files = {"server.pem": (cert + key).decode(), "server.py": _SERVER}
    host.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "files", "namespace": SPACE}, "stringData": files})
    host.apply(pod())
    ports = [{"name": str(port), "port": port} for port in (PORT, OTHER_PORT)]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "receiver", "namespace": SPACE}}
    address = host.apply(service | {"spec": {"selector": {"app": "receiver"}, "ports": ports}})["spec"]["clusterIP"]
    host.apply(credential("first"))
    fleet.discard("Namespace", SPACE)
    fleet.discard("Secret", SECRET, "bulkhead-shared")
    return {
        "url": f"https://{HOST}:{PORT}/events/{{tenant}}",
        "address": address,
        "namespace": SPACE,
        "secretName": SECRET,
        "certificateAuthority": authority.pem.decode(),
    }
