"""`Tool.replace` makes a tool that differs in what was changed."""

from __future__ import annotations

import pytest

import understudy as us


@us.tool(timeout=7, retries=2, description="Counts.")
def on_shelf(sku: str) -> int:
    return len(sku)


def test_a_changed_tool_keeps_what_was_not_changed() -> None:
    changed = on_shelf.replace(approval=True, timeout=None)

    assert (changed.approval, changed.timeout, changed.retries, changed.name) == (True, None, 2, "on_shelf")
    assert changed.spec == on_shelf.spec
    assert changed("abc") == 3
    assert (on_shelf.approval, on_shelf.timeout) == (False, 7)


def test_what_a_model_is_told_can_be_changed() -> None:
    changed = on_shelf.replace(name="units", description="Units of a product.")

    assert (changed.spec.name, changed.spec.description) == ("units", "Units of a product.")


def test_a_change_is_checked_as_an_option_is() -> None:
    with pytest.raises(ValueError, match="tool 'on_shelf': retries must be at least 0"):
        on_shelf.replace(retries=-1)
    with pytest.raises(TypeError, match="tool 'on_shelf' has no colour; it has approval, description"):
        on_shelf.replace(colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_a_sub_agent_is_not_changed_as_a_tool() -> None:
    with pytest.raises(TypeError, match="make another with SubAgent"):
        us.SubAgent(us.Agent("a", model="rehearsal")).replace(timeout=3)
