"""The volume under a plane's etcd."""

from typing import Final

# For a class that sets no size.
STORAGE_SIZE: Final = "2Gi"
