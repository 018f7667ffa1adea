"""A search of thread interleavings over the runtime's primitives; `docs/testing.md` says what it shows."""

import pytest

pytest.register_assert_rewrite("tests.interleavings.models")  # so that a kept schedule says what it broke
