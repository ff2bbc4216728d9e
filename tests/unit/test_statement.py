"""Redaction: no literal survives, whatever its kind and wherever the text was cut."""

import re
import textwrap
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzzing import fuzzed
from pgtrace.postgres.redaction import redact
from pgtrace.postgres.tokens import scan
from pgtrace.terminal_text import decode, escape, folded, kept_together

SECRET = "ЖЗИЙКЛМН"  # characters that appear in literals and comments alone
UNPARSED = re.compile(r"<unparsed [0-9a-f]{12}>")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("select * from t where a=$1 and b=5", "select * from t where a=$1 and b=$2"),
        ("select $3, 'x', $1, 2", "select $3, $4, $1, $5"),
        ("select 'it''s', 'b'", "select $1, $2"),
        (r"select E'a\'b', e'\\'", "select $1, $2"),
        ("select B'01', x'1F', N'n', u&'d\\0061' uescape '!'",
         "select $1, $2, $3, $4 uescape $5"),
        ("do $$ begin perform 'x'; end $$", "do $1"),
        ("select $t$ $$ $u$ ' $t$, $ü$ü$ü$", "select $1, $2"),
        ('select t."Weird ""name"" 1", U&"d\\0061t" from t', None),
        ("select 1, 1.5e3, .5, 1.5e-3, 0x1F, 0b01, 1_000, 1.",
         "select $1, $2, $3, $4, $5, $6, $7, $8"),
        ("select t1.c2, a$b, été1 from t1 where $1", None),
        ("select -1, +2, 3-4, a[1:2], 1..3", "select -$1, +$2, $3-$4, a[$5:$6], $7..$8"),
        ("select a + -1, (-2.5), a -3, a - -4", "select a + $1, ($2), a -$3, a - $4"),
        ("values (-1, - 2,--\n-3, -.5, -a)", "values ($1, - $2, -$3, -$4, -a)"),
        ("select null, true, FALSE, a <= b || c::int", None),
        ("select 12ab, 550e8400e29", "select $1, $2"),
        ("select date'2020-01-01'::date", "select date $1::date"),
        ("select\n\t a  -- who\r\n from /* 1 /* 2 */ 3 */ t --end", "select a from t"),
        ("select a-/* */-b", "select a- -b"),
        ("select 'a' -- x\n 'b', E'c'\n 'd\\'e', 'f' 'g'", "select $1, $2, $3 $4"),
        ("select '--', '/*', \"--\", \"/*\"", 'select $1, $2, "--", "/*"'),
        ("select $99999999999, $65535", "select $65536, $65535"),
        ("select $" + "9" * 5000 + ", $000001", "select $1, $2"),
        ("  select 1 ;  ", "select $1"),
        ("END; -- of it\n;", "END"),
        ("select 1; select 2;", "select $1; select $2"),
        (";", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_literals_become_parameters(text: str, redacted: str | None) -> None:
    assert redact(text, cut=False) == (text if redacted is None else redacted)


@pytest.mark.parametrize(
    "text",
    [
        "create role app login password 'Жsecret'",
        "CREATE USER app WITH ENCRYPTED PASSWORD 'Жsecret' VALID UNTIL 'infinity'",
        "alter user x with encrypted password 'Ж'",
        "ALTER ROLE x PASSWORD E'\\'Ж'",
        "alter role x password $$Ж$$",
        "CREATE SUBSCRIPTION s CONNECTION 'host=h password=Ж' PUBLICATION p",
        "create user mapping for u server s options (user 'u', password 'Ж')",
        "create user x password 'Ж''Ж' /* Ж */ -- Ж",
    ],
)
def test_passwords_go(text: str) -> None:
    for cut in range(len(text) + 1):
        assert "Ж" not in redact(text[:cut], cut=cut < len(text))
    redacted = redact(text, cut=False)
    assert "$1" in redacted
    assert "secret" not in redacted


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("select a from t where b = 'Jo", "select a from t where b = …"),
        (r"select E'a\'", "select …"),
        ("select $tag$ a $ta", "select …"),
        ('select "tab', "select …"),
        ("select 1 /* why", "select $1 …"),
        ("select abc", "select abc…"),
        ("select 12", "select $1…"),
        ("select 'a'", "select $1…"),
        ("", "…"),
    ],
)
def test_a_cut_text_loses_what_it_was_cut_in(text: str, redacted: str) -> None:
    assert redact(text, cut=True) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "select 'a",
        'select "a',
        "select /* /* */",
        "select $$ a",
        "select E'\\'",
        "a\0b",
        # One that ends only as one setting reads it may be an error as the other does
        r"select 'it\'s'",
        r"a like 'x' escape '\'",
        r"select 'a\'b', 'c\'d'",
        r"select * from t where a = 'C:\' and b = 'Ж",
        # A quote in the middle of a string
        "select 'it's Ж",
        "select 'it's Ж'",
        "values ('O'Ж', 'O'Ж')",
        "values ('a Ж'b', 'c Ж'd')",
        "select 'a'$1",
        "select $$a$$Ж",
        "select e'a'b''",
        "select 1'Ж'",
    ],
)
def test_what_has_no_tokens_is_unparsed_under_its_hash(text: str) -> None:
    assert UNPARSED.fullmatch(redact(text, cut=False))
    assert redact(text, cut=False) != redact(text + " ", cut=False)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("set my.token to Ж", "set my.token to $1"),
        ("SET LOCAL my.token = 'Ж', Ж ;", "SET LOCAL my.token = $1"),
        ("set session my.token=Ж.Ж-Ж", "set session my.token=$1"),
        ('begin; set a to "Ж"; select 2; set b = Ж', "begin; set a to $1; select $2; set b = $3"),
        ("set my.token Ж", "set my.token $1"),
        ("set global x = Ж", "set global $1"),
        ("set role to Ж", "set role to $1"),
        ("set time zone 'Europe/Rome'", "set time zone $1"),
        ("set session authorization app", None),
        ("set transaction isolation level serializable", None),
        ("set x to default", None),
        ("set constraints all deferred", None),
        ("alter system set a.b = Ж", "alter system set a.b = $1"),
        ("alter role x in database y set z to Ж, Ж", "alter role x in database y set z to $1"),
        ("ALTER DATABASE d SET t TO Ж;", "ALTER DATABASE d SET t TO $1"),
        ("create function f() returns int set a = Ж as $$Ж$$",
         "create function f() returns int set a = $1"),
        ("alter table t alter c set not null, set (fillfactor = 70)",
         "alter table t alter c set not null, set (fillfactor = $1)"),
        ("update t set password = other", None),
        ("create role x password Ж login", "create role x password $1"),
        ("alter user x encrypted password \"Ж\"", "alter user x encrypted password $1"),
        ("alter user x identified by Ж-Ж", "alter user x identified by $1"),
        ("alter role x password null login", None),
        ("alter role x password 'Ж' login", "alter role x password $1 login"),
        ("select set_config('my.token', 'Ж', true)", "select set_config($1, $2, true)"),
    ],
)  # fmt: skip
def test_what_is_set_goes(text: str, redacted: str | None) -> None:
    expected = text if redacted is None else redacted
    assert redact(text, cut=False) == expected
    assert redact(expected, cut=False) == expected
    for cut in range(len(text) + 1):
        once = redact(text[:cut], cut=True)
        assert "Ж" not in once + redact(text[:cut], cut=False)
        assert redact(once, cut=True) == once


