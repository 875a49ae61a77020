"""What is kept of an object: all but `managedFields`, and nothing twice."""

import msgspec

from bulkhead.kube.codec import compact, decode_obj, plain_meta


def pod(name: str) -> dict[str, object]:
    labels = {"app.kubernetes.io/managed-by": "bulkhead", "namespace.bulkhead.dev/cf1227b7b2e560e342287cd6ff9538d7": "space"}
    annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "never, and not even then"}
    metadata = {"name": name, "labels": labels, "annotations": annotations, "managedFields": [{"manager": "kubelet"}]}
    return {"metadata": metadata, "spec": {"nodeName": "node-a"}}


def test_managed_fields_go_and_all_else_stays() -> None:
    meta, body = compact(msgspec.json.encode(pod("web")))
    expected = pod("web")
    expected["metadata"].pop("managedFields")  # type: ignore[attr-defined]
    assert decode_obj(body) == expected
    assert meta.labels == pod("web")["metadata"]["labels"]  # type: ignore[index]


def test_what_many_objects_have_in_common_is_kept_once() -> None:
    one, other = (compact(msgspec.json.encode(pod(name)))[0] for name in ("one", "other"))
    for mine, theirs in ((one.labels, other.labels), (one.annotations, other.annotations)):
        assert mine is not None
        assert theirs is not None
        assert mine is not theirs
        for (key, value), (other_key, other_value) in zip(mine.items(), theirs.items(), strict=True):
            assert key is other_key
            assert value is other_value


def test_no_labels_are_none() -> None:
    meta, _ = compact(b'{"metadata":{"name":"web","labels":{},"annotations":null}}')
    assert (meta.labels, meta.annotations) == ({}, None)


def test_decoded_metadata_holds_what_others_write_into_it() -> None:
    meta, _ = compact(
        b'{"metadata":{"name":"web","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["example.org/backup"]}}'
    )
    plain = {"name": "web", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.org/backup"]}
    assert plain_meta(meta) == plain
