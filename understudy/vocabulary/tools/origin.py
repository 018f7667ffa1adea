"""`Origin`: the source of a toolset's object."""

from __future__ import annotations

from collections.abc import Callable


class Key:
    """Identifies one toolset object, because its class may forbid hashing and weak references."""

    __slots__ = ("__weakref__",)


class Origin:
    """The source of a toolset's object; compared by identity.

    Args:
        cls: its class.
        make: makes an object; None for one that is there.
        given: the object that is there.
    """

    __slots__ = ("_make", "cls", "given")

    def __init__(self, cls: type[object], make: Callable[[], object] | None = None, given: object = None) -> None:
        self.cls = cls
        self.given = given
        self._make = make

    def make(self) -> object:
        """Return a new object. What its class raises is raised."""
        assert self._make is not None
        return self._make()

    @property
    def key(self) -> Key | None:
        """The identity of a given object; None if the object is made."""
        if self.given is None:
            return None
        key: Key = vars(self.given).setdefault("_toolset_key", Key())  # one step, also of a frozen dataclass
        return key

    def __repr__(self) -> str:
        return f"Origin({self.cls.__name__})"
