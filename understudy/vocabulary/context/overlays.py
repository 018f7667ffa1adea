"""Changes to a session that are not part of it yet: of a call of a user's code, and of a run.

No list or dict of a session is changed in place: a call of a user's code gets copies, which are compared when it is over.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping

from understudy.vocabulary.messages import JsonValue

from .session_values import TEMPORARY, SessionValues, check_key, copy_of, is_same


def lasting(values: Mapping[str, JsonValue]) -> SessionValues:
    """Return copies of the values that leave a run: all except `temp:` keys."""
    if isinstance(values, SessionOverlay) and values.is_empty:  # as in most runs
        return SessionValues()
    # By key: `items()` of a mapping that is no dict makes three objects.
    return SessionValues({key: copy_of(values[key]) for key in values if not _is_temporary(key)})


def _is_temporary(key: str) -> bool:
    return key.startswith(TEMPORARY)


_NOTHING: frozenset[str] = frozenset()


def _agree(key: str, one: Mapping[str, JsonValue], other: Mapping[str, JsonValue]) -> bool:
    """Whether two views have the same value for a key, or none."""
    if key not in one or key not in other:
        return key not in one and key not in other
    return is_same(one[key], other[key])


class SessionOverlay(MutableMapping[str, JsonValue]):
    """Changes to a session, for code of the runtime's: reads fall through to the view below, writes stay here."""

    __slots__ = ("_base", "changes", "removed", "since")

    def __init__(self, base: Mapping[str, JsonValue], since: Mapping[str, JsonValue] | None = None) -> None:
        self._base = base
        self.since = since
        """The values that the changes were made from; None if nobody else can have changed the view below since."""
        self.changes: dict[str, JsonValue] = {}
        self.removed = _NOTHING

    def __getitem__(self, key: str) -> JsonValue:
        if key in self.changes:
            return self.changes[key]
        if key in self.removed:
            raise KeyError(key)
        return self._base[key]

    def __setitem__(self, key: str, value: JsonValue) -> None:
        check_key(key)
        self.removed -= {key}
        self.changes[key] = value

    def __delitem__(self, key: str) -> None:
        check_key(key)
        if key not in self:
            raise KeyError(key)
        self.changes.pop(key, None)
        self.removed |= {key}

    def __contains__(self, key: object) -> bool:
        return key in self.changes or (key not in self.removed and key in self._base)

    def __iter__(self) -> Iterator[str]:
        # A list, so that a tool may change the session during an iteration.
        return iter([k for k in self._base if k not in self.removed and k not in self.changes] + list(self.changes))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self)})"

    @property
    def is_empty(self) -> bool:
        """Whether it is known, without a look at each key, to show none."""
        return not self.changes and self._base == {}

    @property
    def is_changed(self) -> bool:
        """Whether a key was set or removed."""
        return bool(self.changes or self.removed)

    def lay_under(self, values: Mapping[str, JsonValue]) -> None:
        """Show `values` where neither the view below nor a change has a key."""
        if values:
            self._base = {**values, **self._base}

    def shows_below(self, key: str, value: JsonValue) -> bool:
        """Whether the view below, without the changes, has this value, or no value for the key."""
        return key not in self._base or is_same(self._base[key], value)

    def commit(self) -> frozenset[str]:
        """Write the changes to the underlying view, if it can be written to.

        Returns:
            The keys in conflict: others have changed them since, in another way, and their values are lost.
        """
        base = self._base
        if not self.is_changed or not isinstance(base, MutableMapping):
            return _NOTHING
        ours, since, lost = self.changes, self.since, _NOTHING
        if since is not None:
            changed = [key for key in (*ours, *self.removed) if not _agree(key, base, since)]
            lost = frozenset([key for key in changed if not _agree(key, base, ours)])
        base.update(ours)
        for key in self.removed:
            base.pop(key, None)
        return lost

    @property
    def below(self) -> Mapping[str, JsonValue]:
        """The view below; of a run inside of another one, the values that it began with."""
        return self._base

    def began_with(self) -> dict[str, tuple[JsonValue, ...]]:
        """Return the value below of each key whose change leaves the run, or an empty tuple if there was none."""
        changes, removed = self.lasting_changes()
        return {key: (self._base[key],) if key in self._base else () for key in (*changes, *sorted(removed))}

    def lasting_changes(self) -> tuple[SessionValues, frozenset[str]]:
        """Return the changes that leave the run: copies of the values set, and keys removed."""
        return lasting(self.changes), frozenset([key for key in self.removed if not _is_temporary(key)])

    def changes_beside(self, said: SessionOverlay) -> tuple[SessionValues, tuple[str, ...], tuple[str, ...]]:
        """Return the changes that leave the run and that `said`, an earlier state of them, does not have.

        Returns:
            Copies of values set, keys removed, and keys that only `said` has changed.
        """
        values, removed, undone = SessionValues(), list[str](), list[str]()
        for key in dict.fromkeys((*self.changes, *said.changes, *sorted(self.removed | said.removed))):
            if _is_temporary(key):
                continue
            if key in self.changes:
                if key not in said.changes or not is_same(self.changes[key], said.changes[key]):
                    values[key] = copy_of(self.changes[key])
            elif key not in self.removed:
                undone.append(key)
            elif key not in said.removed:
                removed.append(key)
        return values, tuple(removed), tuple(undone)

    def undo(self, keys: Iterable[str]) -> None:
        """Show keys as the view below has them."""
        for key in keys:
            self.changes.pop(key, None)
            self.removed -= {key}

    def take_temporary(self, earlier: SessionOverlay, hidden: Container[str] = ()) -> None:
        """Restore the `temp:` values that the same run had before its pause, except the keys in `hidden`."""
        kept = {key: value for key, value in earlier.changes.items() if _is_temporary(key) and key not in hidden}
        self.changes.update(kept)
        self.removed |= {key for key in earlier.removed if _is_temporary(key) and key not in hidden}


class CallSession(SessionOverlay):
    """A view of a session for one call of a user's code, whose writes count once that call's result is accepted.

    A list or dict is copied at its first read, so that a change in place is a change of this call: `settle` finds it.
    """

    __slots__ = ("_read",)

    def __init__(self, base: Mapping[str, JsonValue]) -> None:
        super().__init__(base)
        self._read: dict[str, tuple[JsonValue, JsonValue]] = {}
        """Key -> the value below, and the copy that the call has."""

    def __getitem__(self, key: str) -> JsonValue:
        read = self._read.get(key)
        if read is not None:
            return read[1]
        value = super().__getitem__(key)
        if type(value) not in (list, dict) or key in self.changes:
            return value
        return self._read.setdefault(key, (value, copy_of(value)))[1]  # one for all threads of the call

    def __setitem__(self, key: str, value: JsonValue) -> None:
        super().__setitem__(key, value)
        self._read.pop(key, None)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._read.pop(key, None)

    def settle(self) -> bool:
        """Note changes in place, and copy what the call set and may still hold. Call it when the call is over.

        Returns:
            Whether there is anything to commit.
        """
        read, self._read = self._read, {}
        for key, value in list(self.changes.items()):
            self.changes[key] = copy_of(value)
        for key, (before, now) in read.items():
            if not is_same(before, now):
                self.changes[key] = copy_of(now)
        return self.is_changed
