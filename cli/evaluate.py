"""`zoo evaluate`, `zoo compare` and `zoo paper`: scores, the significance of differences, and the paper's claims."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from cli import options
from cli.options import argument, option
from specs import ZooError

if TYPE_CHECKING:
    from zoo.evaluation.comparison import Comparison


def evaluate(
    name: options.Name = None,
    spec: options.OfSpec = None,
    model: options.Models = None,
    set: options.Split = None,
    hypotheses: Annotated[Path | None, option(panel=options.FILES_PANEL)] = None,
    references: Annotated[Path | None, option(panel=options.FILES_PANEL)] = None,
    language: options.Language = None,
    tokenize: Annotated[Literal["13a", "intl", "char", "zh", "none"] | None, option(panel=options.FILES_PANEL)] = None,
    lowercase: Annotated[bool, option("--lowercase", panel=options.FILES_PANEL)] = False,
    transcripts: options.Transcripts = False,
    brackets: Annotated[tuple[Path, Path] | None, option(panel=options.FILES_PANEL)] = None,
    json: options.Json = False,
    **how: Unpack[options.Batching],
) -> None:
    """Score a model on its dev or test set, or score files.

    A model (MODEL, --model or --spec) translates the test set of its corpus, or the set that --set selects. Beam size
    and length penalty come from its spec. The scores are BLEU (sacreBLEU, with its signature), the paper's BLEU (Moses
    tokens, German compounds split), chrF, TER, and perplexity per token. A parser is scored by bracket F1 instead.
    Speech and text recognition is scored by word error rate (WER) and character error rate (CER).

    If a translation model is scored on its dev set, the confidence of its translations is also calibrated. The set must
    have at least 100 sentences. The calibration error is printed with the scores.

    If a run is scored in float32, the scores are stored in its scores.json and published with the run.

    With --hypotheses and --references, the translations in a text file are scored. With --transcripts, the files
    contain transcripts, which are scored by WER and CER. With --brackets, the trees in a file are scored as EVALB does
    with the parameters of COLLINS.prm.

    Options:
        hypotheses FILE: Score the translations in this file, one per line, instead of a model. Requires --references.
        references FILE: Reference translations, one per line.
        tokenize 13a|intl|char|zh|none: Tokeniser that sacreBLEU uses for BLEU. [default: 13a]
        lowercase: Ignore case in the scores.
        brackets GOLD TEST: Score the trees in the second file against the gold trees in the first, one per line, as
            EVALB does.

    Examples:
        zoo evaluate --spec tiny
        zoo evaluate --model transformer-big-ende --set dev --json
        zoo evaluate --hypotheses out.de --references test.de --tokenize intl
        zoo evaluate --brackets test.trees out.trees
    """
    from cli.console import report, show_json, show_tables
    from zoo.evaluation.evaluate import evaluate_files, evaluate_models
    from zoo.evaluation.metrics import table_rows
    from zoo.models.find import all_from_options
    from zoo.report import Table

    messages = report()
    scoring = {"language": language, "tokenize": tokenize, "lowercase": lowercase, "transcripts": transcripts}
    if (brackets, hypotheses, references) == (None, None, None):
        options.refuse("files", **scoring)
        hint = "to score a file, use `--hypotheses FILE --references FILE`"
        folders = all_from_options(spec, options.model_names(name, model, hint), messages)
        scores = evaluate_models(folders, set or "test", **how, report=messages)
    elif (name, spec, model) != (None, None, None):
        raise ZooError("a model and files to score cannot be used together", hint="to score files, omit the model")
    elif brackets is not None:
        options.refuse("models", set=set, **how)
        options.refuse("translations", hypotheses=hypotheses, references=references, **scoring)
        return _show_brackets(*brackets, json=json)
    elif hypotheses is not None and references is not None:
        options.refuse("models", set=set, **how)
        if transcripts:
            options.refuse("translations", language=language, tokenize=tokenize)
        scores = evaluate_files(
            hypotheses,
            references,
            language=language,
            tokenize=tokenize or "13a",
            lowercase=lowercase,
            transcripts=transcripts,
        )
    else:
        hint = "pass both files; to write a model's translations, run `zoo decode MODEL -i SOURCES -o FILE`"
        raise ZooError("`--hypotheses` and `--references` must be given together", hint=hint)
    if json:
        return show_json(scores)
    return show_tables(Table(("", "…"), list(table_rows(scores))))


def _show_brackets(gold: Path, test: Path, *, json: bool) -> None:
    from cli.console import report, show_json, show_tables
    from zoo.evaluation.evalb import evaluate_bracket_files
    from zoo.evaluation.metrics import table_rows
    from zoo.report import Table

    scores = evaluate_bracket_files(test, gold)
    if json:
        return show_json(asdict(scores))
    *rows, signature = table_rows(asdict(scores))
    rows += [
        ("sentences without words", f"{scores.skipped:,}"),
        ("sentences with errors", f"{scores.errors:,}"),
        ("crossing brackets per sentence", f"{scores.crossing:.2f}"),
        ("no crossing brackets", f"{scores.no_crossing:.2f}"),
        ("at most two crossing brackets", f"{scores.two_or_less:.2f}"),
        ("tagging accuracy", "-" if scores.tagging is None else f"{scores.tagging:.2f}"),
    ]
    show_tables(Table(("", "…"), [*rows, signature]))
    if excluded := scores.excluded:
        number, row = excluded[0]
        report().warn(
            f"{len(excluded):,} of {scores.sentences:,} sentences have errors or no words, so they are not scored, as "
            f"in EVALB; the first is sentence {number:,}: {row.problem} (punctuation and other tokens that EVALB "
            "ignores do not count as words)"
        )
    return None


def compare(
    a: Annotated[str, argument(complete=options.complete_model_or_run)],
    b: Annotated[str, argument(complete=options.complete_model_or_run)],
    set: options.Split = None,
    references: Annotated[Path | None, option(panel=options.FILES_PANEL)] = None,
    language: options.Language = None,
    transcripts: options.Transcripts = False,
    json: options.Json = False,
    **how: Unpack[options.Batching],
) -> None:
    """Compare two models, or two files of translations, and test whether one is significantly better.

    Both models translate the same set. Two files must contain translations of the same sentences. Scores are BLEU, the
    paper's BLEU, chrF and TER. With --transcripts, and for models that recognise speech or text, they are WER and CER.
    Significance is tested by paired bootstrap resampling (Koehn 2004): 1,000 sets of sentences are drawn with
    replacement, and both models or files are scored on each set.

    The table shows each score ± half its 95% confidence interval. p is the probability of a difference of at least
    this size if both were equally good. If p is 0.05 or more, neither A nor B is reported as better.

    Options:
        a A: First model (NAME or RUN), or first file of translations.
        b B: Second model, or second file of translations.
        references FILE: Compare two files of translations. This file contains the reference translations, one per line.

    Examples:
        zoo compare runs/tiny runs/tiny-2
        zoo compare ours.de theirs.de --references newstest2014.de --json
    """
    from cli.console import report, show_json
    from zoo.evaluation.comparison import compare_files, compare_models
    from zoo.models.find import model
    from zoo.report import amount

    messages = report()
    if references is not None:
        options.refuse("models", set=set, **how)
        compared = compare_files(Path(a), Path(b), references, language=language, transcripts=transcripts)
    else:
        options.refuse("files", language=language, transcripts=transcripts)
        for each in (a, b):
            options.model_names(each, hint="to compare two files, add `--references FILE`")
        models = model(a, messages), model(b, messages)
        split = set or "test"
        found = compare_models(*models, split, **how, report=messages)
        compared = found.comparisons
        messages.info(f"A is `{a}`, B is `{b}`; {amount(found.sentences, 'sentences')} in the {split} set")
        messages.info(f"the specs differ in {'; '.join(found.settings)}" if found.settings else "the specs are equal")
    if json:
        show_json([{**asdict(item), "difference": item.difference, "better": item.better} for item in compared])
    else:
        _show_comparison(compared)


def _show_comparison(compared: tuple[Comparison, ...]) -> None:
    from cli.console import show_tables
    from zoo.evaluation.metrics import get_metric
    from zoo.report import Table

    rows, notes = [], []
    for item in compared:
        scores = [f"{score:.2f} ± {half:.2f}" for score, half in zip(item.scores, item.confidence, strict=True)]
        name = get_metric(item.metric).title
        rows.append((name, *scores, f"{item.difference:+.2f}", f"{item.p:.3f}", item.better or "neither"))
        notes.append(f"{name}: {item.signature}")
        if "bleu" in item.metric and not any(item.scores):
            notes.append(f"{name} compares sequences of up to four tokens, so it is 0 if all sentences are shorter")
    show_tables(Table(("", "A>", "B>", "difference>", "p>", "better"), rows, notes=notes))


def paper(
    what: Annotated[Literal["table1", "table2", "table3", "table4", "claims"] | None, argument()] = None,
    runs: Path | None = None,
    html: Path | None = None,
    json: options.Json = False,
) -> None:
    """Print which of the paper's claims hold, and how each was checked.

    A claim can be derived (by the compiler, or from other numbers in the paper), set in our spec (such as Adam's
    beta1), measured (by our training runs, which may be smaller than the paper's), or not tested (the output gives the
    reason). Contradicted claims, and numbers that the paper cites from other systems, are counted separately.

    Options:
        what TABLE: Table to print: table1, table2, table3, table4, or claims. [default: a summary of all claims]
        runs DIR: Folder with the runs (or the sweep) to compare with the paper. [default: runs]
        html FILE.html: Write all tables and plots to this file, as one HTML page.

    Examples:
        zoo paper
        zoo paper table3 --runs runs/table3
        zoo paper claims --json > claims.json
        zoo paper --html paper.html
    """
    from cli.console import report, show_json, show_tables
    from zoo.files.output import open_output, require_extension
    from zoo.paper.claims import as_json, check_claims, summary
    from zoo.paper.page import paper_page
    from zoo.paper.runs import read_measurements
    from zoo.paper.tables import TABLES, contradiction_table, of_part, summary_table

    if html is not None and (what is not None or json):
        raise ZooError("`--html` always writes all tables", hint="omit TABLE and `--json`, or omit `--html`")
    if html is not None:
        require_extension(html, "html")
    measurements = read_measurements(runs, report())
    checked = check_claims(measurements)
    if html is not None:
        with open_output(html) as page:
            page.write(paper_page(checked, measurements))
        return print(html)
    if json:
        selected = of_part(what or "claims", checked)
        return show_json({"summary": summary(selected), "claims": [as_json(each) for each in selected]})
    if what is None:
        show_tables(summary_table(checked), contradiction_table(checked))
        return report().info("`zoo paper claims` prints every claim, `zoo paper table3` compares Table 3 with our runs")
    return show_tables(*TABLES[what](checked, measurements))