content = st.text(SECRET + "'\\\"$-/*\n ", max_size=12)


def quoted(style: str, text: str) -> str:
    """Write a literal, or a comment, as a correct client does."""
    doubled = text.replace("'", "''")
    return {
        "plain": f"'{doubled}'",
        "off": "'" + doubled.replace("\\", "\\\\") + "'",
        "off backslash": "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'",
        "E": "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'",
        "continued": "e'" + doubled.replace("\\", "\\\\") + "'--\n '\\'Ж'",
        "B": f"B'{doubled}'",
        "U&": f"u&'{doubled}'",
        "dollar": f"$q1${text}$q1$",
        "comment": "/*" + text.replace("*", "").replace("/", "") + "*/",
        "nested": "/*/*Ж*/" + text.replace("*", "").replace("/", "") + "*/",
        "line": "--" + text.replace("\n", "") + "\n",
    }[style]


EITHER = ["E", "continued", "B", "U&", "dollar", "comment", "nested", "line"]
FRAGMENTS = ["select", " ", "t1", '"a ""b""\'"', "(", ",", "=", "- ", "::", "\n", "$1", ".", "/"]


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Statements as clients of one server write them: its setting is the same throughout."""
    plain = draw(st.sampled_from([["plain"], ["off", "off backslash"]]))
    text = ""
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            # Spaces, lest /* or a name's last letter take part; a comma, lest two become one.
            text += " " + quoted(draw(st.sampled_from(EITHER + plain)), draw(content)) + " , "
        else:
            text += draw(st.sampled_from(FRAGMENTS)) + draw(st.sampled_from(["", " "]))
    return text


@given(statements())
def test_no_content_of_a_literal_survives(text: str) -> None:
    assert not set(redact(text, cut=False)) & set(SECRET)


@fuzzed
@given(statements(), st.data())
def test_no_content_survives_wherever_the_text_is_cut(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    assert not set(redact(text[:at], cut=True)) & set(SECRET)
    assert not set(redact(text[:at], cut=False)) & set(SECRET), "the client sent no more"


@given(
    st.lists(st.tuples(st.sampled_from(FRAGMENTS), st.text(SECRET + ' -/*"$;', max_size=9))),
    st.data(),
)
def test_no_content_survives_a_quote_too_many_or_too_few(
    parts: list[tuple[str, str]], data: st.DataObject
) -> None:
    """A client that doubles no quotes: 'it's'."""
    text = "".join(f"{code} '{held}' " for code, held in parts if '"' not in code)
    at = data.draw(st.integers(0, len(text)))
    quotes = [match.start() for match in re.finditer("'", text)]
    if quotes and data.draw(st.booleans()):
        at = data.draw(st.sampled_from(quotes))
        text = text[:at] + text[at + 1 :]
    else:
        text = text[:at] + "'" + text[at:]
    assert not set(redact(text, cut=False)) & set(SECRET)


