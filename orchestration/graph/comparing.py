"""Evaluates conditions: compares the values that a condition refers to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from understudy.vocabulary.messages import JsonValue

from .conditions import FLAGS, ORDERS, Condition, Fixed, Joined, Listed, Operand, number_in, parsed, read
from .references import Reference, as_text

ValueOf: TypeAlias = "Callable[[Reference], JsonValue]"


def holds(condition: str, value_of: ValueOf) -> bool:
    """Whether a condition is true. `and` and `or` stop at the first operand that decides.

    Raises:
        ValueError: the text is no condition, or values cannot be compared so; or any error of `value_of`.
    """
    return _holds(parsed(condition), value_of)


def _holds(condition: Condition, value_of: ValueOf) -> bool:
    if isinstance(condition, Joined):
        each = (_holds(part, value_of) for part in condition.parts)
        match condition.by:
            case "and":
                return all(each)
            case "or":
                return any(each)
            case _:
                return not any(each)
    left, sign, right = condition.left, condition.sign, condition.right
    match sign:
        case "":
            return _is_true(_value(left, value_of))
        case "==" | "!=":
            return _same(left, right, value_of) is (sign == "==")
        case "in" | "not in":
            return _is_in(left, right, value_of) is (sign == "in")
        case _:
            return ORDERS[sign](_comparable(left, sign, value_of), _comparable(right, sign, value_of))


def _value(operand: Operand, value_of: ValueOf) -> JsonValue:
    assert not isinstance(operand, Listed)  # a list can only follow `in`
    return operand.value if isinstance(operand, Fixed) else value_of(operand)


def _is_true(value: JsonValue) -> bool:
    found = read(value)
    if isinstance(found, str):
        return found.strip().lower() not in ("", "false", "no")
    return found not in (None, False, 0) and found != [] and found != {}


def _same(left: Operand, right: Operand, value_of: ValueOf) -> bool:
    """Whether two operands are equal: as numbers if both are numbers and neither is quoted text, otherwise as texts."""
    texts = [each for each in (left, right) if isinstance(each, Fixed) and isinstance(each.value, str)]
    one, other = _value(left, value_of), _value(right, value_of)
    if texts:
        return as_text(one).strip() == as_text(other).strip()
    return _equal(one, other)


def _equal(one: JsonValue, other: JsonValue) -> bool:
    one, other = read(one), read(other)
    if isinstance(one, bool) or isinstance(other, bool):
        return _flag(one) is not None and _flag(one) is _flag(other)
    if isinstance(one, str) and isinstance(other, str):
        return one.strip() == other.strip()
    return one == other


def _flag(value: JsonValue) -> JsonValue:
    """Return a boolean, or the boolean that a model's text such as True means; None for other values."""
    return FLAGS.get(value.strip().lower()) if isinstance(value, str) else value if isinstance(value, bool) else None


def _is_in(left: Operand, right: Operand, value_of: ValueOf) -> bool:
    if isinstance(right, Listed):
        return any(_same(left, each, value_of) for each in right.entries)
    whole = _value(right, value_of)
    inside = read(whole)
    if isinstance(inside, Mapping):
        return as_text(_value(left, value_of)).strip() in inside
    if isinstance(inside, Sequence) and not isinstance(inside, str):
        return any(_same(left, Fixed(each), value_of) for each in inside)
    if isinstance(whole, str):
        return as_text(_value(left, value_of)).strip() in whole
    raise ValueError(f"'in' looks into a list, an object or text; {right} is {as_text(whole)}")


def _comparable(operand: Operand, sign: str, value_of: ValueOf) -> float:
    value = _value(operand, value_of)
    found = number_in(value)
    if found is None:
        raise ValueError(f"{sign!r} compares numbers; {operand} is {as_text(value)[:60]!r}")
    return found
