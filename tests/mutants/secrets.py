"""Faults by which secrets come out, and by which what was used up or left out comes back."""

from __future__ import annotations

from .mutant import Mutant

WIRE = "tests/cli/test_canaries_on_the_wire.py"
WORK = "tests/cli/test_canaries_at_work.py"
EDGES = "tests/orchestration/test_edge_cases.py"
TAPES = "tests/providers/test_recording.py"

MUTANTS = (
    Mutant(
        "what a server sends in headers is logged",
        "providers/quiet.py",
        "record.msg = _cut(record.msg)",
        "pass",
        (f"{WIRE}::test_what_a_server_sets_and_sends_in_headers_stays_out_of_logs_and_errors",),
    ),
    Mutant(
        "an address that is refused is quoted",
        "providers/options.py",
        "https://host/path{problem}",
        "https://host/path{problem}: {url}",
        (f"{WIRE}::test_an_address_that_is_refused_is_not_quoted_where_it_may_hold_a_secret",),
    ),
    Mutant(
        "a key stands in a variable while a request is sent",
        "providers/exchange.py",
        "        request = carrier.request(",
        "        sent = auth()\n        request = carrier.request(",
        (f"{WIRE}::test_no_key_stands_in_the_variables_that_a_crash_reporter_shows",),
    ),
    Mutant(
        "a key stays in the errors that an error came of unseen",
        "providers/client.py",
        "left += [each.__cause__, each.__context__]",
        "left += [each.__cause__]",
        ("tests/cli/test_canaries.py::test_no_canary_comes_out_of_runs_that_end_in_every_way",),
    ),
    Mutant(
        "a proxy's password is in the error about its address",
        "providers/connections.py",
        "except (httpx.InvalidURL, ValueError, ImportError) as error:",
        "except (ValueError, ImportError) as error:",
        (f"{WIRE}::test_a_proxys_password_comes_out_nowhere_and_a_wrong_one_is_a_provider_error",),
    ),
    Mutant(
        "a tool's traceback says what it was called with",
        "actors/tracebacks.py",
        "type(each).__name__",
        "repr(each)",
        (f"{WORK}::test_what_a_process_is_called_with_comes_out_of_no_log_repr_event_or_list_of_processes",),
    ),
    Mutant(
        "a name that a model made up is logged",
        "understudy/logs.py",
        '"" if result.error_kind == "unknown_tool" else call.name',
        "call.name",
        (f"{WORK}::test_a_call_that_cannot_be_made_is_not_quoted_in_a_log",),
    ),
    Mutant(
        "a saved run has its retries again",
        "orchestration/snapshot.py",
        "    return saved.state\n",
        "    saved.state.invalid_retries = 0\n    return saved.state\n",
        (f"{EDGES}::test_a_run_that_is_saved_between_tries_is_not_tried_for_ever",),
    ),
    Mutant(
        "what is no result is taken for one",
        "orchestration/feedchecks.py",
        "if fault := fault_of_result(result):",
        "if fault := str():",
        (f"{EDGES}::test_what_is_no_result_is_refused_and_the_right_one_is_taken_after_it",),
    ),
    Mutant(
        "a guess leaves out the tools",
        "orchestration/estimates.py",
        "len(state.system) + told +",
        "len(state.system) +",
        (f"{EDGES}::test_tools_that_a_model_is_told_of_are_not_left_out_of_a_guess",),
    ),
    Mutant(
        "an empty tape is taken from a forked child",
        "providers/recording.py",
        "self.calls == 0 and self._forks == _forks",
        "self.calls == 0",
        (f"{TAPES}::test_an_empty_tape_is_not_taken_away_from_who_was_forked_and_may_still_write",),
    ),
    Mutant(
        "an empty tape is left behind",
        "providers/recording.py",
        "self.path.unlink(missing_ok=True)",
        "pass",
        (f"{TAPES}::test_no_tape_is_left_of_a_recording_that_recorded_nothing",),
    ),
)
