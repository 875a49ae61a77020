"""What is remembered of host pods until the cache shows them."""

from bulkhead.api import labels as marks
from bulkhead.kube.objects import Key, Obj
from syncer.pods.expectations import Sightings

KEY = Key("space", "web")


def host(uid: str, whose: str) -> Obj:
    return {"metadata": {"name": "web-x", "uid": uid, "annotations": {marks.VIRTUAL_UID: whose}}}


def test_an_older_host_pod_in_the_cache_is_not_the_one_that_was_made() -> None:
    """Found by a storm: taken for it, the copies of the one that nobody had seen yet were taken from under it."""
    seen = Sightings()
    seen.may_be_made(KEY, "young")
    seen.made(KEY, host("h2", "young"))
    seen.cache_shows(KEY, host("h1", "old"))
    seen.cache_shows(KEY, None)
    assert seen.unshown(KEY) == "young"
    assert not seen.is_older(KEY, host("h1", "old")), "one of another virtual pod is told by that"
    seen.cache_shows(KEY, host("h1", "young"))
    assert seen.unshown(KEY) == "young", "an earlier host pod of the same virtual one"
    assert seen.is_older(KEY, host("h1", "young"))
    assert not seen.is_older(KEY, host("h2", "young"))
    assert seen.unseen_end(KEY) is not None
    seen.cache_shows(KEY, host("h2", "young"))
    assert seen.unshown(KEY) == ""
    assert seen.unseen_end(KEY) is None
    seen.made(KEY, host("h3", "young"))
    seen.cache_shows(KEY, host("h2", "young"), surely=True)
    assert not seen.is_older(KEY, host("h2", "young")), "the host itself has no other"


def test_a_host_pod_that_says_of_nobody_whose_it_is_is_no_trouble() -> None:
    seen = Sightings()
    stray = {"metadata": {"name": "web-x", "uid": "h1"}}
    seen.cache_shows(KEY, stray)
    assert not seen.is_older(KEY, stray)


def test_where_nobody_told_which_was_made_any_of_the_virtual_one_is_it() -> None:
    seen = Sightings()
    seen.may_be_made(KEY, "young")
    seen.cache_shows(KEY, host("h1", "old"))
    assert seen.unshown(KEY) == "young"
    seen.cache_shows(KEY, host("h2", "young"))
    assert seen.unshown(KEY) == ""


def test_a_pod_made_anew_is_so_until_the_cache_shows_another_or_none() -> None:
    for later in (host("h2", "young"), None):
        seen = Sightings()
        seen.remake(KEY, "h1")
        seen.cache_shows(KEY, host("h1", "young"))
        assert seen.is_remade(KEY)
        seen.cache_shows(KEY, later)
        assert not seen.is_remade(KEY)


def test_what_is_forgotten_is_told_once() -> None:
    seen = Sightings()
    seen.has_one(KEY, "young")
    assert seen.had_one(KEY, "young")
    assert not seen.had_one(KEY, "old")
    assert seen.forget(KEY) == "young"
    assert seen.forget(KEY) == ""
