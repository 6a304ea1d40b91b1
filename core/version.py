"""The version that pages, headers and metrics show. A test keeps it equal to the one in pyproject.toml."""

VERSION = "0.1.0"
