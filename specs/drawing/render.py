"""`draw`: runners as a picture in Mermaid, DOT or SVG."""

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

DOT_TIMEOUT = 60.0  # The largest allowed picture takes some seconds; a longer run of dot never ends.


def draw(
    runners: Runner[object] | Iterable[Runner[object]] | Mapping[str, Runner[object]], form: Form = "mermaid"
) -> str:
    """Draw a runner, or the outermost of several runners.

    An agent is drawn at each of its places. Drawing runs no agent, needs no key and builds no tool's schema. `"svg"` runs
    Graphviz's program `dot` and blocks until it ends; the other forms need no program.

    Args:
        runners: an agent, a group or a workflow; several of them; or a mapping by id, such as a loaded spec's `.runners`.
        form: `"mermaid"`, `"dot"` or `"svg"`.

    Returns:
        The text of a `.mmd`, `.dot` or `.svg` file.

    Raises:
        DrawingError: there is nothing to draw, or too much; for `"svg"`, Graphviz is missing or failed.
        TypeError: an object among `runners` is not a runner.
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
    # Browsers show titles as tooltips, and here they are internal keys of nodes.
    return re.sub(r"<title>[^<]*</title>\n?", "", done.stdout.decode())
