"""The tools of clerk and buyer: they read the shop's real files in `data/`, and nothing outside of it.

The examples in the annotations tell a model what arguments look like; in rehearsal they are the arguments.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import Field

import understudy as us

DATA = Path(__file__).resolve().parent / "data"
PACE_DAYS = 30  # As the house rules say.

Month = Annotated[str, Field(description="year and month", pattern=r"^\d{4}-\d{2}$", examples=["2026-11"])]


@dataclass(frozen=True)
class Sale:
    """One line of a sales file."""

    place: str
    day: date
    sku: str
    units: int
    total: Decimal


@dataclass(frozen=True)
class Product:
    """One line of the stock file."""

    sku: str
    name: str
    price: Decimal
    on_shelf: int
    on_order: int
    supplier: str
    lead_days: int


@us.tool(idempotent=True)
def find_files(
    pattern: Annotated[str, Field(description="file name with * and ?", examples=["sales-*.csv"])],
) -> str:
    """List the shop's files whose names match a pattern, with their sizes."""
    if "/" in pattern or "\\" in pattern or ".." in pattern:
        raise ValueError(f"pattern {pattern!r} must be a file name, without folders")
    found = sorted(file for file in DATA.glob(pattern) if file.resolve().is_relative_to(DATA) and file.is_file())
    sizes = [f"{file.name} ({len(file.read_text(encoding='utf-8').splitlines())} lines)" for file in found]
    return f"{len(found)} files match {pattern}: {', '.join(sizes) or 'none'}"


@us.tool(idempotent=True)
def summarize_sales(month: Month) -> str:
    """Add up a month's sales: takings, days with sales, and units and takings of each product, best first."""
    sales = list(_read_sales(month))
    names = {product.sku: product.name for product in _read_stock()}
    units, takings = Counter[str](), Counter[str]()
    for sale in sales:
        units[sale.sku] += sale.units
        takings[sale.sku] += int(sale.total * 100)
    days = sorted({sale.day for sale in sales})
    best, cents = takings.most_common(1)[0]
    head = f"{month}: {sum(takings.values()) / 100:,.2f} taken on {len(days)} days, {days[0]:%d.} to {days[-1]:%d.}; "
    lines = [f"{sku} {names[sku]}: {units[sku]} units, {cents / 100:.2f}" for sku, cents in takings.most_common()]
    return "\n".join([f"{head}best: {names[best]}, {cents / 100:.2f}. All:", *lines])


@us.tool(idempotent=True)
def audit_sales(month: Month) -> str:
    """Compare each sale's total with units times list price, and list those that differ."""
    prices = {product.sku: product.price for product in _read_stock()}
    sales = list(_read_sales(month))
    wrong = [(sale, prices[sale.sku] * sale.units) for sale in sales if sale.total != prices[sale.sku] * sale.units]
    off = sum([sale.total - due for sale, due in wrong], Decimal(0))
    head = f"{month}: {len(wrong)} of {len(sales)} totals are wrong, {off:+.2f} in all:"
    lines = [f"{sale.place}: {sale.units} x {sale.sku} makes {due}, not {sale.total}" for sale, due in wrong]
    return "\n".join([head, *lines])


@us.tool(idempotent=True)
def running_out(
    within_days: Annotated[int, Field(description="how far to look ahead", ge=0, le=365, examples=[14])],
) -> str:
    """List the products whose shelf is empty within some days at the pace of the last 30, soonest first.

    Says of each how long the supplier takes, and what is already on order.
    """
    sales = [sale for file in DATA.glob("sales-*.csv") for sale in _read_sales(file.stem.removeprefix("sales-"))]
    today = max(sale.day for sale in sales)
    sold = Counter[str]()
    for sale in sales:
        if sale.day > today - timedelta(days=PACE_DAYS):
            sold[sale.sku] += sale.units
    lasts = {p: p.on_shelf * PACE_DAYS / sold[p.sku] for p in _read_stock() if sold[p.sku]}
    soon = sorted([(days, product.sku, product) for product, days in lasts.items() if days <= within_days])
    late = [product.name for days, _, product in soon if days < product.lead_days and not product.on_order]
    head = f"{len(soon)} of {len(lasts)} products run out within {within_days} days of {today}"
    lines = [
        f"{p.sku} {p.name}: {p.on_shelf} left, {days:.0f} days at {sold[p.sku]} in {PACE_DAYS} days; "
        f"{p.supplier} takes {p.lead_days} days, {p.on_order} on order"
        for days, _, p in soon
    ]
    return "\n".join([f"{head}; order now: {', '.join(late) or 'nothing'}. All:", *lines])


@us.tool(idempotent=True)
def search_notes(
    word: Annotated[str, Field(description="word or part of one", min_length=2, examples=["complaint"])],
) -> str:
    """Find a word in the incident log and the house rules; gives file, line number and line."""
    log = _lines_with(word, DATA / "incidents.log")
    lines = [*reversed(log), *_lines_with(word, DATA / "policy.md")]
    return f"{len(lines)} lines hold {word!r}, the latest first: " + "\n".join(lines)


@us.tool(approval=True)
def place_order(
    sku: Annotated[str, Field(description="product number", examples=["D-402"])],
    units: Annotated[int, Field(description="how many to order", ge=1, le=100, examples=[6])],
) -> str:
    """Order units of a product from its supplier, once a person has agreed."""
    for product in _read_stock():
        if product.sku == sku:
            order = f"{units} x {sku} {product.name}, {units * product.price} at list price"
            return f"{product.supplier} is to send {order}; expected in {product.lead_days} days"
    raise ValueError(f"no product {sku!r}; there are {', '.join([product.sku for product in _read_stock()])}")


def _lines_with(word: str, file: Path) -> list[str]:
    """Return the lines of a file that hold a word in any case, as `file:number: line`."""
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
    return [f"{file.name}:{n}: {' '.join(line.split())}" for n, line in lines if word.casefold() in line.casefold()]


def _read_sales(month: str) -> Iterator[Sale]:
    """Yield the sales of a month; a `ValueError` names the months there are."""
    months = sorted(file.stem.removeprefix("sales-") for file in DATA.glob("sales-*.csv"))
    if month not in months:
        raise ValueError(f"no sales of {month}; there are {', '.join(months)}")
    file = DATA / f"sales-{month}.csv"
    with file.open(newline="", encoding="utf-8") as stream:
        for number, row in enumerate(csv.DictReader(stream), start=2):
            day, total = date.fromisoformat(row["date"]), Decimal(row["total"])
            yield Sale(f"{file.name}:{number}", day, row["sku"], int(row["units"]), total)


def _read_stock() -> list[Product]:
    """Return what the shop sells."""
    with (DATA / "stock.csv").open(newline="", encoding="utf-8") as stream:
        return [
            Product(
                row["sku"],
                row["product"],
                Decimal(row["price"]),
                int(row["on_shelf"]),
                int(row["on_order"]),
                row["supplier"],
                int(row["lead_days"]),
            )
            for row in csv.DictReader(stream)
        ]
