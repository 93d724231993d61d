"""Commands that list specs and models, and print the fields of a spec and its costs."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument, option

if TYPE_CHECKING:
    from specs import Architecture
    from zoo.planning.plan import GraphSizes, PassEffect, Plan
    from zoo.publishing.inventory import Inventory, PublishedModel, RunSummary
    from zoo.report import Table


def list_models(
    pattern: Annotated[str | None, argument()] = None,
    published: bool = False,
    available: bool = False,
    json: options.Json = False,
) -> None:
    """List runs, published models and shipped specs, with their scores.

    With --available, list the catalogue of public models. If you pass the name of a public model to a command or to
    `zoo.load`, the model is downloaded, imported and stored. For a language pair, the recommended model comes
    first: models for only this pair are listed before multilingual models, and smaller models before larger models.

    Options:
        pattern PATTERN: List only names that contain this text, or match a pattern such as `*-ende`. With --available,
            a language pair such as de-fr lists the models for this pair. [default: everything]
        published: List only published models, from the local model store and the registries.
        available: List the public models that `zoo pull` can download from their authors, by language pair.

    Examples:
        zoo list
        zoo list big
        zoo list 'table3/*' --json
        zoo list --published
        zoo list --available de-fr
    """
    from cli.console import report, show_json, show_tables
    from zoo.publishing.inventory import inventory, public_models

    if available:
        options.refuse_beside("--available", published=published)
        return _list_available(pattern, json)
    if published:
        return _list_published(pattern, json)
    found = inventory(pattern, report())
    if json:
        return show_json(asdict(found))
    tables = list(_tables(found))
    show_tables(*tables)
    if not tables:
        report().info(f"nothing matches `{pattern}`")
    if public := len(public_models(pattern)):
        command = f"zoo list --available{'' if pattern is None else f' {quote(pattern)}'}"
        report().info(f"public models: `{command}` lists {public:,}")
    return None


def _tables(found: Inventory) -> Iterator[Table]:
    """Yield each table that is not empty."""
    from zoo.report import Table

    if found.runs:
        before = {"run": "folder", "parameters>": "parameters", "step>": "step", "of>": "steps"}
        yield _score_table(found.runs, before, {"weights": "weights", "name…": "name"}, "Runs")
    if found.models:
        after = {"from": "origin", "licence": "licence", "description…": "description"}
        yield _score_table(found.models, {"model": "name", "parameters>": "parameters"}, after, "Published")
    if found.specs:
        spec_rows = [(spec.short_name, f"{spec.parameters:,}", spec.description) for spec in found.specs]
        yield Table(("spec", "parameters>", "description…"), spec_rows, "Specs")


def _list_published(pattern: str | None, json: bool) -> None:
    from cli.console import report, show_json, show_tables
    from zoo.publishing.inventory import published_models

    models = published_models(pattern, report())
    if json:
        return show_json([asdict(model) for model in models])
    if not models:
        return report().info("no model is published" if pattern is None else f"nothing matches `{pattern}`")
    before = {"model": "name", "revision>": "revision", "parameters>": "parameters"}
    after = {"location": "location", "licence": "licence", "description…": "description"}
    return show_tables(_score_table(models, before, after))


def _list_available(pattern: str | None, json: bool) -> None:
    from cli.console import report, show_json, show_tables
    from specs import suggest
    from zoo.models import catalogue
    from zoo.publishing.inventory import public_models
    from zoo.report import Table, size

    models = public_models(pattern)
    if json:
        return show_json([asdict(model) for model in models])
    if not models:
        guess = suggest(pattern or "", catalogue.names())
        hint = f"{guess}write a language pair as two codes, such as `de-fr`, or a part of a name, such as `opus-mt`"
        return report().info(f"nothing in the catalogue matches `{pattern}`: {hint}")
    rows = []
    for model in models:
        download = None if model.bytes is None else size(model.bytes)
        facts = _cells(model.name, download, model.parameters, model.licence, model.stored, model.texts)
        rows.append([model.languages, *facts, model.description])
    columns = ("languages", "model", "download>", "parameters>", "licence", "stored from", "texts", "description…")
    show_tables(Table(columns, rows))
    has_patterns = any("{source}" in model.name for model in models)
    languages = "; in a name, write languages for {source} and {target}" if has_patterns else ""
    return report().info(f"run `zoo pull MODEL` to download a model{languages}")


def _cells(*values: str | int | None) -> list[str]:
    """Format table cells: numbers with commas, and missing values as `-`."""
    return [f"{value:,}" if isinstance(value, int) else value or "-" for value in values]


def _score_table(
    models: Sequence[RunSummary | PublishedModel], before: Mapping[str, str], after: Mapping[str, str], title: str = ""
) -> Table:
    """Return a table of models with their dev and test scores.

    Args:
        models: The models or runs.
        before: Columns before the scores, as a mapping from headings to attributes of a model.
        after: Columns after the scores, in the same form.
        title: Title of the table.
    """
    from zoo.evaluation.metrics import METRICS
    from zoo.report import Table

    used = {model.metric for model in models}
    metrics = [metric for metric in METRICS if metric.name in used]
    columns = [f"{split} {metric.title}>" for metric in metrics for split in ("dev", "test")]
    rows = []
    for model in models:
        scores = [
            metric.format_score(score if metric.name == model.metric else None)
            for metric in metrics
            for score in (model.dev, model.test)
        ]
        first, last = ([getattr(model, name) for name in names.values()] for names in (before, after))
        rows.append([*_cells(*first, *scores, *last[:-1]), last[-1]])
    return Table([*before, *columns, *after], rows, title)


def show(
    spec: options.Reference,
    overrides: options.Overrides = None,
    difference: bool = False,
    json: options.Json = False,
) -> None:
    """Print a spec with all its fields, or only the fields that differ from the spec that it extends.

    With --difference, the output also includes the comments at the beginning of the spec's file and on these fields.
    Without --difference, the output contains d_k and d_v as numbers. If you save the output and then change h or
    d_model, also write `d_k: null` and `d_v: null`, so that both are d_model / h again.

    Options:
        difference: Print only the fields that differ from the parent spec (`extends`).

    Examples:
        zoo show big --difference
        zoo show table3/a-h1
        zoo show base architecture.h=4 > mine.yaml
    """
    import specs
    from cli.console import report, show_json
    from zoo.report import escape_control_characters

    chosen = specs.load(spec, overrides or ())
    if not difference:
        if json:
            return show_json(chosen.model_dump(mode="json"))
        return print(escape_control_characters(chosen.yaml()), end="")
    parent, without_overrides = specs.parent(spec), specs.load(spec)
    changes = specs.difference(chosen, parent or without_overrides)
    own_changes = specs.difference(without_overrides, parent) if parent else {}
    # A comment explains the value in the file, so it is omitted if an override replaces that value.
    reasons = {
        key: text for key, text in specs.comments(spec).items() if parent and changes.get(key) == own_changes.get(key)
    }
    if json:
        values = {key: {"parent": old, "spec": new} for key, (old, new) in changes.items()}
        for key in values.keys() & reasons.keys():
            values[key]["why"] = reasons[key]
        return show_json(values)
    for key, (old, new) in changes.items():
        reason = f"  # {reasons[key]}" if key in reasons else ""
        print(escape_control_characters(f"{key}: {_format_value(old)} -> {_format_value(new)}{reason}"))
    if "" in reasons:
        print(escape_control_characters(f"# {reasons['']}"))
    return None if changes else report().info(f"`{spec}` changes nothing")


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)


def schema() -> None:
    """Print the JSON Schema of spec files. Editors use it to complete and check fields.

    Examples:
        zoo schema > schema.json
    """
    import specs

    print(json_module.dumps(specs.schema(), indent=2, ensure_ascii=False))


def plan(
    spec: options.Reference,
    overrides: options.Overrides = None,
    passes: bool = False,
    code: bool = False,
    graph: Path | None = None,
    length: Annotated[int | None, option(min=1, max=10_000)] = None,
    json: options.Json = False,
) -> None:
    """Print the layers, parameters, FLOPs and memory of a model before anything runs.

    FLOPs count matrix products only, and a multiply-add counts as two. Sizes in bytes assume float32 weights. With
    --passes, weights have the precision that the spec sets for translation.

    Options:
        passes: Print only what each compiler pass changes.
        code: Print only the generated PyTorch code.
        graph FILE.dot: Instead of printing the plan, write the graph of the network to this file, in Graphviz's DOT
            format. To draw it, run `dot -Tsvg FILE.dot -o FILE.svg`.
        length N: Number of tokens in each source and target sentence. FLOPs and memory depend on this length.
            [default: 27]

    Examples:
        zoo plan big
        zoo plan base architecture.N=12 --length 60
        zoo plan tiny --code > tiny.py
        zoo plan base compilation.precision=int8 --passes
        zoo plan table3/e-learned --graph network.dot
    """
    import specs
    from cli.console import report, show_json
    from zoo.planning import plan as planning
    from zoo.planning.memory_estimate import LENGTH

    chosen = specs.load(spec, overrides or ())
    if graph is not None:
        options.refuse_beside("--graph", code=code, passes=passes, length=length, json=json)
        from zoo.files.output import open_output
        from zoo.visualization.graphviz import graphviz

        if graph.suffix.lower() not in (".dot", ".gv"):
            name = graph.stem or "network"
            draw = f"the output is in Graphviz's format, and `dot -Tsvg {name}.dot -o {name}.svg` draws it"
            raise specs.ZooError(f"`{graph}` does not end in .dot or .gv", hint=f"name the file `{name}.dot`: {draw}")
        with open_output(graph) as file:
            file.write(graphviz(chosen))
        return print(graph)
    if code:
        options.refuse_beside("--code", passes=passes, length=length, json=json)
        return print(planning.code(chosen), end="")
    length = length or LENGTH
    effects = planning.pass_effects(chosen, length) if json or passes else ()
    if passes and not json:
        return _show_passes(effects, f"{chosen.name}, sentences of {length} tokens, beam {chosen.decoding.beam}")
    costs = planning.plan(chosen, length)
    if json:
        return show_json({**asdict(costs), "passes": [asdict(effect) for effect in effects]})
    _show_layers(costs, chosen.architecture)
    _warn_about_memory(costs)
    for part in chosen.corpus.parts:
        if isinstance(part, specs.Synthetic):
            report().info(f"before training, {part.summary}")
    if warning := chosen.training.describe_short_training(chosen.training.steps):
        report().warn(warning)
    return None


def _warn_about_memory(plan: Plan) -> None:
    from cli.console import report
    from zoo.report import size
    from zoo.system.memory import machine_memory

    available = machine_memory()
    for purpose, needed in (("the weights need", plan.weight_bytes), ("training needs", plan.state_bytes)):
        if needed > available:
            report().warn(f"{purpose} {size(needed)} of memory, but this machine has {size(available)}")


def _show_passes(effects: Sequence[PassEffect], title: str) -> None:
    from cli.console import show_tables
    from zoo.report import Table

    columns = ("pass", "operations>", "FLOPs per sentence>", "weights>", "traffic per step>", "training keeps>")
    rows = [("as in the paper", *_format_sizes(each.before), "", "") for each in effects[:1]]
    for each in effects:
        sizes = zip(_format_sizes(each.before), _format_sizes(each.after), strict=True)
        changes = ["·" if new == old else f"{old} → {new}" for old, new in sizes]
        rows.append((each.name, *changes, "exact" if each.exact else "approximate", each.summary))
    show_tables(Table((*columns, "", "…"), rows, title))


def _format_sizes(sizes: GraphSizes) -> tuple[str, ...]:
    from zoo.report import size

    memory = (size(sizes.weight_bytes), size(sizes.step_bytes), size(sizes.activation_bytes))
    return f"{sizes.operations:,}", f"{sizes.flops / 1e6:,.0f} M", *memory


def _show_layers(plan: Plan, architecture: Architecture) -> None:
    from cli.console import show_tables
    from zoo.report import Table

    layers = [
        (layer.name, layer.shape, f"{layer.parameters:,}", f"{layer.flops_per_token:,.0f}", layer.flops)
        for layer in plan.layers
    ]
    layers.append(("total", "", f"{plan.parameters:,}", f"{plan.flops_per_token:,.0f}", plan.flops))
    columns = ("layer", "output", "parameters>", "FLOPs/token>", "FLOPs…")
    sizes = ", ".join(f"{name} = {getattr(architecture, name)}" for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v"))
    title = f"{plan.name}, sentences of {plan.length} tokens"
    show_tables(Table(columns, layers, title), Table(("", ">", "…"), [("architecture", "", sizes), *_totals(plan)]))


def _totals(plan: Plan) -> list[tuple[str, str, str]]:
    from zoo.report import size

    return [
        ("parameters", f"{plan.parameters:,}", f"{plan.program_parameters:,} in the program, after all passes"),
        ("FLOPs per target token", f"{plan.flops_per_token:,.0f}", "forward pass, including the encoder"),
        ("FLOPs per training step", f"{plan.step_flops:.3g}", "forward and backward pass of a full batch"),
        *_path_lengths(plan),
        ("weights", size(plan.weight_bytes), "in memory and in the file"),
        ("training state", size(plan.state_bytes), "weights, gradients and Adam's moments, in memory"),
        ("activations", size(plan.activation_bytes), "in memory, approximately, per accumulation step of a full batch"),
        ("cache", size(plan.cache_bytes), "in memory, per hypothesis when translating"),
        ("run", size(plan.disk_bytes), "maximum size of checkpoints and weights on disk"),
    ]


def _path_lengths(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield table rows with the sequential operations and path lengths of the encoder and the decoder, as in Table 1.

    Each row has a label, a number and an explanation.
    """
    for positions in plan.positions:
        explanation = f"in a layer of the {positions.stack}: longest chain of operations over {plan.length} positions"
        yield "sequential steps", f"{positions.steps:,}", explanation
        if positions.path is not None:
            yield "path length", f"{positions.path:,}", f"between the most distant positions of the {positions.stack}"
        else:
            explanation = f"in the {positions.stack}, whose layers connect positions up to {positions.reach:,} apart"
            yield "path length", "none", explanation
