"""The ways in which a value is copied, all of which must keep it whole."""

from __future__ import annotations

import copy
import pickle
from typing import TypeVar, cast

T = TypeVar("T")


def copied(value: T) -> T:
    """Return a shallow copy."""
    return copy.copy(value)


def copied_deeply(value: T) -> T:
    """Return a deep copy."""
    return copy.deepcopy(value)


def pickled(value: T) -> T:
    """Return the value of a pickle of the value."""
    return cast(T, pickle.loads(pickle.dumps(value)))


COPIES = (copied, copied_deeply, pickled)
