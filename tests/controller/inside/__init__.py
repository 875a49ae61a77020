"""Tests of the controller's calls into planes."""
