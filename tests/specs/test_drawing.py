"""Pictures as Mermaid, DOT and SVG: what they say is what the picture holds, whatever the names are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.drawings import all_parts, boxes_of, everything, nesting_of, nodes_of, runners, squeezed
from understudy import (
    Agent,
    DrawingError,
    ParallelAgent,
    SequentialAgent,
    Task,
    UnderstudyError,
    Workflow,
    draw,
    load_spec_text,
)
from understudy.orchestration import Runner
from understudy.specs.drawing import render
from understudy.specs.drawing.layout import Box, Picture, picture_of

DOT = shutil.which("dot")
needs_dot = pytest.mark.skipif(DOT is None, reason="no Graphviz: its program 'dot' is not on the PATH")
slow = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a process each

QUOTED = r'"([^"\n]*)"'
SUBGRAPH = re.compile(rf"subgraph (\w+)\[{QUOTED}\]")
NODE = re.compile(rf"(\w+)(?:\({QUOTED}\)|\(\[{QUOTED}\]\)|\(\({QUOTED}\)\))")
ARROW = re.compile(rf"(\w+) (-->|-\.->)(?:\|{QUOTED}\|)? (\w+)")
MARKUP = re.compile(r"</?b>|</?small>|<br/>")


def sample() -> Runner[object]:
    a = Agent("a", model="rehearsal")
    panel = ParallelAgent("panel", [a, Agent("b", model="rehearsal", sub_agents=[a])])
    return Workflow("w", [Task("end", SequentialAgent("s", [panel, a])), Task("graph", a, dependencies=["end"])])


def read_mermaid(text: str) -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, set[str]], set[Any]]:
    """Read nodes, boxes, what is in which box, and arrows, by the few forms of lines that may stand there."""
    nodes: dict[str, list[str]] = {}
    boxes: dict[str, list[str]] = {}
    inside: dict[str, set[str]] = {}
    arrows: set[Any] = set()
    opened: list[str] = []
    header, body = text.split("flowchart TD\n")
    assert re.fullmatch(
        r"---\nconfig:\n  flowchart:\n    wrappingWidth: \d+\n    subGraphTitleMargin: \{top: \d+, bottom: \d+\}\n---\n",
        header,
    )
    for line in [line.strip() for line in body.splitlines()]:
        if box := SUBGRAPH.fullmatch(line):
            if opened:
                inside[opened[-1]].add(box[1])
            opened.append(box[1])
            boxes[box[1]], inside[box[1]] = lines_of(box[2]), set()
        elif line == "end":
            opened.pop()
        elif node := NODE.fullmatch(line):
            nodes[node[1]] = lines_of(node[2] or node[3] or node[4])
            if opened:
                inside[opened[-1]].add(node[1])
        elif arrow := ARROW.fullmatch(line):
            arrows.add((arrow[1], arrow[4], "".join(lines_of(arrow[3] or "")), arrow[2] == "-.->"))
        else:
            assert re.fullmatch(r"direction TB|classDef \w+ [\w:#,]+|class [\w,]+ \w+", line), line
    assert not opened
    return nodes, boxes, inside, arrows


def lines_of(label: str) -> list[str]:
    """Read a label as Mermaid does: numbers of characters, and the three tags that the writer knows."""
    lines = [MARKUP.sub("", line) for line in label.split("<br/>")]
    for line in lines:
        assert re.fullmatch(r"(\w|[ ,:()?-]|#\d+;)*", line), line
    return [line for line in [squeezed(re.sub(r"#(\d+);", lambda c: chr(int(c[1])), line)) for line in lines] if line]


def arrows_of(picture: Picture) -> set[Any]:
    return {(a.tail.key, a.head.key, a.label, a.hands_over) for a in picture.arrows}


@given(st.lists(runners, min_size=1, max_size=2))
@example([everything()])
@settings(deadline=None)
def test_mermaid_says_what_the_picture_holds(given: list[Runner[object]]) -> None:
    picture = picture_of(given)

    nodes, boxes, inside, arrows = read_mermaid(draw(given))

    assert (nodes, boxes, inside) == (nodes_of(picture), boxes_of(picture), nesting_of(picture))
    assert arrows == arrows_of(picture)


@given(runners)
@settings(deadline=None)
def test_arrows_join_what_stands_in_the_same_box(runner: Runner[object]) -> None:
    """Mermaid lays each box out by itself then, and keeps to its direction."""
    picture = picture_of([runner])
    around = {key: box for box, inside in nesting_of(picture).items() for key in inside}

    for arrow in picture.arrows:
        assert around.get(arrow.tail.key) == around.get(arrow.head.key)


def test_mermaid_leaves_room_for_the_longest_title() -> None:
    def bottom(runner: Runner[object]) -> int:
        found = re.search(r"bottom: (\d+)", draw(runner))
        assert found is not None
        return int(found[1])

    a = Agent("a", model="rehearsal")
    noted = Workflow("w", [Task("t", a, when="${x}", until="${t}", retries=1)])

    assert bottom(a) == 0
    assert bottom(SequentialAgent("s", [a])) < bottom(SequentialAgent("s", [a, noted]))


def read_dot(text: str) -> dict[str, Any]:
    assert DOT is not None
    done = subprocess.run([DOT, "-Tdot_json"], input=text.encode(), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_dot
@given(st.lists(runners, min_size=1, max_size=2))
@example([everything()])
@slow
def test_dot_says_what_the_picture_holds(given: list[Runner[object]]) -> None:
    picture = picture_of(given)

    graph = read_dot(draw(given, "dot"))

    objects = graph.get("objects", [])
    clusters = [each for each in objects if each["name"].startswith("cluster_")]
    names = {each["_gvid"]: each["name"] for each in objects}
    assert {name for name in names.values() if not name.startswith("cluster_")} == nodes_of(picture).keys()
    assert {each["name"].removeprefix("cluster_") for each in clusters} == boxes_of(picture).keys()
    for each in clusters:
        inside = {names[id].removeprefix("cluster_") for id in each.get("subgraphs", [])}
        nested = nesting_of(picture)[each["name"].removeprefix("cluster_")]
        assert inside == {key for key in nested if key in boxes_of(picture)}
        assert {key for key in nested if key in nodes_of(picture)} <= {names[id] for id in each["nodes"]}
    drawn = Counter(
        (
            each.get("ltail", names[each["tail"]]).removeprefix("cluster_"),
            each.get("lhead", names[each["head"]]).removeprefix("cluster_"),
            each.get("style") == "dashed",
        )
        for each in graph.get("edges", [])
    )
    assert drawn == Counter((a.tail.key, a.head.key, a.hands_over) for a in picture.arrows)


@needs_dot
@given(st.lists(runners, min_size=1, max_size=2))
@example([everything()])
@slow
def test_svg_is_xml_that_shows_every_line_and_nothing_else(given: list[Runner[object]]) -> None:
    picture = picture_of(given)

    root = ElementTree.fromstring(draw(given, "svg"))

    expected = [line for part in all_parts(picture.parts) for line in (part.title, *part.notes) if line]
    expected += [arrow.label for arrow in picture.arrows if arrow.label]
    shown = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert Counter(map(bare, shown)) == Counter(map(bare, expected))
    tags = {each.tag.removeprefix("{http://www.w3.org/2000/svg}") for each in root.iter()}
    assert tags <= {"svg", "g", "path", "polygon", "ellipse", "polyline", "text"}


def bare(text: str) -> str:
    """Return a text without its spaces, of which a layout makes what it likes."""
    return "".join(text.split())


@given(runners)
@settings(deadline=None)
def test_labels_of_dot_are_well_formed_without_graphviz_to_say_so(runner: Runner[object]) -> None:
    picture = picture_of([runner])
    labels = re.findall(r"label=<(.*?)>(?= |\])(?=[^<>]*$)", draw(runner, "dot"), re.MULTILINE)

    lines = [ElementTree.fromstring(f"<t>{label}</t>".replace(r"\\", "\\")) for label in labels]  # as Graphviz does

    titles = [part.title for part in all_parts(picture.parts) if part.title]
    assert len(lines) == len(titles) + sum(1 for arrow in picture.arrows if arrow.label)
    shown = {bare(next(iter(line.itertext()))) for line in lines}
    assert {bare(title) for title in titles} <= shown


def test_a_loaded_spec_is_drawn_by_its_runners() -> None:
    loaded = load_spec_text("agents:\n  - {id: a, model: rehearsal}\n  - {id: b, model: rehearsal}\n")

    assert sorted(nodes_of(picture_of(loaded.runners.values())).values()) == [["a", "rehearsal"], ["b", "rehearsal"]]
    assert draw(loaded.runners) == draw(list(loaded.runners.values()))


def test_one_runner_is_drawn_as_a_list_of_it_is() -> None:
    runner = sample()

    assert draw(runner) == draw([runner]) == draw(runner, "mermaid")
    assert draw(runner, "dot").startswith("digraph")


@pytest.mark.parametrize("given", ["clerk", 3, None, [Agent("a", model="rehearsal"), "clerk"], {"a": None}])
def test_only_runners_are_drawn(given: Any) -> None:
    with pytest.raises(TypeError, match="draw takes"):
        draw(given)


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="'mermaid', 'dot' or 'svg', got 'png'"):
        draw(sample(), "png")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_svg_without_graphviz_says_how_to_get_it_and_what_needs_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(DrawingError, match=r"graphviz\.org.*Mermaid or DOT") as caught:
        draw(sample(), "svg")
    assert isinstance(caught.value, UnderstudyError)
    assert "digraph" in draw(sample(), "dot")


def fake_dot(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Put a program `dot` on the path, written in Python."""
    made = folder / "dot"
    made.write_text(f"#!{sys.executable}\n{program}\n")
    made.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.skipif(sys.platform == "win32", reason="needs files that are programs by their first line")
