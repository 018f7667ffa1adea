"""Which histories OpenAI has stored: for each, the id of the answer that ended it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence

from understudy.providers.http.forks import renew_after_fork
from understudy.providers.wire.json_values import written
from understudy.vocabulary.messages import JsonObject

MOST = 4_096  # Answers of one client that are remembered; more conversations at once are rare, and send everything.


class StoredAnswers:
    """The answers of one client; safe to share between threads.

    A history is known by a digest of its items. So a history that was shortened, or changed by anybody, is a new one.

    Args:
        most: how many answers are remembered; beyond it those that were not used for longest are forgotten.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._ids: OrderedDict[bytes, str] = OrderedDict()
        """Digest of a history -> the id of its last answer; the one used last stands last."""
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._lock = threading.Lock()
        """Guards the ids."""

    def keep(self, history: Sequence[JsonObject], response_id: str) -> None:
        """Note that the answer of this id ended `history`."""
        digest = _digests(history)[-1]
        with self._lock:
            self._ids[digest] = response_id
            self._ids.move_to_end(digest)
            if len(self._ids) > self._most:
                self._ids.popitem(last=False)

    def latest(self, history: Sequence[JsonObject]) -> tuple[str, int] | None:
        """Return the id of the last stored answer in `history`, and how many items it stands for; None without one.

        An answer that is the end of the history does not count: a request needs an item of its own.
        """
        digests = _digests(history)
        with self._lock:
            for length in range(len(history) - 1, 0, -1):
                if digests[length] in self._ids:
                    self._ids.move_to_end(digests[length])
                    return self._ids[digests[length]], length
        return None

    def forget(self, history: Sequence[JsonObject]) -> None:
        """Forget all answers in a history, so that it is sent whole."""
        with self._lock:
            for digest in _digests(history):
                self._ids.pop(digest, None)


def _digests(history: Sequence[JsonObject]) -> list[bytes]:
    """Return the digests of the first 0, 1, 2, … items."""
    chain = hashlib.sha256()
    found = [chain.digest()]
    for item in history:
        chain.update(written(item).encode("utf-8", "backslashreplace") + b"\n")
        found.append(chain.digest())
    return found
