"""Random runs come to the states that their lines say."""

from __future__ import annotations

from .replays import replay_all


def test_the_lines_of_random_runs_come_to_the_states_of_the_runs() -> None:
    report = replay_all(150, 10_000, lambda _: None)

    assert report.faults == []
    assert report.ends["Complete"] and report.ends["NeedsInput"] and report.ends["SeveralErrors"]
    assert report.kinds["SummaryCame"] and report.kinds["CallsGuarded"] and report.kinds["TurnLost"]
    assert report.trees > 0 and not report.not_replayed
