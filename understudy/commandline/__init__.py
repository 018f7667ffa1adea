"""The parts behind `understudy COMMAND`, between the argument parser in `cli` and the actor system.

Parsed arguments come in to a module of `commands`. For a run it loads the spec, makes a system with the store that was
named, and lets `model_overrides` replace the models by a rehearsal, a recording or a tape. The run's events go to
`call_log`, which collects them for `--json`, and to a progress display: `live_progress` on a terminal, `plain_progress` in a
pipe. `event_words` has the words of both, and `turn_text` has the model's text while it is written. `written_text`
writes that text to a pipe; `commands.run_display` tells whether it may before the end, and writes events for programs.

The outcome or error goes to `report`, which makes a text for people, a line of JSON for programs, and the exit status. All
texts pass `for_terminal`, so that a model or a tool cannot send control sequences to a terminal.
"""
