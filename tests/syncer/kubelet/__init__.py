"""Tests of the server that answers a plane where a kubelet would."""
