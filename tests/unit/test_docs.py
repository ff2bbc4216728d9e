"""The pages say what the program does: help texts, options, files, keys, exit codes, links.

Screens are compared in tests/integration/test_screens.py, because they need a server. To write the
help texts anew: PGTRACE_UPDATE_DOCS=1 scripts/test tests/unit/test_docs.py
"""

import argparse
import ast
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import textwrap
import tomllib
import types
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, Union, get_args, get_origin

import msgspec
import pytest

from pgtrace import commands, errors
from pgtrace.__main__ import _Parser, main
from pgtrace.files import documents
from pgtrace.lab import EXPERIMENTS, result_file, result_report
from pgtrace.lab.answers import answer
from pgtrace.lab.experiments import result_of
from pgtrace.model import capture, encoding, lab_result
from scripts import script

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MAN = DOCS / "man" / "pgtrace.1"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
# Their figures come from scripts, and have no screens
OTHERS = {DOCS / "benchmarks.md", DOCS / "soak.md"}
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HELP = re.compile(r"\$ (?:sudo )?pgtrace ((?:\w+ )*)--help\n")
_REPORT = re.compile(
    r"^(<!-- report: (?P<file>[^\n]+) -->\n\n?```text\n\$ [^\n]+\n)(?P<text>.*?)(?=^```$)",
    re.MULTILINE | re.DOTALL,
)
_FOUND = re.compile(r"^(<!-- found: (?P<file>[^\n]+) -->\n\n)(?:[- ] [^\n]*\n)*", re.MULTILINE)
_COMPARED = re.compile(
    r"^(<!-- compare: (?P<files>[^\n]+) -->\n\n?```text\n).*?(?=^```$)", re.MULTILINE | re.DOTALL
)
_RUN = re.compile(r"^<!-- run: ([^\n]+) -->\n\n?```console\n", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """The contents of a page's fenced blocks in one language."""
    return [text for found, text in _FENCE.findall(page.read_text()) if found == language]


def parser_of(name: str, *more: str) -> argparse.ArgumentParser:
    """The parser of a command, or of the experiment that comes after it, as the program's."""
    parser, found = _Parser(prog=f"pgtrace {name}"), commands.load(name)
    if isinstance(found, commands.Group):
        if not more:
            return parser
        found = found.load(more[0])
    found.prepare_parser(parser)
    return parser


def options_of(name: str) -> Iterator[str]:
    """Every option of a command and of its parts, its long name if it has one."""
    found = commands.load(name)
    parts = list(found.subcommands) if isinstance(found, commands.Group) else []
    for parser in [parser_of(name), *(parser_of(name, part) for part in parts)]:
        for action in parser._actions:
            if action.option_strings:
                yield action.option_strings[-1]


@pytest.mark.parametrize("name", NAMES)
def test_every_help_text_is_the_real_one(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = ROOT / name
    for text in blocks(page, "console"):
        head = _HELP.match(text)
        if head:
            assert main([*head[1].split(), "--help"]) == 0
            real = head[0] + capsys.readouterr().out
            if "PGTRACE_UPDATE_DOCS" in os.environ:
                page.write_text(page.read_text().replace(text, real))
            else:
                assert text == real, "PGTRACE_UPDATE_DOCS=1 writes it anew"


@pytest.mark.parametrize("name", NAMES)
def test_every_screen_is_compared_with_a_real_one(name: str) -> None:
    page = ROOT / name
    if page in OTHERS:
        return
    screens = [text for text in blocks(page, "console") if not _HELP.match(text)]
    assert len(screens) == len(_RUN.findall(page.read_text())), (
        "each block of language `console` is a --help, or has a line <!-- run: SCENE --> above it"
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_report_of_a_lab_result_is_what_its_file_says(name: str) -> None:
    page = ROOT / name

    def load(file: str) -> lab_result.Result:
        document = result_file.load_any(page.parent / file)
        assert isinstance(document, lab_result.Result)
        return document

    def drawn(match: re.Match[str]) -> str:
        file, _, title = match["file"].partition(", from ")
        text = result_report.render(load(file))
        return match[1] + text[text.index(title) :]

    def found(match: re.Match[str]) -> str:
        sentences = answer(load(match["file"]))
        return match[1] + "".join(
            textwrap.fill(said, 84, initial_indent="- ", subsequent_indent="  ") + "\n"
            for said in sentences
        )

    real = _FOUND.sub(found, _REPORT.sub(drawn, page.read_text()))
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        page.write_text(real)
    else:
        assert page.read_text() == real, "PGTRACE_UPDATE_DOCS=1 writes it anew"


@pytest.mark.parametrize("name", NAMES)
def test_every_comparison_is_what_its_files_say(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / name
    if not _COMPARED.search(page.read_text()):
        return
    monkeypatch.chdir(page.parent / "captures")

    def drawn(match: re.Match[str]) -> str:
        assert main(["compare", *match["files"].split()]) == 0
        return f"{match[1]}$ pgtrace compare {match['files']}\n{capsys.readouterr().out}"

    real = _COMPARED.sub(drawn, page.read_text())
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        page.write_text(real)
    else:
        assert page.read_text() == real, "PGTRACE_UPDATE_DOCS=1 writes it anew"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_line_can_be_parsed(name: str) -> None:
    for line in "".join(blocks(ROOT / name, "sh")).replace("\\\n", "").splitlines():
        words = shlex.split(line, comments=True)
        behind = (at for at, word in enumerate(words) if word[:1] in ("|", ">"))
        words = words[: next(behind, None)]
        words = words[words[:1] == ["sudo"] :]
        if words[:1] == ["pgtrace"] and len(words) > 1:
            given = ["1" if word == "PID" else word for word in words[2:]]
            is_group = isinstance(commands.load(words[1]), commands.Group)
            more = given[:1] if is_group else []
            parser_of(words[1], *more).parse_args(given[len(more) :])


@pytest.mark.parametrize("name", commands.TABLE)
def test_every_command_has_a_page_with_its_help_and_options(name: str) -> None:
    text = (DOCS / "guide" / f"{name}.md").read_text()
    assert f"$ pgtrace {name} --help\n" in text
    without_help = _FENCE.sub("", text)
    common = (DOCS / "guide" / "README.md").read_text()
    for option in options_of(name):
        assert f"`{option}" in without_help or f"`{option}" in common, f"{option} is not explained"
    assert f"guide/{name}.md" in (DOCS / "README.md").read_text()


def test_the_manual_page_is_of_the_same_text() -> None:
    """Options from the command line, the rest from README and guide."""
    real = script("manual").drawn()
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        MAN.write_text(real)
    assert MAN.read_text() == real, "PGTRACE_UPDATE_DOCS=1 draws it anew"


def test_the_manual_page_has_every_command_and_option() -> None:
    text = MAN.read_text().replace(r"\-", "-")
    for name in commands.TABLE:
        assert re.search(rf"^\.(SS|B|BR) .*\b{name}\b", text, re.MULTILINE), name
        for option in options_of(name):
            assert option in text, f"{name} {option}"
    for code in exit_codes():
        assert re.search(rf"^\.B {code}$", text, re.MULTILINE), f"exit code {code}"


def test_the_manual_page_is_well_formed() -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff: apt-get install groff-base")
    command = ["groff", "-man", "-ww", "-Tutf8", "-z", "-k", str(MAN)]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout, linted.stderr) == (0, "", "")


def exit_codes() -> set[int]:
    """The exit codes that there are."""
    classes = [c for c in vars(errors).values() if isinstance(c, type)]
    return {0} | {c.exit_code for c in classes if issubclass(c, errors.PgtraceError)}


def test_the_guide_has_every_exit_code() -> None:
    text = (DOCS / "guide" / "README.md").read_text()
    assert {int(n) for n in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == exit_codes()


# Security


def test_each_test_that_the_page_on_security_names_is_there() -> None:
    """It says what cannot be done by the test that tries it."""
    text = (DOCS / "security.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 30
    for file, name in named:
        functions = ast.parse((ROOT / file).read_text()).body
        assert name in {each.name for each in functions if isinstance(each, ast.FunctionDef)}
    attackers = text.partition("## Somebody with an account")[2]
    for row in re.findall(r"^\| (?!cannot|---).*$", attackers, re.MULTILINE):
        assert "tests/" in row or "the same two" in row, row


# The house


def house() -> set[str]:
    """The files and folders that architecture.md names, by their path."""
    tree = blocks(DOCS / "architecture.md", "text")[0]
    found: set[str] = set()
    parents: list[tuple[int, str]] = []
    for line in tree.splitlines():
        match = re.fullmatch(r"( *)(\S+)(  +\S.*)?", line)
        assert match, line
        parents = [(depth, path) for depth, path in parents if depth < len(match[1])]
        path = (parents[-1][1] if parents else "") + match[2]
        if match[2].endswith("/"):
            parents.append((len(match[1]), path))
        found.add(path)
    return found


def test_all_that_the_house_names_is_there() -> None:
    assert [path for path in sorted(house()) if not (ROOT / path).exists()] == []


def test_the_house_names_all_that_is_there() -> None:
    files = [
        *ROOT.glob("bpf/*.[ch]"),
        *ROOT.glob("collector/pgtrace/**/*.py"),
        *(path for path in ROOT.glob("scripts/**/*") if path.is_file()),
    ]
    there = {str(f.relative_to(ROOT)) for f in files if "__pycache__" not in f.parts}
    named = house()
    # What an empty one says is said of its folder.
    there = {f for f in there if not f.endswith("/__init__.py") or (ROOT / f).stat().st_size > 200}
    # A folder of which no file is named stands for all of them.
    whole = [
        f for f in named if f.endswith("/") and not any(g != f and g.startswith(f) for g in named)
    ]
    missing = sorted(f for f in there - named if not f.startswith(tuple(whole)))
    assert missing == [], "give each its line in docs/architecture.md"


# The capture


def structs(kind: object) -> dict[str, type[msgspec.Struct]]:
    """Every struct that a type leads to, itself and what it is derived from included, by name; but
    findings, of which a row of a table tells."""
    if get_origin(kind) is not None:
        return {n: s for part in get_args(kind) for n, s in structs(part).items()}
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return {}
    found: dict[str, type[msgspec.Struct]] = {}
    for of in kind.__mro__:
        if of is not msgspec.Struct and issubclass(of, msgspec.Struct) and own(of):
            found[of.__name__] = of
    for field in msgspec.structs.fields(kind):
        if not [*findings(field.type)]:
            found |= structs(field.type)
    return found


def own(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The keys that a struct has, and no struct that it is derived from."""
    derived = {
        name
        for base in kind.__bases__
        if issubclass(base, msgspec.Struct)
        for name in base.__struct_fields__
    }
    fields = msgspec.structs.fields(kind)
    return {f.encode_name: f for f in fields if f.name not in derived}


def findings(kind: object) -> Iterator[type[lab_result.Finding]]:
    """Those that a result may have."""
    if isinstance(kind, type) and issubclass(kind, lab_result.Finding):
        yield kind
    for part in get_args(kind):
        yield from findings(part)


RESULTS = [result_of(name) for name in EXPERIMENTS]
FINDINGS = {
    found
    for result in RESULTS
    for field in msgspec.structs.fields(result)
    if field.name == "findings"
    for found in findings(field.type)
}
STRUCTS = structs(capture.Capture)
LAB_STRUCTS = {name: found for result in RESULTS for name, found in structs(result).items()}
LAB_STRUCTS |= {"Finding": lab_result.Finding, "Details": lab_result.Details}
REFERENCE = dict.fromkeys(LAB_STRUCTS, "lab-result.md") | dict.fromkeys(STRUCTS, "capture.md")


def literals(kind: object) -> Iterator[str]:
    """The words that a type allows."""
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    elif get_origin(kind) in (Union, types.UnionType):
        for part in get_args(kind):
            yield from literals(part)


@pytest.mark.parametrize("name", REFERENCE)
def test_every_key_of_a_file_is_in_the_reference(name: str) -> None:
    text = (DOCS / "reference" / REFERENCE[name]).read_text()
    section = re.search(rf"<!-- struct: {name} -->\n(.*?)(?=\n#|\Z)", text, re.DOTALL)
    assert section, f"no table marked <!-- struct: {name} -->"
    rows = {
        key: meaning
        for keys, meaning in re.findall(r"^\| (`.+?`) (\|.*)", section[1], re.MULTILINE)
        for key in re.findall(r"`(\w+)`", keys)
    }
    struct = (LAB_STRUCTS | STRUCTS)[name]
    fields = own(struct)
    if struct.__struct_config__.tag_field:
        rows.pop(struct.__struct_config__.tag_field, None)
    assert list(rows.keys() ^ fields.keys()) == []
    for key, field in fields.items():
        for word in literals(field.type):
            assert f"`{word}`" in rows[key], f"{key} may be {word}"


def keys_of(kind: object) -> Iterator[str]:
    """Those of details, and of what they lead to."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            yield field.encode_name
            yield from keys_of(field.type)
    for part in get_args(kind):
        yield from keys_of(part)


@pytest.mark.parametrize("finding", sorted(FINDINGS, key=str))
def test_every_finding_is_in_the_reference_with_its_details(
    finding: type[lab_result.Finding],
) -> None:
    text = (DOCS / "reference" / "lab-result.md").read_text().partition("## findings of")[2]
    name = finding.__struct_config__.tag
    (row,) = re.findall(rf"^\| `{name}` \|.+\|$", text, re.MULTILINE)
    (details,) = (f.type for f in msgspec.structs.fields(finding) if f.name == "details")
    missing = {key for key in keys_of(details) if f"`{key}`" not in row} - {"simulated"}
    assert not missing, f"{name}, details"


def test_the_capture_in_the_reference_is_one(tmp_path: Path) -> None:
    (example,) = blocks(DOCS / "reference" / "capture.md", "json")
    file = tmp_path / "capture.json"
    file.write_text(example)
    assert encoding.encode(documents.load(file)).decode() == example


# Links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    for link in re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", page.read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    for page in DOCS.rglob("*"):
        if page.is_file() and page != DOCS / "README.md":
            assert f"({page.relative_to(DOCS)})" in index, page


def test_what_the_readme_says_of_costs_was_measured() -> None:
    found = json.loads((DOCS / "benchmarks.json").read_text())
    reads = found["read_cost"]["tracers"] | found["read_cost"]["bystanders"]
    started = found["startup"]["tools"]["pgtrace"]
    alone = "a traced read of 8 KiB from the page cache, which takes {:,.0f} ns"
    rows = {
        alone.format(reads["pgtrace"]["untraced_ns"]): "pgtrace",
        "the same under bpftrace, start map and `hist()`": "bare",
        "the same under bpftrace with the same fields": "same",
        "a read of another backend of the server, not traced": "backend_pread",
        "a read of any other process": "process_pread",
    }
    lines = [f"| {row} | {reads[name]['added_ns']:,.0f} ns more |" for row, name in rows.items()]
    seconds, mebibytes = started["seconds"]["median"], started["mebibytes"]["median"]
    lines.append(f"| start, attach, stop | {seconds:.2f} s, {mebibytes:.0f} MiB |")
    page = ROOT / "README.md"
    text = page.read_text()
    table = text.partition("## What it costs")[2].partition("| --- | --- |\n")[2]
    shown = table.partition("\n\n")[0]
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        page.write_text(text.replace(shown, "\n".join(lines)))
    else:
        assert shown.splitlines() == lines, "PGTRACE_UPDATE_DOCS=1 writes it anew"


def costs() -> Iterator[str]:
    """Rows of what tracing costs: of queries the short ones, which it costs most."""
    found = json.loads((DOCS / "benchmarks.json").read_text())
    for name, result in sorted(found.items(), reverse=True):
        kind, _, version = name.partition(" ")
        what = {"server_cost": "a transaction", "query_cost": "a query"}.get(kind)
        for each in result["ratios"] if what else []:
            if not re.search("^bpftrace|^floor|of 700 characters$|, 8 clients$", each["name"]):
                interval = f"{each['value']:.2f} [{each['low']:.2f}, {each['high']:.2f}]"
                server = version.replace(" ", ", io_method ")
                yield f"| {what}, PostgreSQL {server}: {each['name']} | {interval} |"
    reads = found["read_cost"]["tracers"] | found["read_cost"]["bystanders"]
    for tracer, what in (
        ("pgtrace", f"a traced read of 8 KiB, of {reads['pgtrace']['untraced_ns']:,.0f} ns"),
        ("backend_pread", "a read of another backend"),
        ("process_pread", "a read of any other process"),
    ):
        yield f"| {what} | {reads[tracer]['added_ns']:,.0f} ns more |"
    started = found["startup"]["tools"]["pgtrace"]
    seconds, mebibytes = started["seconds"]["median"], started["mebibytes"]["median"]
    yield f"| start, attach, stop | {seconds:.2f} s, {mebibytes:.0f} MiB |"


def goals() -> Iterator[str]:
    """Rows of what the benchmarks' ratios may be at most, and how many of them are."""
    found = json.loads((DOCS / "benchmarks.json").read_text())
    for benchmark, of_it in tomllib.loads((ROOT / "scripts/bench/gates.toml").read_text()).items():
        left = [
            ratio
            for name, result in found.items()
            if name.split()[0] == benchmark
            for ratio in result["ratios"]
            if ratio["goal"] is not None
        ]
        for pattern, most in of_it.items():
            these = [each for each in left if fnmatchcase(each["name"], pattern)]
            left = [each for each in left if each not in these]
            if not these:
                continue
            values = sorted({f"{each['value']:.2f}" for each in these})
            between = " to ".join(dict.fromkeys((values[0], values[-1])))
            verdicts = Counter(each["verdict"] for each in these)
            told = " | ".join(str(verdicts[v] or "") for v in ("met", "not decided", "not met"))
            what = pattern.replace("*", "…")
            yield f"| `{benchmark}`: {what} | {most:g} | {between} | {told} |"


@pytest.mark.parametrize(
    ("page", "rows"),
    [("production.md", costs), ("benchmarks.md", goals)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_table_has_what_was_measured(page: str, rows: Callable[[], Iterator[str]]) -> None:
    path, form = DOCS / page, rf"(<!-- {rows.__name__} -->\n\|.*\n\|[-| ]*\n)(?:\|.*\n)*"
    real = "".join(f"{row}\n" for row in rows())
    text, times = re.subn(form, lambda head: head[1] + real, path.read_text())
    assert times == 1, f"docs/{page} has no table below <!-- {rows.__name__} -->"
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        path.write_text(text)
    else:
        assert path.read_text() == text, "PGTRACE_UPDATE_DOCS=1 writes it anew"


@pytest.mark.parametrize("name", json.loads((DOCS / "benchmarks.json").read_text()))
def test_every_benchmark_is_what_its_result_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts/bench")
    found = json.loads((DOCS / "benchmarks.json").read_text())[name]
    shown = "\n".join(importlib.import_module(name.split(maxsplit=1)[0]).lines(found)) + "\n"
    page = DOCS / "benchmarks.md"
    form = rf"(<!-- bench: {re.escape(name)} -->\n\n?```text\n).*?(?=^```$)"
    real, times = re.subn(
        form, lambda match: match[1] + shown, page.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    assert times == 1, f"docs/benchmarks.md has no line <!-- bench: {name} -->"
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        page.write_text(real)
    else:
        assert page.read_text() == real, "PGTRACE_UPDATE_DOCS=1 writes it anew"


def test_the_soak_is_what_its_result_says() -> None:
    soak = script("soak")
    found = json.loads((DOCS / "soak.json").read_text())
    assert found["good"] and not any(found["lost"].values())
    assert "\n".join(soak.lines(found)) + "\n" in blocks(DOCS / "soak.md", "text")


def test_the_change_log_has_this_version() -> None:
    from pgtrace import __version__

    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_example_in_python_imports_what_there_is(name: str) -> None:
    for text in blocks(ROOT / name, "python"):
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module or "")
                assert [n.name for n in node.names if not hasattr(module, n.name)] == []
