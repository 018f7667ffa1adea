"""Tools of a module whose annotations are strings, and some of which only type checkers can resolve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.vocabulary.context.session import ToolContext

if TYPE_CHECKING:
    from collections import OrderedDict

    from understudy.vocabulary.runs.events import Event


@dataclass
class Size:
    """Of a box."""

    width: int
    title: str = "box"


def pack(ctx: ToolContext[Event], size: Size, count: int | None = None) -> OrderedDict[str, int]:
    """Pack a box."""
    raise NotImplementedError


def unpack(size: Event) -> None:
    """Take a type that is not there at run time."""
