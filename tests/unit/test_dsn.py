"""A connection string that is none is refused in words that do not quote it."""

import pytest

from pgtrace.__main__ import main
from pgtrace.errors import DatabaseError, UsageError
from pgtrace.postgres.connection import check_dsn, connect

SECRETS = ["s3cret", "ret!"]


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://mon:s3c%ret!@127.0.0.1/shop",
        "postgresql://mon:s3c@ret!@127.0.0.1/shop",
        "postgresql://mon:s3c/ret!@127.0.0.1/shop",
        "postgresql://mon:s3c ret!@127.0.0.1/shop",
        "postgresql://mon:s3c?c@ret!@127.0.0.1/shop",
        "host=127.0.0.1 password=s3c ret!",
        "password='s3cret!",
        "s3cret!",
    ],
)
def test_a_password_that_is_not_encoded_is_told_to_nobody(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for refused in UsageError, DatabaseError:
        with pytest.raises(refused, match="is no connection string") as raised:
            check_dsn(dsn) if refused is UsageError else connect(dsn).__enter__()
        assert not any(secret in str(raised.value) for secret in SECRETS)
    assert main(["capture", "--server", "1", "--dsn", dsn]) == 2
    assert not any(secret in capsys.readouterr().err for secret in SECRETS)


@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "host=/tmp user=me password='p@ss /%'",
        "host=/tmp password=a://b@c@d/@",
        "postgresql://mon:pa?ss@127.0.0.1/shop",
        "postgresql://mon:p%40ss%2f@127.0.0.1:5432,10.0.0.1/shop?connect_timeout=3",
        "postgresql:///shop?host=/tmp&user=me@example",
    ],
)
def test_what_libpq_reads_is_taken(dsn: str) -> None:
    check_dsn(dsn)
