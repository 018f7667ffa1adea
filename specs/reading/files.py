"""Reads the files of a spec: the spec itself, included specs and prompts. All must be inside the spec's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path

from understudy.errors import SpecError

from .document import MAX_BYTES, MAX_VALUES, Document, NotUtf8, decode, read_document
from .located import LocatedValue
from .problems import Problem, did_you_mean, spec_error

TEXT = "<text>"
MAX_FILES = 1_000


class Sources:
    """The documents of a spec, in reading order, and the prompt files that they name.

    Args:
        documents: the spec first, then the included files.
        root: the folder that every file must be in; None for a spec from a string, which may name no files.
    """

    def __init__(self, documents: list[Document], root: Path | None) -> None:
        self.documents = documents
        self._root = root
        self._prompts: dict[Path, str] = {}

    def prompt(self, located: LocatedValue) -> str | Problem:
        """Return the text of the prompt file that `located` names, or the problem with it."""
        name = located.text or ""
        if self._root is None:
            return located.problem("a spec that is no file has no folder to read prompts from; write the text here")
        found = inside(self._root, located.document.source, name)
        if isinstance(found, str):
            return located.problem(found)
        path, shown = found
        if path not in self._prompts:  # a file is read once: many agents can name the same large file
            text = _text_of(path, shown)
            if isinstance(text, str):
                return located.problem(text)
            self._prompts[path] = text.text
        return self._prompts[path]


class _Read:
    def __init__(self, text: str) -> None:
        self.text = text


def read_spec_text(text: str, environment: Mapping[str, str]) -> Sources:
    """Read a spec from a string, which cannot include files."""
    document = read_document(text, TEXT, environment)
    for entry in LocatedValue.top(document).at("include").items():
        document.problems.append(entry.problem("a spec that is no file has no folder to include files from"))
    return Sources([document], None)


def read_spec_files(path: str | PathLike[str], environment: Mapping[str, str]) -> Sources:
    """Read a spec and the files it includes; problems are listed in their documents.

    Raises:
        SpecError: the spec itself cannot be read.
    """
    file = Path(path)
    try:
        text = decode(_bytes_of(file))
    except NotUtf8 as error:
        raise spec_error([Problem(fspath(path), error.place, str(error))]) from None
    except OSError as error:
        raise SpecError(f"{file}: {_why(file, error)}; expected a YAML file with agents") from error
    top = read_document(text, fspath(path), environment)
    root = file.parent.resolve()
    return Sources(_with_included(top, file.resolve(), root, environment), root)


def _with_included(top: Document, file: Path, root: Path, environment: Mapping[str, str]) -> list[Document]:
    documents: list[Document] = []
    seen: dict[Path, str] = {file: "the spec itself"}
    values = len(top.places)
    waiting: list[tuple[Document, tuple[Path, ...]]] = [(top, (file,))]
    while waiting:  # a loop, as a chain of includes can be deeper than the stack
        document, chain = waiting.pop()
        documents.append(document)
        included: list[tuple[Document, tuple[Path, ...]]] = []
        for entry in LocatedValue.top(document).at("include").items():
            if entry.text is None:
                continue
            found = inside(root, document.source, entry.text)
            if isinstance(found, str):
                document.problems.append(entry.problem(found))
                continue
            path, source = found
            if len(seen) >= MAX_FILES or values > MAX_VALUES:
                most = f"at most {MAX_FILES:,} files with {MAX_VALUES:,} values together"
                document.problems.append(entry.problem(f"a spec is {most}; from here on nothing more is included"))
                break
            if path in chain:
                names = [each.name for each in (*chain[chain.index(path) :], path)]
                document.problems.append(entry.problem(f"this file includes itself: {' -> '.join(names)}"))
            elif path in seen:
                document.problems.append(entry.problem(f"{entry.text!r} is included twice, first by {seen[path]}"))
            else:
                seen[path] = f"{document.source}:{entry.place.line}"
                text = _text_of(path, source)
                if isinstance(text, str):
                    document.problems.append(entry.problem(text))
                else:
                    made = read_document(text.text, source, environment)
                    values += len(made.places)
                    included.append((made, (*chain, path)))
        waiting += reversed(included)
    return documents


def inside(root: Path, source: str, name: str) -> tuple[Path, str] | str:
    """Return the resolved path of a file that `source` names, and its name in errors; or why it may not be read.

    Args:
        root: the resolved folder that the file must be in after links are followed.
        source: the file that names it; the name is relative to this file's folder.
        name: the name as `source` has it.
    """
    if not name or Path(name).is_absolute():
        return f"expected a file relative to the spec, got {name!r}"
    shown = os.path.normpath(os.path.join(os.path.dirname(source), name))
    try:
        path = Path(shown).resolve()
    except (OSError, ValueError, RuntimeError):
        return f"{name!r} is no name of a file"
    if not path.is_relative_to(root):
        return f"{name!r} leads out of the folder of the spec, and a spec reads only what is inside of it"
    return path, shown


def _text_of(path: Path, shown: str) -> _Read | str:
    """Return the text of a file inside the spec's folder, or why it cannot be read."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            return f"{shown} is no plain file"  # reading a pipe could block for ever
        return _Read(decode(_bytes_of(path)))
    except NotUtf8 as error:
        return f"{shown}:{error.place.line}:{error.place.column}: {error}"
    except SpecError as error:
        return str(error)
    except OSError as error:
        return f"{shown}: {_why(path, error)}"


def _bytes_of(file: Path) -> bytes:
    with file.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise SpecError(f"{file}: the file is too large; expected at most {MAX_BYTES:,} bytes")
    return data


def _why(file: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        if file.is_symlink():
            return "this is a link to a file that is not there"
        folder = file.parent
        near = did_you_mean(file.name, (one.name for one in folder.iterdir()), cutoff=0.75) if folder.is_dir() else ""
        return f"there is no such file{near}"
    if isinstance(error, IsADirectoryError):
        return "this is a folder"
    return f"cannot be read: {error.strerror}"
