"""What `map` returns if it has a name: results from the store, answers of runs here, and of runs that others drive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from understudy.actors.threads.promise import taken
from understudy.errors import LeaseLost, StoreError
from understudy.vocabulary.runs.outcomes import Ending, MapAnswer, MapFailure

from .map_answers import Answers

if TYPE_CHECKING:
    from understudy.actors.system.actor_system import ActorSystem
    from understudy.orchestration.definitions.port import MapOptions
    from understudy.orchestration.definitions.runner import Runner

    from .map_answers import Prepare
    from .named_map import NamedMap

LOOK = 0.25  # Seconds between two looks at runs that others drive.


class NamedAnswers(Answers):
    """The answers of a map with a name.

    Args:
        system: where the runs are.
        runner: whose runs they are.
        inputs: taken on the thread that iterates.
        options: what the caller said.
        prepare: makes the record of a run.
        named: has the results.
    """

    def __init__(
        self,
        system: ActorSystem,
        runner: Runner[object],
        inputs: Iterator[object],
        options: MapOptions,
        prepare: Prepare,
        named: NamedMap,
    ) -> None:
        self._named = named
        self._away: dict[int, tuple[str, object]] = {}
        """Index -> key and input of a run that others drive."""
        self._looked_at = 0.0
        """When it was looked what became of those, on the monotonic clock."""
        super().__init__(system, runner, inputs, options, prepare)

    def _open(self) -> None:
        self._named.open()

    @property
    def _has_to_give_back(self) -> bool:
        return self._named.is_open

    def _give_back(self) -> None:
        self._named.close()

    def _begin(self, index: int, given: object) -> None:
        try:
            item = self._key(given)
        except Exception as error:  # of this input alone
            self._machine.answered(MapFailure(index, error))
        else:
            self._begin_item(index, given, item)

    def _key(self, given: object) -> str:
        try:
            return self._named.keys.key(given)
        except (TypeError, ValueError):
            self._prepared(given)  # says better what is wrong with it
            raise

    def _begin_item(self, index: int, given: object, item: str) -> None:
        """Begin the run of an input, go on with it, or take its result."""
        try:
            found = self._named.begin(item, partial(self._prepared, given))
        except LeaseLost:
            if not self._closed:  # else the map was given back by `close`
                raise
            return
        except StoreError:  # of the map
            raise
        except Exception as error:  # of this input alone, as far as anybody knows
            self._machine.answered(MapFailure(index, error))
            return
        if found is None:
            self._away[index] = (item, given)
        elif isinstance(found, Ending):
            self._machine.answered(MapAnswer(index, found))
        else:
            self._under_way[index] = found
            found.promise.when_done(partial(self._news.put, index))
            if self._closed:  # by another thread
                self._cancel_all()

    def _look_away(self) -> None:
        if not self._away or self._machine.failure is not None or time.monotonic() - self._looked_at < LOOK:
            return
        away, self._away = self._away, {}
        with self._as_part_of_it():
            for index, (item, given) in away.items():
                self._begin_item(index, given, item)
        self._looked_at = time.monotonic()

    def _news_in_time(self) -> int | None:
        return self._news.get(timeout=LOOK) if self._away else taken(self._news)
