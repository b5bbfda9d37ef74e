"""Measures how plain the words of the source are: names, docstrings, sizes of files and folders, modules without tests.

Everything is read from the files (`ast` and text); nothing of the product is imported. The words come from the tables
of `docs/glossary.md`. `scripts/ratchets.py` keeps the figures from rising.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path

PACKAGE = Path("src/crawlfleet")
FOLDERS = (Path("src"), Path("testkit"))
FORMATTED_FOLDERS = ("src", "testkit", "tests", "bench", "scripts", "examples")
GENERATED = PACKAGE / "client/_generated"
MIGRATIONS = PACKAGE / "store/engine/migrations/versions"
TIERS = ("unit", "property", "contract", "integration")
"""Folders of tests/ whose tree mirrors that of the package. tests/api mirrors the folder api/ alone."""

FOLDER_FILES = 25
FILE_LINES = 400
LINES_STEP = 50
"""The size of a long file is noted in steps, so that not every edit of it changes its ratchet."""

PERSONS = ("whoever", "somebody", "nobody", "stranger", "strangers")
_SKIP_FORMAT = "# fmt: " + "skip"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CODE = re.compile(r"`([^`]+)`")
_QUOTED = re.compile(r'"([^"]+)"')


@dataclass(frozen=True)
class SourceFile:
    path: Path
    """Relative to the project's root."""
    text: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text)))

    @property
    def is_generated(self) -> bool:
        return GENERATED in self.path.parents


@dataclass(frozen=True, slots=True)
class Glossary:
    words: tuple[str, ...]
    synonyms: tuple[str, ...]
    """Words in code format that are not used for a word of the glossary."""
    empty_names: tuple[str, ...]
    """Names that say nothing about what they name."""
    phrases: tuple[str, ...]
    """Phrases that docstrings and comments do without, in lower case."""


def load_sources(root: Path, folders: Iterable[Path] = FOLDERS) -> list[SourceFile]:
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return [SourceFile(path.relative_to(root), path.read_text(encoding="utf-8")) for path in paths]


def read_glossary(page: str) -> Glossary:
    """Reads the tables of the glossary: they are told apart by their headings."""
    words, synonyms, empty_names, phrases = [], [], [], []
    heading: list[str] = []
    for line in page.splitlines():
        if not line.startswith("|"):
            heading = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not heading:
            heading = cells
        elif set(line) <= set("|-: "):
            continue
        elif heading == ["word", "meaning", "not used for it"]:
            words.append(cells[0])
            synonyms.extend(_CODE.findall(cells[2]))
        elif heading == ["name", "better"]:
            empty_names.extend(_CODE.findall(cells[0]))
        elif heading == ["phrase", "better"]:
            phrases.extend(_QUOTED.findall(cells[0]))
    return Glossary(tuple(words), tuple(synonyms), tuple(empty_names), tuple(phrases))


def split_words(text: str) -> str:
    """Splits identifiers and prose alike into words in lower case: `SharedHost` and `shared_host` are "shared host"."""
    return " ".join(_WORD.findall(text)).lower()


def function_names(files: Iterable[SourceFile]) -> list[str]:
    """Names of all functions and methods of the package without leading underscores; no dunders, no generated code."""
    return [
        node.name.lstrip("_")
        for file in files
        if PACKAGE in file.path.parents and not file.is_generated
        for node in file.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_dunder(node.name)
    ]


def one_word_function_percent(files: Iterable[SourceFile]) -> int:
    """The share of functions whose name has one word (no underscore within), in whole percent, rounded up."""
    names = function_names(files)
    return ceil(100 * sum("_" not in name for name in names) / len(names)) if names else 0


def repeated_class_names(files: Iterable[SourceFile]) -> dict[str, list[str]]:
    """Class names that more than one class of the package has, with the files they are in; no generated code."""
    places: dict[str, list[str]] = {}
    for file in files:
        if PACKAGE in file.path.parents and not file.is_generated:
            for node in file.nodes:
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(str(file.path))
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def bound_names(file: SourceFile) -> Iterator[str]:
    """Every name that the file binds: the module, classes, functions, parameters, variables, attributes."""
    yield file.path.stem
    for node in file.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name
            case _:
                pass


def docstrings(file: SourceFile) -> Iterator[str]:
    """Docstrings of modules, classes and functions, and the strings below attributes."""
    for node in file.nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text
            case _:
                pass


def count_synonyms(files: Iterable[SourceFile], synonyms: Sequence[str]) -> dict[str, int]:
    """Uses of each word, or its plural, within identifiers and docstrings; words without a use are left out."""
    texts: Counter[str] = Counter()
    for file in files:
        if not file.is_generated:
            texts.update(bound_names(file))
            texts.update(docstrings(file))
    counts: Counter[str] = Counter()
    split = [(split_words(text), times) for text, times in texts.items()]
    for synonym in synonyms:
        pattern = re.compile(rf"\b{split_words(synonym)}s?\b")
        counts[synonym] = sum(len(pattern.findall(text)) * times for text, times in split)
    return {synonym: count for synonym, count in sorted(counts.items()) if count}


