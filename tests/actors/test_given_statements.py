"""Statements that tools write: what they may say, and their values in both databases."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.actors.stores.transactions.given_statements import check_parameters, check_statement, for_psycopg


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "select 1;",
        "(SELECT 1) UNION (SELECT 2) -- ; commit\n;",
        "INSERT INTO a VALUES ('; COMMIT')",
        'UPDATE "commit;" SET a = 1',
        "SELECT $$ ; commit $$",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "CREATE TABLE begin_of (a INTEGER)",
        "",
        "-- first\r\nSELECT 1 /* one */ /* two */",
        "SELECT größe, $größe$ ; $größe$ FROM a",
    ],
)
def test_one_statement_of_any_kind_passes(statement: str) -> None:
    assert check_statement(statement) == statement


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("COMMIT", "COMMIT is refused"),
        (" /* ; */ -- now\n\trollback", "ROLLBACK is refused"),
        ("begin immediate", "BEGIN is refused"),
        ("SAVEPOINT a", "SAVEPOINT is refused"),
        ("PREPARE TRANSACTION 'a'", "PREPARE is refused"),
        ("PRAGMA journal_mode=DELETE", "concerns the connection"),
        ("SET synchronous_commit = off", "concerns the connection"),
        ("ATTACH 'a.db' AS a", "concerns the connection"),
        ("SELECT 1; COMMIT", "more than one statement"),
        ("SELECT 'a'';' ; SELECT 2", "more than one statement"),
        ("SELECT $a$ $$ '$a$; COMMIT --'", "more than one statement"),
        ("SELECT 1 a$$; COMMIT; SELECT 1 b$$", "more than one statement"),
        ("SELECT 1 é$$; COMMIT; SELECT 1 b$$", "more than one statement"),
        ("SELECT $ü😀$ ' $ü😀$; COMMIT --'", "more than one statement"),
        ("SELECT 1;\ufeffCOMMIT", "more than one statement"),
        ("\ufeffCOMMIT", "expected a word of SQL"),
        ("\xa0COMMIT", "expected a word of SQL"),
        ("\x1cCOMMIT", "expected a word of SQL"),
        ("'a' COMMIT", "expected a word of SQL"),
        ("/* /* */ */ COMMIT", "a comment begins inside of a comment"),
        ("/* /* */ COMMIT /* */", "a comment begins inside of a comment"),
        ("-- \rCOMMIT", "a carriage return inside"),
        ("-- \r SELECT '\nCOMMIT --'", "a carriage return inside"),
    ],
)
def test_what_concerns_the_transaction_or_the_connection_is_refused(statement: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_statement(statement)


@pytest.mark.parametrize("statement", [None, b"SELECT 1", 7])
def test_a_statement_is_a_text(statement: Any) -> None:
    with pytest.raises(TypeError, match="must be a string"):
        check_statement(statement)


@pytest.mark.parametrize("parameters", [None, "abc", 7, {1, 2}, iter([1])])
def test_parameters_are_a_sequence_or_a_mapping(parameters: Any) -> None:
    with pytest.raises(TypeError, match="a tuple or list for"):
        check_parameters(parameters)


@pytest.mark.parametrize(
    ("given", "named", "made"),
    [
        ("SELECT ?, '?', \"?\" -- ?", False, "SELECT %s, '?', \"?\" -- ?"),
        ("SELECT E'it\\'s ?', ?", False, "SELECT E'it\\'s ?', %s"),
        ("SELECT $a$ ? $a$, $$ ? $$, ?", False, "SELECT $a$ ? $a$, $$ ? $$, %s"),
        ("SELECT a % 2, '%' WHERE b LIKE ?", False, "SELECT a %% 2, '%%' WHERE b LIKE %s"),
        ("SELECT a[1:b], ?", False, "SELECT a[1:b], %s"),
        ("SELECT :a::text, ':a', b ? 'k'", True, "SELECT %(a)s::text, ':a', b ? 'k'"),
    ],
)
def test_values_stand_where_psycopg_looks_for_them(given: str, named: bool, made: str) -> None:
    assert for_psycopg(given, named=named) == made
