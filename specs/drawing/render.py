"""`draw`: runners as a picture, in the language of whoever shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, cast, get_args

from understudy.errors import DrawingError
from understudy.orchestration.definitions.runner import Runner

from .dot import to_dot
from .layout import picture_of
from .mermaid import to_mermaid

Form: TypeAlias = Literal["mermaid", "dot", "svg"]
FORMS: tuple[str, ...] = get_args(Form)

DOT_TIMEOUT = 60.0  # Seconds: the largest picture there may be takes some; what takes longer never ends.


def draw(
    runners: Runner[object] | Iterable[Runner[object]] | Mapping[str, Runner[object]], form: Form = "mermaid"
) -> str:
    """Draw a runner, or those of several that stand inside of no other one.

    An agent is drawn at each place where it stands. Nothing runs, no key is needed and no tool's schema is built. `"svg"`
    runs Graphviz's program `dot` and blocks for as long as that takes; the other forms need nothing.

    Args:
        runners: an agent, a group or a workflow; several; or several by id, such as a loaded spec's `.runners`.
        form: `"mermaid"`, `"dot"` or `"svg"`.

    Returns:
        The text of a file `.mmd`, `.dot` or `.svg`.

    Raises:
        DrawingError: there is nothing to draw, or too much; for `"svg"`, Graphviz is missing or failed.
        TypeError: something given is no runner.
        ValueError: the form is unknown.
    """
    if form not in FORMS:
        raise ValueError(f"form must be 'mermaid', 'dot' or 'svg', got {form!r}")
    picture = picture_of(_checked(runners))
    match form:
        case "mermaid":
            return to_mermaid(picture)
        case "dot":
            return to_dot(picture)
        case "svg":
            return _svg(to_dot(picture))


def _checked(runners: object) -> list[Runner[object]]:
    if isinstance(runners, Runner):
        return [cast("Runner[object]", runners)]
    if isinstance(runners, (str, bytes)) or not isinstance(runners, Iterable):
        raise TypeError(f"draw takes a runner, such as us.Agent(…), or several; got {runners!r}")
    if isinstance(runners, Mapping):
        runners = cast("Mapping[str, object]", runners).values()
    found = list(cast("Iterable[object]", runners))
    for each in found:
        if not isinstance(each, Runner):
            raise TypeError(f"draw takes runners, such as us.Agent(…); got {each!r} among them")
    return cast("list[Runner[object]]", found)


def _svg(dot: str) -> str:
    program = shutil.which("dot")
    if program is None:
        raise DrawingError(
            "SVG is drawn by Graphviz, whose program 'dot' is not on the PATH; install it (https://graphviz.org/download, "
            "or the package 'graphviz' of your system), or draw as Mermaid or DOT, which need nothing"
        )
    try:
        done = subprocess.run(
            [program, "-Tsvg"], input=dot.encode(), capture_output=True, timeout=DOT_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise DrawingError(f"{program} took more than {DOT_TIMEOUT:g} s; draw fewer runners, or as Mermaid") from None
    except OSError as error:
        raise DrawingError(f"{program} could not be run: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[:500]
        raise DrawingError(f"{program} failed with status {done.returncode}: {said}")
    # Titles, which browsers show under the pointer, are the keys of nodes: nothing that anyone knows them by.
    return re.sub(r"<title>[^<]*</title>\n?", "", done.stdout.decode())
