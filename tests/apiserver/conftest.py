"""The API servers' fixtures live in tests/conftest.py, where every folder of tests finds them."""
