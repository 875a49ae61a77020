"""Level 2: bodies that no client would send, to the plane's real API server, with the real syncer behind it. E15, A18."""

import json
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.resources import PODS
from tests.adversarial.test_mirrored import outcome, seen
from tests.kit.syncerbed import SyncerBed, until

JSON, YAML = "application/json", "application/yaml"
BOMB: Final = "\n".join(["a: &a [x, x, x, x, x, x, x, x, x]", *(
    f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join([f'*{chr(97 + at)}'] * 9)}]" for at in range(9)
)])  # fmt: skip


def bodies(space: str) -> dict[str, tuple[str, bytes]]:
    """By name of its pod, the type of what is sent and its bytes."""

    def text(name: str, spec: str = "", container: str = "", meta: str = "") -> str:
        main = '{"name":"main","image":"busybox:1.36"' + container + "}"
        return (
            f'{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"{space}"{meta}}},'
            f'"spec":{{"containers":[{main}]{spec}}}}}'
        )

    large = json.dumps("x" * 1_400_000)
    made = {
        "key-twice": text("key-twice", ',"hostNetwork":false,"hostNetwork":true'),
        "key-twice-other-case": text("key-twice-other-case", ',"hostPID":false,"hostpid":true'),
        "spec-twice": text("spec-twice", '},"spec":{"hostIPC":true'),
        "not-a-number": text("not-a-number", ',"priority":NaN'),
        "nul": text("nul", meta=',"annotations":{"a":"\\u0000"}'),
        "nul-argument": text("nul-argument", container=',"args":["\\u0000"]'),
        "half-a-letter": text("half-a-letter", container=',"args":["\\ud800"]'),
        "deep": text("deep", container=',"securityContext":' + '{"a":' * 10_000 + "1" + "}" * 10_000),
        "deep-list": text("deep-list", container=',"args":' + "[" * 10_000 + "]" * 10_000),
        "large": text("large", container=f',"args":[{large}]'),
        "large-note": text("large-note", meta=f',"annotations":{{"a":{large}}}'),
        "huge-number": text("huge-number", ',"terminationGracePeriodSeconds":1e400'),
        "cut-off": text("cut-off")[:-3],
    }
    found = {name: (JSON, body.encode()) for name, body in made.items()}
    found["no-utf-8"] = (JSON, text("no-utf-8", container=',"args":["?"]').encode().replace(b"?", b"\xff\xfe"))
    found["anchors"] = (YAML, f"apiVersion: v1\nkind: Pod\nmetadata: {{name: anchors}}\n{BOMB}".encode())
    merged = """
apiVersion: v1
kind: Pod
metadata: {name: merged}
x: &x {hostNetwork: true}
spec: {<<: *x, containers: [{name: main, image: "busybox:1.36"}]}
"""
    found["merged"] = (YAML, merged.encode())
    return found


async def test_what_no_client_would_send_reaches_nobody(host_client: Client, plane_client: Client) -> None:
    async with SyncerBed.open(host_client, plane_client) as bed:
        fates = {}
        for name, (kind, body) in bodies(bed.space).items():
            try:
                data = await plane_client.transport.request("POST", PODS.path(bed.space), body=body, content_type=kind)
            except KubeError:
                fates[name] = "refused by the plane"
                continue
            stored: Obj = codec.decode(data)
            await until(lambda stored=stored: seen(bed, stored), f"{name} is judged")  # type: ignore[misc]
            fates[name] = await outcome(bed, stored)
            spec = ((await bed.mirror(name)) or {}).get("spec", {})
            assert not {"hostNetwork", "hostPID", "hostIPC"} & {key for key, value in spec.items() if value is True}, name
        refused = {name for name, fate in fates.items() if fate == "refused by the plane"}
        assert {"not-a-number", "deep", "deep-list", "large-note", "huge-number", "cut-off", "anchors"} <= refused, fates
        assert fates["large"] in {"refused by the plane", "refused"}, fates
        assert {"key-twice", "merged"} & {name for name, fate in fates.items() if fate == "refused"}, fates
        # The control: what looks alike and is whole is mirrored, by a syncer that has met all of it.
        await bed.create(bed.pod("whole", containers=[{"name": "main", "image": "busybox:1.36", "args": ["\u00e9" * 1000]}]))
        await bed.mirrored("whole")
        assert bed.session is not None
        assert not bed.session.breaker.open
