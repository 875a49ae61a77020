"""What is remembered of host pods until the cache shows them."""

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key
from syncer.pods.expectations import Expectations

KEY = Key("space", "web")


def host(uid: str, virtual: str) -> Obj:
    return {"metadata": {"name": "web-x", "uid": uid, "annotations": {marks.VIRTUAL_UID: virtual}}}


def test_an_older_host_pod_in_the_cache_is_not_the_one_that_was_created() -> None:
    """Found by a storm: taken for it, the copies of the one that the cache had not shown yet were taken from under it."""
    expectations = Expectations()
    expectations.expect_creation(KEY, "young")
    expectations.created(KEY, host("h2", "young"))
    expectations.observe(KEY, host("h1", "old"))
    expectations.observe(KEY, None)
    assert expectations.expected(KEY) == "young"
    assert not expectations.is_superseded(KEY, host("h1", "old")), "one of another virtual pod shows by its annotation"
    expectations.observe(KEY, host("h1", "young"))
    assert expectations.expected(KEY) == "young", "an earlier host pod of the same virtual one"
    assert expectations.is_superseded(KEY, host("h1", "young"))
    assert not expectations.is_superseded(KEY, host("h2", "young"))
    expectations.observe(KEY, host("h2", "young"))
    assert expectations.expected(KEY) == ""
    expectations.created(KEY, host("h3", "young"))
    expectations.confirm(KEY, host("h2", "young"))
    assert not expectations.is_superseded(KEY, host("h2", "young")), "the host itself has no other"


def test_a_host_pod_without_the_annotation_is_not_an_error() -> None:
    expectations = Expectations()
    stray = {"metadata": {"name": "web-x", "uid": "h1"}}
    expectations.observe(KEY, stray)
    assert not expectations.is_superseded(KEY, stray)


def test_where_the_create_was_not_answered_any_host_pod_of_the_virtual_one_is_it() -> None:
    expectations = Expectations()
    expectations.expect_creation(KEY, "young")
    expectations.observe(KEY, host("h1", "old"))
    assert expectations.expected(KEY) == "young"
    expectations.observe(KEY, host("h2", "young"))
    assert expectations.expected(KEY) == ""


def test_a_pod_is_being_recreated_until_the_cache_shows_another_or_none() -> None:
    for later in (host("h2", "young"), None):
        expectations = Expectations()
        expectations.expect_recreation(KEY, "h1")
        expectations.observe(KEY, host("h1", "young"))
        assert expectations.is_recreated(KEY)
        expectations.observe(KEY, later)
        assert not expectations.is_recreated(KEY)


def test_what_is_forgotten_is_returned_once() -> None:
    expectations = Expectations()
    expectations.note_host(KEY, "young")
    assert expectations.had_host(KEY, "young")
    assert not expectations.had_host(KEY, "old")
    assert expectations.forget(KEY) == "young"
    assert expectations.forget(KEY) == ""
