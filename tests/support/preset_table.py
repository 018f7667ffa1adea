"""The table of OpenAI-compatible servers in docs/where-models-run.md: `python -m tests.support.preset_table` writes it anew."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.support.paths import ROOT
from understudy.vocabulary.presets import PRESETS, Preset

PAGE = ROOT / "docs" / "where-models-run.md"
BEGIN, END = "<!-- presets: begin -->\n", "<!-- presets: end -->\n"
HEAD = ("model string", "address", "address variable", "key", "typed answers", "sent otherwise", "refused settings")
TYPED = {
    "schema": "JSON Schema",
    "schema unless tools": "JSON Schema; with tools `final_answer`",
    "tool": "the tool `final_answer`",
}


def table() -> str:
    """Return the rows of all presets as Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *[_row(preset) for preset in PRESETS.values()]]
    return "".join([f"| {' | '.join(row)} |\n" for row in rows])


def written(page: str) -> str:
    """Return the page with the table as the code has it."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def _row(preset: Preset) -> tuple[str, ...]:
    host = urlsplit(preset.address)
    key = " or ".join(f"`{name}`" for name in preset.key_variables)
    return (
        f"`{preset.name}:…`",
        f"`{host.geturl()}{preset.path}`",
        f"`{preset.address_variable}`" if preset.address_variable else "",
        key if preset.needs_key else f"none; {key} if it is set",
        TYPED[preset.typed_by],
        ", ".join(_otherwise(preset)),
        ", ".join(f"`{name}`" for name in preset.lacks),
    )


def _otherwise(preset: Preset) -> list[str]:
    found = [
        f"reasoning goes back as `{preset.reasoning_field}`" if preset.reasoning_field else "no reasoning goes back"
    ]
    if preset.max_tokens_field != "max_tokens":
        found.append(f"`{preset.max_tokens_field}`")
    if preset.seed_field != "seed":
        found.append(f"`{preset.seed_field}` for `seed`")
    if not preset.stream_options:
        found.append("no `stream_options`")
    if preset.forced_by == "word":
        found.append("`required` for a single tool's name")
    if preset.forced_by == "name":
        found.append("a single tool's name for `required`")
    if preset.says_auto:
        found.append("`tool_choice` also where it is `auto`")
    if preset.unforced:
        names = " or ".join([f"`{name}`" for name in preset.unforced.split("|")])
        found.append(f"no forced tool to models with {names} in their names")
    if preset.call_id_length is not None:
        found.append(f"ids of calls have {preset.call_id_length} letters and digits")
    if not preset.user_after_results:
        found.append("a short message of the model's between the results of tools and a user's message")
    return found


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
