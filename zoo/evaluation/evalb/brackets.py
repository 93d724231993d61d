"""Brackets of trees against references, as EVALB (Sekine and Collins 1997) scores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

from specs import ZooError
from specs.notation import shown
from zoo.evaluation.evalb.bracketing import Bracketing, of_line, of_tree
from zoo.evaluation.evalb.parameters import COLLINS, Parameters, read_parameters
from zoo.evaluation.evalb.row import ERROR, SKIPPED, VALID, Row, points, row
from zoo.text.lines import read_lines
from zoo.text.trees.tree import XX, Tree


@dataclass(frozen=True, slots=True)
class Summary:
    """Sentences together. In points (0 to 100), but for `crossing`, the mean number of brackets that cross.

    `errors` and `skipped` of the sentences count in nothing else. `complete_match`, `no_crossing` and `two_or_less`
    are shares of the others, `tagging` the share of the words with the right tag, None where the test has no tags.
    What there is nothing of is 0.
    """

    sentences: int
    errors: int
    skipped: int
    recall: float
    precision: float
    f1: float
    complete_match: float
    crossing: float
    no_crossing: float
    two_or_less: float
    tagging: float | None


@dataclass(frozen=True, slots=True)
class BracketScores(Summary):
    """All sentences together, those of at most `cutoff` words once more (`short`), and each of them.

    The signature tells the parameters, whose tags the words of the test had, and the cutoff.
    """

    cutoff: int
    short: Summary
    signature: str
    rows: tuple[Row, ...]

    @property
    def failed(self) -> list[tuple[int, Row]]:
        """The sentences in error, with their numbers from 1 on."""
        return [(number, each) for number, each in enumerate(self.rows, start=1) if each.status == ERROR]

    def by_length(self, bounds: Sequence[int]) -> dict[str, Summary]:
        """Summaries of the sentences by their length in words: for bounds 10 and 20 those of 1-10, 11-20 and >20.

        Raises ZooError where the bounds do not grow from 1 on.
        """
        if not bounds or bounds[0] < 1 or any(bound >= after for bound, after in pairwise(bounds)):
            raise ZooError(f"`{list(bounds)}` are no bounds of lengths", hint="give whole numbers that grow, from 1 on")
        found = {}
        for low, high in pairwise([0, *bounds]):
            found[f"{low + 1}-{high}"] = _summary([each for each in self.rows if low < each.length <= high])
        return found | {f">{bounds[-1]}": _summary([each for each in self.rows if each.length > bounds[-1]])}


def brackets(
    outputs: Sequence[Tree | None],
    references: Sequence[Tree],
    parameters: Parameters = COLLINS,
    *,
    own_tags: bool = True,
) -> BracketScores:
    """Scores trees against references; None is an output that is no tree, and counts as an error.

    Words and brackets are deleted by their tags and labels before they are compared. Where no output has a tag (all
    are `XX`), a parser that writes none made them, and each word has its tag from the reference: else punctuation
    would stay in the one and not in the other. There is no tagging accuracy then. So it is for outputs with tags where
    `own_tags` is false: a wrong tag, which makes punctuation of a word or a word of punctuation, is then no error.

    Raises ZooError where there are not as many outputs as references, or none, or more errors than the parameters
    allow.
    """
    found = [None if tree is None else of_tree(tree) for tree in outputs]
    return _scores(found, [of_tree(tree) for tree in references], parameters, own_tags=own_tags)


def evaluate_brackets(test: Path | str, gold: Path | str, parameters: Path | str | None = None) -> BracketScores:
    """Scores one file of trees, one a line, against another; with EVALB's parameter file, else with COLLINS.

    A line of the test that has no word is skipped, and one that is no tree is an error. Raises ZooError where a file
    cannot be read, a line of the gold file is no tree or the files differ in the number of their lines, and as
    `brackets` does.
    """
    chosen = COLLINS if parameters is None else read_parameters(parameters)
    found, lines = read_lines(test), read_lines(gold)
    if len(found) != len(lines):
        raise ZooError(
            f"`{test}` has {len(found):,} lines and `{gold}` has {len(lines):,}",
            hint="line n of the one is compared with line n of the other: both need as many lines",
        )
    wanted = [_reference(line, f"{gold}:{number}") for number, line in enumerate(lines, start=1)]
    return _scores([of_line(line) for line in found], wanted, chosen)


def _reference(line: str, where: str) -> Bracketing:
    found = of_line(line)
    if found is None:
        raise ZooError(
            f"{shown(line)} is no bracketed tree", where=where, hint="write a tree as `(NP (DT the) (NN dog))`"
        )
    return found


def _scores(
    outputs: Sequence[Bracketing | None],
    references: Sequence[Bracketing],
    parameters: Parameters,
    *,
    own_tags: bool = True,
) -> BracketScores:
    if len(outputs) != len(references):
        raise ZooError(
            f"there are {len(outputs):,} trees and {len(references):,} references",
            hint="tree n is compared with reference n: there must be as many",
        )
    if not references:
        raise ZooError("there is nothing to score: no tree and no reference")
    tags = {tag for output in outputs if output is not None for tag in output.tags}
    tagged = own_tags and tags != {XX}
    rows = [
        row(output, reference, parameters, tagged=tagged) for output, reference in zip(outputs, references, strict=True)
    ]
    every = _summary(rows)
    scores = BracketScores(
        **{field.name: getattr(every, field.name) for field in fields(Summary)},
        cutoff=parameters.cutoff,
        short=_summary([each for each in rows if each.length <= parameters.cutoff]),
        signature=f"evalb:{parameters.name}|tags:{'test' if tagged else 'reference'}|cutoff:{parameters.cutoff}",
        rows=tuple(rows),
    )
    _check_errors(scores, parameters)
    return scores


def _check_errors(scores: BracketScores, parameters: Parameters) -> None:
    """EVALB stops at the second error after MAX_ERROR, without a summary."""
    if parameters.max_error is None or scores.errors <= parameters.max_error + 1:
        return
    number, first = scores.failed[0]
    raise ZooError(
        f"{scores.errors:,} sentences are in error, more than `MAX_ERROR {parameters.max_error}` allows "
        f"({parameters.name}); the first is sentence {number:,}: {first.problem}",
        hint="compare trees over the same words, or raise `MAX_ERROR` in the parameter file",
    )


def _summary(rows: Sequence[Row]) -> Summary:
    valid = [each for each in rows if each.status == VALID]
    matched = sum(each.matched for each in valid)
    recall = points(matched, sum(each.gold for each in valid))
    precision = points(matched, sum(each.test for each in valid))
    tags = [each.tags for each in rows if each.tags is not None]
    return Summary(
        sentences=len(rows),
        errors=sum(each.status == ERROR for each in rows),
        skipped=sum(each.status == SKIPPED for each in rows),
        recall=recall,
        precision=precision,
        f1=2 * recall * precision / (recall + precision) if matched else 0.0,
        complete_match=points(sum(each.matched == each.gold == each.test for each in valid), len(valid)),
        crossing=sum(each.crossing for each in valid) / len(valid) if valid else 0.0,
        no_crossing=points(sum(not each.crossing for each in valid), len(valid)),
        two_or_less=points(sum(each.crossing <= 2 for each in valid), len(valid)),
        tagging=points(sum(tags), sum(each.words for each in valid)) if tags else None,
    )
