"""What an object of a Kubernetes API is here: JSON as it came, of whatever kind. Pure."""

from typing import Any, TypeAlias

# Other people's objects stay plain dicts and are never changed in place.
Obj: TypeAlias = dict[str, Any]
