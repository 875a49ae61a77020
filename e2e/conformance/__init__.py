"""The upstream end-to-end suite against the embedded host: what others wrote down as correct."""
