"""`Origin`: where the object comes from that a tool is a method of."""

from __future__ import annotations

from collections.abc import Callable


class Key:
    """Stands for one toolset object, whose class may forbid that it is hashed or referred to weakly."""

    __slots__ = ("__weakref__",)


class Origin:
    """Where the toolset of an agent's tools comes from; told apart by object.

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
        """What stands for the object that is there; None if one is made."""
        if self.given is None:
            return None
        key: Key = vars(self.given).setdefault("_toolset_key", Key())  # one step, also of a frozen dataclass
        return key

    def __repr__(self) -> str:
        return f"Origin({self.cls.__name__})"