class TestAnOtherDot:
    def test_that_fails_is_quoted(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        fake_dot(tmp_path, monkeypatch, "import sys; sys.stdin.read(); sys.exit('no plugin for svg')")

        with pytest.raises(DrawingError, match="status 1: no plugin for svg"):
            draw(sample(), "svg")

    def test_that_never_ends_is_given_up(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        fake_dot(tmp_path, monkeypatch, "import threading; threading.Event().wait()")
        monkeypatch.setattr(render, "DOT_TIMEOUT", 0.2)

        with pytest.raises(DrawingError, match=r"more than 0\.2 s"):
            draw(sample(), "svg")

    def test_that_cannot_be_run_is_an_error_of_ours(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        fake_dot(tmp_path, monkeypatch, "")
        (tmp_path / "dot").write_text("#!/no/such/interpreter\n")

        with pytest.raises(DrawingError, match="could not be run"):
            draw(sample(), "svg")

    def test_gets_the_text_as_utf8_and_its_titles_are_left_out(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        echo = "import sys; t = sys.stdin.buffer.read(); sys.stdout.buffer.write(b'<title>n1</title>\\n' + t)"
        fake_dot(tmp_path, monkeypatch, echo)
        runner = Agent("日本", model="rehearsal")

        assert draw(runner, "svg") == draw(runner, "dot")
        assert "日本" in draw(runner, "svg")


def test_drawing_builds_no_schema() -> None:
    built: list[str] = []

    class Unbuildable:
        def __class_getitem__(cls, item: object) -> None:
            built.append("schema")

    def strange(thing: Unbuildable) -> str:
        """A tool whose parameter has no JSON Schema, which only a run finds out."""
        return ""

    clerk = Agent("clerk", model="openai:gpt-4o", tools=[strange])

    assert "strange" in unescape(draw(clerk, "dot"))
    with pytest.raises(TypeError):
        clerk.fingerprint()


def test_boxes_are_entered_and_left_at_nodes() -> None:
    for part in all_parts(picture_of([sample()]).parts):
        if isinstance(part, Box):
            inside = [inner.key for inner in all_parts(part.parts)]
            assert part.entry.key in inside and part.exit.key in inside