def count_empty_names(files: Iterable[SourceFile], empty_names: Sequence[str]) -> dict[str, int]:
    """How often each of these is a whole name, underscores around it and case aside."""
    names = Counter(name.strip("_").lower() for file in files if not file.is_generated for name in bound_names(file))
    return {name: names[name] for name in sorted(empty_names) if names[name]}


def count_phrases(files: Iterable[SourceFile], phrases: Sequence[str]) -> dict[str, int]:
    """Uses of each phrase in the text of the files, comments and strings included."""
    text = "\n".join(file.text for file in files if not file.is_generated)
    counts = {phrase: len(_phrase_pattern(phrase).findall(text)) for phrase in sorted(phrases)}
    return {phrase: count for phrase, count in counts.items() if count}


def count_format_skips(root: Path) -> int:
    return sum(file.text.count(_SKIP_FORMAT) for file in load_sources(root, map(Path, FORMATTED_FOLDERS)))


def crowded_folders(files: Iterable[SourceFile]) -> dict[str, int]:
    """Folders with more modules than a reader keeps in mind. Migrations are a numbered sequence and do not count."""
    sizes = Counter(file.path.parent for file in files if file.path.name != "__init__.py")
    return {str(folder): n for folder, n in sorted(sizes.items()) if n > FOLDER_FILES and folder != MIGRATIONS}


def long_files(files: Iterable[SourceFile]) -> dict[str, int]:
    """Files that are too long to be read in one sitting, with their lines rounded up to the next step."""
    sizes = {str(file.path): file.text.count("\n") for file in files if not file.is_generated}
    return {path: ceil(lines / LINES_STEP) * LINES_STEP for path, lines in sizes.items() if lines > FILE_LINES}


def untested_modules(root: Path, files: Iterable[SourceFile]) -> list[str]:
    """Modules of the package that have functions, and no test file of their name under the mirrored path.

    The test file of `control/tasks/submit.py` is `test_submit.py`, `test_submit_properties.py` or
    `suite_store_submit.py` in `tests/<tier>/control/tasks/`.
    """
    return [
        str(file.path.relative_to(PACKAGE))
        for file in files
        if PACKAGE in file.path.parents and _needs_test(file) and not any(find_test_files(root, file.path))
    ]


def mirrored_folders(module: Path) -> list[Path]:
    """Folders of tests/ that mirror the folder of a module: of the package, of testkit/ or of scripts/."""
    folder = module.parent.relative_to(PACKAGE) if PACKAGE in module.parents else module.parent
    folders = [Path("tests") / tier / folder for tier in TIERS]
    if folder.parts[:1] == ("api",):
        folders.append(Path("tests") / folder)
    return folders


def find_test_files(root: Path, module: Path) -> list[Path]:
    """The test files of a module by name, relative to the root."""
    names = (f"test_{module.stem}.py", f"test_{module.stem}_properties.py", f"suite_store_{module.stem}.py")
    candidates = [folder / name for folder in mirrored_folders(module) for name in names]
    return [path for path in candidates if (root / path).is_file()]


def misplaced_tests(root: Path) -> list[str]:
    """Test files that stand in a folder which mirrors none: each tier has the tree of the package.

    Beside it a tier may have `testkit/` and `scripts/` with their trees, and `faults/` for tests of faults that concern
    several modules. A folder may also mirror a single module that has many tests.
    """
    tests = root / "tests"
    files = [path for tier in (*TIERS, "api") for path in sorted((tests / tier).rglob("test_*.py"))]
    return [str(path.relative_to(root)) for path in files if not _is_mirror(root, path.parent.relative_to(tests))]


def _is_mirror(root: Path, folder: Path) -> bool:
    mirrored = folder if folder.parts[0] == "api" else folder.relative_to(folder.parts[0])
    if mirrored == Path("faults"):
        return True
    source = root / mirrored if mirrored.parts[:1] in {("testkit",), ("scripts",)} else root / PACKAGE / mirrored
    return source.is_dir() or source.with_suffix(".py").is_file()


def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Also over the end of a line, and over the sign of a comment that goes on."""
    between = r"[\s#]+".join(phrase.split())
    return re.compile(rf"\b{between}\b", re.IGNORECASE)


def _needs_test(file: SourceFile) -> bool:
    """Whether there is something to run in it: records, protocols and constants are declarations alone."""
    if file.is_generated or MIGRATIONS in file.path.parents or file.path.name.startswith("__"):
        return False
    functions = [node for node in file.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(not _is_constant(statement) for function in functions for statement in function.body)


def _is_constant(statement: ast.stmt) -> bool:
    """A docstring or an ellipsis."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
