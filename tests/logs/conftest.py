"""The logger of the package as it is before anybody configures it."""

from __future__ import annotations

import logging
from collections.abc import Generator

import pytest


@pytest.fixture(autouse=True)
def logger() -> Generator[logging.Logger]:
    """Return the package's logger; what a test does to it is undone."""
    found = logging.getLogger("understudy")
    handlers, level, propagate = found.handlers[:], found.level, found.propagate
    own = [each for each in handlers if isinstance(each, logging.NullHandler)]
    found.handlers[:] = own  # others are of earlier tests
    yield found
    found.handlers[:] = handlers
    found.propagate = propagate
    found.setLevel(level)
