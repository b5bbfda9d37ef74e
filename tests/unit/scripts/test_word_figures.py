"""What is counted in the words of a source file."""

from __future__ import annotations

from pathlib import Path

from scripts.word_figures import (
    PACKAGE,
    SourceFile,
    bound_names,
    count_empty_names,
    count_phrases,
    count_synonyms,
    crowded_folders,
    function_names,
    load_sources,
    long_files,
    misplaced_tests,
    one_word_function_percent,
    read_glossary,
    repeated_class_names,
    split_words,
    untested_modules,
)

PAGE = """
| word | meaning | not used for it |
|---|---|---|
| task | One piece of work. | `job`, errand |

| name | better |
|---|---|
| `said`, `told` | the `outcome` |

| phrase | better |
|---|---|
| "whoever", "is told" | the caller |

| other | table |
|---|---|
| `nothing` | `here` |
"""


def source(text: str, path: str = "src/crawlfleet/control/tasks/submit.py") -> SourceFile:
    return SourceFile(Path(path), text)


def test_the_tables_of_the_glossary_are_read_by_their_headings() -> None:
    glossary = read_glossary(PAGE)
    assert glossary.words == ("task",)
    assert glossary.synonyms == ("job",)
    assert glossary.empty_names == ("said", "told")
    assert glossary.phrases == ("whoever", "is told")


def test_words_are_split_at_underscores_and_capitals() -> None:
    assert split_words("SharedHosts shared_host HTTPServer max-of-2") == "shared hosts shared host http server max of 2"


def test_functions_are_counted_without_dunders_and_generated_code() -> None:
    code = """
class A:
    def __init__(self): ...
    def _run(self): ...
    async def read_rows(self): ...
def _x_of(): ...
"""
    files = [source(code), source(code, "src/crawlfleet/client/_generated/models.py"), source(code, "testkit/clock.py")]
    assert function_names(files) == ["x_of", "run", "read_rows"]
    assert one_word_function_percent(files) == 34
    assert one_word_function_percent([]) == 0


def test_a_class_name_is_repeated_when_two_classes_have_it() -> None:
    files = [source("class A: ...\nclass B: ...\n"), source("class A: ...\n", "src/crawlfleet/wire/sync.py")]
    assert repeated_class_names(files) == {
        "A": ["src/crawlfleet/control/tasks/submit.py", "src/crawlfleet/wire/sync.py"]
    }


def test_every_bound_name_is_found() -> None:
    code = """
import a as b
class C:
    d: int = 0
    def e(self, f, *g, **h):
        self.i = used(self.not_bound)
        try: pass
        except OSError as j: pass
        for k in (l := []): pass
"""
    assert sorted(bound_names(source(code))) == [*"Cbdefghijkl", "self", "submit"]


def test_synonyms_count_in_identifiers_and_docstrings_also_in_the_plural() -> None:
    code = 'class NextJob:\n  """Jobs of a job."""\n  jobs = 1\n  jobless = "job"\n'
    assert count_synonyms([source(code)], ["job", "errand"]) == {"job": 4}
    assert count_synonyms([source("SharedHost = shared_hosts = host_shared = 1")], ["shared_host"]) == {
        "shared_host": 2
    }


def test_empty_names_count_as_whole_names_only() -> None:
    assert count_empty_names([source("_said = said = SAID = said_so = 1")], ["said", "told"]) == {"said": 3}


def test_phrases_count_over_the_end_of_a_line() -> None:
    text = "# The leader is\n# told, and is told.\nx = 'is Told'  # this tolde\n"
    assert count_phrases([source(text)], ["is told", "whoever"]) == {"is told": 3}


def test_crowded_folders_and_long_files_are_listed() -> None:
    files = [source("", f"src/crawlfleet/model/m{number}.py") for number in range(26)]
    assert crowded_folders(files) == {"src/crawlfleet/model": 26}
    assert crowded_folders([*files[:25], source("", "src/crawlfleet/model/__init__.py")]) == {}
    assert long_files([source("\n" * 400), source("\n" * 401, "testkit/clock.py")]) == {"testkit/clock.py": 450}


def test_a_module_is_tested_by_a_file_of_its_name_under_its_path(tmp_path: Path) -> None:
    for module in ("api/app", "store/tasks/lanes", "store/tasks/ready", "wire/sync", "wire/__init__"):
        _write(tmp_path / PACKAGE / f"{module}.py", "def run(): return 1\n")
    protocol = 'class Clock(Protocol):\n    def now(self) -> int:\n        """The time."""\n        ...\n'
    _write(tmp_path / PACKAGE / "ports/clock.py", protocol)
    for test in (
        "api/test_app",
        "contract/store/tasks/suite_store_lanes",
        "property/store/tasks/test_ready_properties",
    ):
        _write(tmp_path / "tests" / f"{test}.py")
    _write(tmp_path / "tests/unit/test_sync.py")
    assert untested_modules(tmp_path, load_sources(tmp_path)) == ["wire/sync.py"]


def test_a_test_stands_in_a_folder_that_mirrors_one_of_the_source(tmp_path: Path) -> None:
    for path in ("src/crawlfleet/wire/sync", "src/crawlfleet/api/routes/nodes", "testkit/site", "scripts/ratchets"):
        _write(tmp_path / f"{path}.py")
    placed = ("unit/wire/test_a", "api/routes/test_b", "unit/testkit/site/test_c", "unit/scripts/test_d")
    for path in (*placed, "integration/faults/test_e", "unit/test_f", "unit/wires/test_g", "api/wire/test_h"):
        _write(tmp_path / "tests" / f"{path}.py")
    assert misplaced_tests(tmp_path) == ["tests/unit/wires/test_g.py", "tests/api/wire/test_h.py"]


def _write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
