"""Fixtures that more than one directory of tests uses."""
