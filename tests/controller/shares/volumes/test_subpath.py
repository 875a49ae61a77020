"""Directories below a share: no template leads out of what is shared, whatever is in it."""

import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.shares.volumes import subpath
from controller.shares.volumes.subpath import InvalidSubPathError

TENANTS = st.from_regex(r"\A[a-z]([-a-z0-9]{0,20}[a-z0-9])?\Z").filter(
    lambda name: not name.startswith("kube-") and name not in ("system", "bulkhead-system") and not name.endswith("-work")
)
TEXTS = st.text(alphabet="ab./-_{}tenant\\ \0\nü~$*", max_size=30) | st.lists(
    st.sampled_from(["..", ".", "", "a", "{tenant}", "a{tenant}b", ".{tenant}", "...", "%2e%2e"]), max_size=6
).map("/".join)


@given(TEXTS, TENANTS)
@example("../x", "a")
@example("a/../../x", "a")
@example("/etc", "a")
@example("{tenant}/..", "a")
def test_no_template_leads_out_or_up(template: str, tenant: str) -> None:
    try:
        parts = subpath.filled(subpath.parse(template), tenant)
    except InvalidSubPathError:
        return
    joined = posixpath.join("/export/data", *parts)
    assert posixpath.normpath(joined) == joined
    assert joined == "/export/data" or joined.startswith("/export/data/")
    assert not set(joined) & set("\\\0\n {}$~*%")


@given(TENANTS, TENANTS)
def test_two_tenants_never_meet_in_a_template_that_names_them(one: str, other: str) -> None:
    parts = subpath.parse("teams/{tenant}/data")
    assert (subpath.filled(parts, one) == subpath.filled(parts, other)) == (one == other)


@pytest.mark.parametrize(
    "template",
    ["..", ".", "/", "/etc", "a/", "/a", "a//b", "a/./b", "a/../b", "{tenant}/..", "{team}", "a b", "a\nb", "x" * 600],
)
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(InvalidSubPathError):
        subpath.parse(template)


@pytest.mark.parametrize("template", ["a", "teams/{tenant}", "v1.2/{tenant}-data/in_put", "..."])
def test_what_is_one_is_taken(template: str) -> None:
    assert "/".join(subpath.parse(template)) == template


@pytest.mark.parametrize("path", ["export", "", "/a/../b", "/..", "/a\nb"])
def test_paths_that_do_not_say_where_they_lead_are_refused(path: str) -> None:
    with pytest.raises(InvalidSubPathError):
        subpath.plain(path)


def test_paths_are_read_as_a_file_system_does() -> None:
    assert subpath.plain("/srv//data/./x/") == ("srv", "data", "x")
    assert subpath.joined(()) == "/"


@pytest.mark.parametrize(
    ("below", "other", "lies"),
    [
        ("a/b", "a", True),
        ("a", "a", False),
        ("a", "a/b", False),
        ("ab/c", "a", False),
        ("teams/{tenant}", "teams", True),
        ("teams/{tenant}/data", "teams/{tenant}", True),
        ("teams/x/data", "teams/{tenant}", True),
        ("teams/{tenant}/data", "teams/x", True),
        ("teams/X_/data", "teams/{tenant}", False),
        ("pre-x/data", "pre-{tenant}", True),
        ("x/data", "pre-{tenant}", False),
    ],
)
def test_what_lies_below_another_share(below: str, other: str, lies: bool) -> None:
    assert subpath.lies_below(subpath.parse(below), subpath.parse(other)) is lies


@given(st.lists(st.sampled_from(["a", "b", "{tenant}", "a{tenant}"]), min_size=1, max_size=3), TENANTS, TENANTS)
def test_whoever_can_lie_below_is_said_to(parts: list[str], one: str, other: str) -> None:
    """The overlap is judged on templates, so it must be reported for any two tenants that meet in one."""
    for cut in range(1, len(parts)):
        upper, lower = tuple(parts[:cut]), tuple(parts)
        if subpath.filled(lower, one)[:cut] == subpath.filled(upper, other):
            assert subpath.lies_below(lower, upper)
