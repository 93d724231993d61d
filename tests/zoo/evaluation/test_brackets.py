"""EVALB's parameter files: what each line changes, and what is refused."""

import re
from dataclasses import replace

import pytest

from tests.refusals import refused
from zoo.evaluation.brackets import COLLINS, Parameters, read_parameters

STANDARD = """\
## comments, and lines too short to say anything
#

DEBUG 0
MAX_ERROR 10
CUTOFF_LEN 40
LABELED 1
DELETE_LABEL_FOR_LENGTH -NONE-
EQ_LABEL ADVP PRT
# EQ_WORD  Example example
"""
STANDARD += "".join(f"DELETE_LABEL {label}\n" for label in ("TOP", "-NONE-", ",", ":", "``", "''", "."))


@pytest.fixture
def read(tmp_path):
    def of(text):
        path = tmp_path / "some.prm"
        path.write_text(text, "utf-8")
        return read_parameters(path)

    return of


def test_the_standard_file_equals_collins(read):
    assert read(STANDARD) == replace(COLLINS, name=read(STANDARD).name, max_error=10)


def test_every_parameter_takes_effect(read):
    assert read("") == Parameters("some.prm", max_error=10)
    found = read("LABELED 0   \nCUTOFF_LEN\t70\r\nMAX_ERROR 3\nMAX_ERROR 5\nQUOTE_LABEL POS\nEQ_WORD The the\n")
    assert (found.labelled, found.cutoff, found.max_error, found.quotes) == (False, 70, 5, {"POS"})
    assert found.same_word("the", "The")
    assert not found.same_word("the", "THE")
    assert not found.deletes_bracket("TOP")
    both = read("EQ_LABEL A B\nDELETE_LABEL B\n")
    assert both.same_label("B", "A")
    assert both.deletes_bracket("A")
    assert both.deleted == {"B"}


@pytest.mark.parametrize("line", [
    *("DELETE_LABELS TOP", "DELETE_LABEL", "DELETE_LABEL . ,", "EQ_LABEL ADVP"),
    *("CUTOFF_LEN forty", "CUTOFF_LEN 40x", "MAX_ERROR -1", "LABELED 2"),
])  # fmt: skip
def test_invalid_lines_are_refused_with_their_position(read, line):
    error = refused(f"^`{re.escape(line)}` is not an EVALB parameter .*some.prm:2", read, f"# first\n{line}\n")
    assert "EQ_LABEL" in error.hint
