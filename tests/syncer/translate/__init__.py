"""Tests of the pure translation: golden pairs, adversarial rows, laws, and the real API server's opinion."""
