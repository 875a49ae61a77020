"""Objects that look like real ones, with anything in their fields. For tests that no reader trips over them."""

from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st


def junk(fields: Collection[str]) -> st.SearchStrategy[Any]:
    """Any JSON of which objects have fields of these names."""
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(sorted(fields)), each, max_size=4),
    )


CLAIM_FIELDS = frozenset({
    "metadata", "labels", "namespace", "spec", "devices", "requests", "request", "name", "exactly", "firstAvailable",
    "deviceClassName", "count", "allocation", "results", "gpu.example.com",
})  # fmt: skip