@pytest.mark.parametrize(
    "text", ["select ;secret--' ", "select secret /* it's */", "select 1 -- 'a'secret'"]
)
def test_a_quote_that_a_comment_holds_may_be_the_end_of_a_string(text: str) -> None:
    assert UNPARSED.fullmatch(redact(text, cut=False))


@pytest.mark.parametrize("comment", ["/*traceparent='00-1-2-01'*/", "-- 'a' and 'b'\n", "--\n"])
def test_comments_with_pairs_of_quotes_cost_no_text(comment: str) -> None:
    assert redact(f"select 1 {comment}", cut=False) == "select $1"


@given(statements())
def test_statements_without_backslashes_or_quotes_in_comments_are_parsed(text: str) -> None:
    """So that the tests above do not hold for want of any parsed statement."""
    redacted = redact(text, cut=False)
    hidden = any(
        text.count("'", token.start, token.end) % 2
        for token in scan(text, escapes=False)
        if token.kind in ("space", "comment")
    )
    assert bool(UNPARSED.fullmatch(redacted)) <= ("\\" in text or hidden)


numbers = st.one_of(
    st.integers(0, 10**30).map(str),
    st.floats(0, allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(
        r"0[xX][0-9a-f]+|0b[01]+|[0-9]+(_[0-9]+)*|\.[0-9]+([eE]-?[0-9]+)?", fullmatch=True
    ),
)


@given(st.lists(numbers, min_size=1, max_size=8), st.sampled_from([",", " ", "+", "=", "(", "::"]))
def test_no_number_survives(values: list[str], separator: str) -> None:
    assert redact(separator.join(values), cut=False) == separator.join(
        f"${n}" for n in range(1, len(values) + 1)
    )


anything = st.one_of(
    st.text(max_size=40),
    st.text("'\"$\\eEuU&bx-*/\n\t a1.;_…é\0\udc80", max_size=40),
    statements(),
)


@given(anything, st.booleans(), st.booleans())
def test_redacting_twice_changes_nothing_and_nothing_raises(
    text: str, cut: bool, again: bool
) -> None:
    once = redact(text, cut)
    # Cut once is cut: a text that was whole must not be called cut afterwards.
    assert redact(once, cut and again) == once


@given(anything.map(lambda text: text.replace("\\", "")))
def test_without_a_backslash_both_readings_are_the_same(text: str) -> None:
    assert list(scan(text, escapes=False)) == list(scan(text, escapes=True))


@given(anything)
@example("0$1")
def test_parameters_are_numbered_on_from_the_highest(text: str) -> None:
    redacted = redact(text, cut=False)
    if UNPARSED.fullmatch(redacted):
        return
    # $1 in 0$1 is a parameter, in a$1 it belongs to the name
    old = re.search(r"(?<![A-Za-z_$\x80-\U0010ffff])\$\d", text)
    assert "\n" not in re.sub(r'"(?:[^"]|"")*"', "", redacted)
    if "'" not in text and '"' not in text and "$$" not in text and not old:
        new = [int(n) for n in re.findall(r"(?<![\w$])\$(\d+)", redacted)]
        assert new == list(range(1, len(new) + 1))


def test_the_text_is_scanned_in_linear_time() -> None:
    text = "insert into t values " + ",".join(["('a''', 1.5, $$x$$, /* c */ \"i\")"] * 20_000)
    assert redact(text, cut=False).endswith('$60000, "i")')
    assert redact("select " + "'" * 100_001, cut=True) == "select …"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\x00\x07\x7f\x9b\r", r"a\x00\x07\x7f\x9b\x0d"),
        ("a\u202eb\u2066c\u2028d\u200f", r"a\u202eb\u2066c\u2028d\u200f"),
        ("a\n\t b\r\nc", "a  b c"),
        ("é ü µ █ 漢 😀", "é ü µ █ 漢 😀"),
        ("\udc80", r"\udc80"),
    ],
)
def test_terminals_see_no_control_characters(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_line_breaks_and_tabs_can_be_kept() -> None:
    assert escape("a\n\tb\r\x1b", lines=True) == "a\n\tb\\x0d\\x1b"


@given(st.text())
def test_escaped_text_is_one_printable_line(text: str) -> None:
    shown = escape(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in shown)
    shown.encode("utf-8")
    assert escape(shown) == shown


def test_bytes_that_are_not_utf_8_are_shown() -> None:
    assert decode(b"caf\xc3\xa9 \xff\xc3") == r"café \xff\xc3"


@given(st.binary())
def test_any_bytes_can_be_decoded_redacted_and_shown(raw: bytes) -> None:
    escape(redact(decode(raw), cut=True)).encode("utf-8")


@given(st.text(st.sampled_from("ab 1,%sµ.")), st.integers(5, 30))
def test_no_line_ends_between_a_number_and_its_unit(text: str, width: int) -> None:
    """And nothing else changes."""
    words = " ".join(text.split())
    lines = folded(textwrap.wrap(kept_together(words), width, break_long_words=False))
    assert " ".join(lines) == words
    for first, second in pairwise(lines):
        unit = second.split(" ")[0].rstrip(".,")
        assert not (first[-1].isdigit() and unit in {"%", "s", "µs"}), lines
