"""Tests of the builders of a plane's objects, and the golden files of what they render."""
