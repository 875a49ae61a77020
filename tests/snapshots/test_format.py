"""The format of snapshots: what is written stays readable, and everything that is not one is refused with its reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.planerecord import PlaneRecord
from bulkhead.signing import Ring
from bulkhead.snapshots import bundle, manifest
from bulkhead.snapshots.bundle import LONGEST, Bundle, BundleError
from bulkhead.snapshots.frames import Frames, TornError
from bulkhead.snapshots.judge import RefusedError, Stored, Taker, judge, minor, opened
from bulkhead.snapshots.layout import PLANE, STORE, LayoutError, folder
from bulkhead.snapshots.manifest import ManifestError, Part
from bulkhead.snapshots.place import parse
from controller.pki.signingkeys import new_files, ring_of
from tests.snapshots.samples import BUNDLE, GOLDEN, ID, OTHER, RECORD, RING, frames, line, made, record, signed

HERE = Path(__file__).parent
MOST = 1 << 30


def test_the_text_of_a_manifest_is_what_it_was() -> None:
    assert GOLDEN.text() == (HERE / "manifest.golden.json").read_text()
    assert manifest.read(GOLDEN.text()) == GOLDEN


def test_the_bytes_of_a_bundle_are_what_they_were() -> None:
    assert BUNDLE.data().decode() + "\n" == (HERE / "bundle.golden.json").read_text()
    read = bundle.read(BUNDLE.data())
    assert (read.secrets, read.service_slice, read.record) == (BUNDLE.secrets, BUNDLE.service_slice, BUNDLE.record)
    # What belongs to the API server that stored it stays there.
    assert read.tenant == {"metadata": {"name": "red", "uid": OTHER, "labels": {"a": "b"}}, "spec": {"class": "small"}}


def test_a_bundle_shows_no_key() -> None:
    assert "key" not in repr(BUNDLE)


def changed(**changes: Any) -> str:
    return json.dumps(json.loads(GOLDEN.text()) | changes)


PART = {"size": 1216, "sha256": "b" * 64, "plain": 1000}
WRONG = {
    "empty": ("", "not JSON"),
    "list": ("[]", "not an object"),
    "deep": ("[" * 50_000, "not JSON"),
    "newer": (changed(format=2), "format 2"),
    "true": (changed(format=True), "format"),
    "more": (changed(extra=1), "extra"),
    "less": (json.dumps({key: value for key, value in json.loads(GOLDEN.text()).items() if key != "parts"}), "parts"),
    "upwards": (changed(identity="../../etc"), "UUID"),
    "attempt": (changed(attempt="../x"), "attempt"),
    "tenant": (changed(tenant=""), "tenant"),
    "number": (changed(kubernetes=1), "kubernetes"),
    "nobody": (changed(recipients=[]), "recipients"),
    "one part": (changed(parts={STORE: PART}), "parts must be"),
    "a third": (changed(parts={STORE: PART, PLANE: PART, "x": PART}), "parts must be"),
    "digest": (changed(parts={STORE: PART, PLANE: PART | {"sha256": "B" * 64}}), "sha256"),
    "negative": (changed(parts={STORE: PART, PLANE: PART | {"size": -1}}), "sizes"),
    "huge": (changed(parts={STORE: PART, PLANE: PART | {"plain": 1 << 60}}), "sizes"),
    "boolean": (changed(parts={STORE: PART, PLANE: PART | {"size": True}}), "sizes"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG.keys())
def test_no_other_text_is_a_manifest(text: str, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        manifest.read(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner),
    )
)
def test_no_document_breaks_the_readers(document: Any) -> None:
    text = json.dumps(document)
    with pytest.raises(ManifestError):
        manifest.read(text)
    with pytest.raises(BundleError):
        bundle.read(text.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff",
        b"x" * (LONGEST + 1),
        BUNDLE.data().replace(b'"format":1', b'"format":2'),
        BUNDLE.data().replace(b"AP8=", b"AP8"),
        BUNDLE.data().replace(b'"secrets":{', b'"secrets":{"a":1,'),
    ],
)
def test_no_other_bytes_are_a_bundle(data: bytes) -> None:
    with pytest.raises(BundleError) as refused:
        bundle.read(data)
    assert "AP8" not in str(refused.value)


def test_a_bundle_that_no_restore_would_read_is_not_stored() -> None:
    with pytest.raises(BundleError, match="at most"):
        Bundle("", {"metadata": {}, "spec": {"x": "y" * LONGEST}}, "", {}).data()


STORED = Stored({name: part.size for name, part in GOLDEN.parts.items()})
TAKER = Taker(MOST, ID, "v1.36.3", "v3.6.16")


def test_a_whole_snapshot_of_this_plane_is_taken() -> None:
    found = opened(signed(), RING)
    assert found == made()
    assert judge(found, STORED, TAKER) == ()
    assert judge(found, STORED, Taker(MOST)) == ()


REFUSED = {
    "tampered": (signed().replace("red-1", "red-2"), "was changed"),
    "foreign": (signed(ring=ring_of(new_files())), "not known here"),
    "a record": (record(), "another purpose"),
    "garbage": ("{}", "signed text"),
    "another plane's record": (signed(made(record=record(PlaneRecord(OTHER, "blue", OTHER, "x")))), "its record is of plane"),
    "another tenant's record": (signed(made(record=record(PlaneRecord(ID, "blue", OTHER, "x")))), "its record"),
    "a record of elsewhere": (signed(made(record=record(RECORD, ring_of(new_files())))), "not known here"),
    "no record": (signed(made(record="x")), "not JSON"),
}


@pytest.mark.parametrize(("envelope", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_manifest_that_this_installation_did_not_sign_counts_for_nothing(envelope: str, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        opened(envelope, RING)


def test_without_any_key_nothing_counts() -> None:
    with pytest.raises(RefusedError, match="known: none"):
        opened(signed(), Ring(None))


def store(**fields: Any) -> dict[str, Part]:
    part = {"size": 70_232, "sha256": "a" * 64, "plain": 70_000} | fields
    return {STORE: Part(**part), PLANE: GOLDEN.parts[PLANE]}


JUDGED = {
    "another plane": ({}, STORED, Taker(MOST, OTHER), "and not of"),
    "missing": ({}, Stored({PLANE: 1216}), TAKER, "etcd.age is missing"),
    "truncated": ({}, Stored({STORE: 70_231, PLANE: 1216}), TAKER, "truncated"),
    "too large here": ({}, STORED, Taker(69_999, ID), "at most 69999"),
    "a bomb": ({"parts": store(plain=1 << 29)}, STORED, TAKER, "cannot come"),
    "hollow": ({"parts": store(plain=10)}, STORED, TAKER, "cannot come"),
    "a newer minor": ({"kubernetes": "v1.37.0"}, STORED, TAKER, "newer minor"),
    "a newer major": ({"kubernetes": "v2.0.0"}, STORED, TAKER, "newer minor"),
    "a newer etcd": ({"etcd": "v3.7.0"}, STORED, TAKER, "newer minor"),
    "no version": ({"kubernetes": "latest"}, STORED, TAKER, "newer minor"),
}


@pytest.mark.parametrize(("changes", "stored", "taker", "words"), JUDGED.values(), ids=JUDGED.keys())
def test_what_would_not_be_restored_is_refused_before_it_is_read(
    changes: dict[str, Any], stored: Stored, taker: Taker, words: str
) -> None:
    assert words in "; ".join(judge(made(**changes), stored, taker))


def test_every_reason_is_said_at_once() -> None:
    assert len(judge(made(kubernetes="v1.40.0"), Stored(), Taker(1, OTHER, "v1.36.3"))) == 6


@pytest.mark.parametrize("version", ["v1.36.2", "v1.36.9", "v1.35.0", "1.9.1"])
def test_older_minors_and_other_patches_are_read(version: str) -> None:
    assert judge(made(kubernetes=version), STORED, TAKER) == ()


def test_versions_are_compared_by_number() -> None:
    assert minor("v1.9.0") == (1, 9)
    assert minor("v1.36.3-alpha.1") == (1, 36)
    assert minor("") is None


@pytest.mark.parametrize(
    ("identity", "name"),
    [("..", "a"), (ID, ".."), (ID, "a/b"), (ID, ""), (ID, "a..b"), (ID, "A"), (ID, "-a"), (ID, "a" * 300), ("", "a")],
)
def test_no_name_leads_out_of_its_folder(identity: str, name: str) -> None:
    with pytest.raises(LayoutError):
        folder(identity, name)


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("", {}, "must be"),
        ("http://bucket/x", {}, "must be"),
        ("s3://", {}, "must be"),
        ("s3://key:secret@bucket", {}, "no credentials"),
        ("s3://bucket/../x", {}, "must be"),
        ("s3://bucket/x?a=b", {}, "query"),
        ("file://host/x", {}, "must be"),
        ("file:///a/../b", {}, "must be"),
        ("s3://bucket/x#a", {}, "fragment"),
        ("s3://[bucket", {}, "not a URL"),
        ("gs://bucket/x", {}, "must be"),
        ("s3://bucket", {"endpoint": "http://minio:9000"}, "not encrypted: use https://, or allow it by --plain-http"),
        ("s3://bucket", {"endpoint": "https://minio:99999"}, "not a URL"),
        ("s3://bucket", {"endpoint": "https://minio:x"}, "not a URL"),
        ("s3://bucket", {"endpoint": "https://a:b@minio"}, "endpoint"),
        ("s3://bucket", {"endpoint": "minio:9000"}, "endpoint"),
    ],
)
def test_a_target_that_is_not_one_is_refused(url: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(url, **options)


@pytest.mark.parametrize(
    "url", ["s3://AKIA:wordpass@bucket/x", "https://AKIA:wordpass@minio", "s3://b/x?key=wordpass", "s3://[a:wordpass@b"]
)
def test_a_refusal_shows_no_credentials(url: str) -> None:
    for options in ({"url": url}, {"url": "s3://bucket", "endpoint": url, "plain_http": True}):
        with pytest.raises(ValueError, match="no credentials") as refused:
            parse(**options)
        assert "wordpass" not in str(refused.value)


def test_targets_are_named_without_what_is_secret() -> None:
    assert str(parse("s3://bucket/a/b/")) == "s3://bucket/a/b"
    assert str(parse("file:///backups/")) == "file:///backups"
    assert parse("s3://bucket", endpoint="http://minio:9000", plain_http=True).plain_http


def read(lines: list[bytes], most: int = MOST, size: int = 0) -> bytes:
    found, data = Frames(most), b"".join(lines)
    size = size or max(1, len(data))
    parts = [part for at in range(0, len(data), size) for part in found.feed(data[at : at + size])]
    found.end()
    return b"".join(parts)


PARTS = [b"a" * 100, b"b" * 100, b"c" * 7]


@pytest.mark.parametrize("size", [1, 3, 64, 100_000])
def test_a_stream_of_etcd_becomes_a_file_however_it_arrives(size: int) -> None:
    whole = read(frames(PARTS), size=size)
    assert whole[:-32] == b"".join(PARTS)


TORN = {
    "nothing": ([], "without the digest"),
    "no digest": (frames(PARTS)[:-1], "without the digest"),
    "cut": (frames(PARTS)[:1], "after 100 of 207"),
    "within a line": ([*frames(PARTS)[:-1], frames(PARTS)[-1][:20]], "within a line"),
    "missing part": ([frames(PARTS)[0], frames(PARTS)[2]], "announces"),
    "twice": ([frames(PARTS)[0], *frames(PARTS)], "announces"),
    "wrong digest": (frames(PARTS, b"x" * 32), "does not fit"),
    "short digest": (frames(PARTS, b"x"), "does not fit"),
    "more": ([*frames(PARTS), line(b"x", 0)], "after the digest"),
    "error": ([frames(PARTS)[0], b'{"error":{"message":"etcdserver: no leader"}}\n'], "no leader"),
    "garbage": ([b"<html>\n"], "not a part"),
    "no number": ([b'{"result":{"blob":"","remaining_bytes":"x"}}\n'], "not a part"),
    "negative": ([line(b"aa", -1)], "announces"),
    "null": ([b"{}\n"], "gave up"),
    "endless line": ([b"x" * (1 << 21)], "a line of more"),
}


@pytest.mark.parametrize(("lines", "words"), TORN.values(), ids=TORN.keys())
def test_no_other_stream_is_a_whole_snapshot(lines: list[bytes], words: str) -> None:
    with pytest.raises(TornError, match=words):
        read(lines)


def test_a_store_that_is_larger_than_any_quota_ends_at_its_first_part() -> None:
    with pytest.raises(TornError, match="at most 10"):
        read([line(b"a" * 5, 1 << 40)], most=10)
