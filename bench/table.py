"""Figures as an aligned table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .measure import Figures

COLUMNS = ("median", "p10", "p99", "cpu", "ratio", "target")


def heading(width: int) -> str:
    """Return the line above the first measure; labels are `width` wide."""
    return _line("", COLUMNS, width)


def block(title: str, figures: Iterable[Figures], width: int) -> str:
    """Return a measure: its title, and a line for each of its sides."""
    return "\n".join([title, *[_side(each, width) for each in figures]])


def _side(each: Figures, width: int) -> str:
    mark = "= " if each.is_reference else "  "
    amount = duration if each.unit == "seconds" else size
    cells = (
        amount(each.median),
        amount(each.p10),
        amount(each.p99),
        duration(each.cpu) if each.cpu else "",
        f"{each.ratio:.2f}",
        _target(each),
    )
    line = _line(mark + each.label, cells, width) + f"  {'MISSED' if each.missed else '':<6}"
    return (line + (f"  {each.threads} more threads" if each.threads else "")).rstrip()


def _target(each: Figures) -> str:
    if each.target is not None:
        return duration(each.target)
    return "" if each.target_ratio is None else f"{each.target_ratio:g} x"


def _line(label: str, cells: Sequence[str], width: int) -> str:
    return f"  {label:<{width}}" + "".join([f"{cell:>10}" for cell in cells])


def duration(seconds: float) -> str:
    """Return a length of time in the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 0.9995:
            return f"{_three_digits(seconds * factor)} {unit}"
    return f"{_three_digits(seconds * 1e6)} µs"


def size(octets: float) -> str:
    """Return an amount of memory in the unit that suits it."""
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if octets / factor >= 0.9995:
            return f"{_three_digits(octets / factor)} {unit}"
    return f"{octets:.0f} B"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"
