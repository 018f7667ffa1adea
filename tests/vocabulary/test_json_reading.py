"""Reading JSON that others wrote."""

from __future__ import annotations

import pytest

from understudy.vocabulary.json_reading import parse


@pytest.mark.parametrize(
    "text", ['{"key": "sk-canary', b'"sk-canary \xff"', "[" * 200_000 + '"sk-canary"', '["sk-canary", NaN]']
)
def test_an_error_about_a_text_does_not_hold_the_text(text: str | bytes) -> None:
    with pytest.raises(ValueError) as raised:
        parse(text)

    error: BaseException | None = raised.value
    while error is not None:
        assert "canary" not in f"{error!r} {vars(error)} {getattr(error, 'doc', '')} {getattr(error, 'object', '')}"
        error = error.__cause__ or error.__context__
