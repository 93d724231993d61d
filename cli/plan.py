"""`zoo plan`: what a spec costs, before anything runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.plan import Plan

EXAMPLES = "zoo plan big\n\nzoo plan base architecture.N=12 --length 60\n\nzoo plan tiny --code > tiny.py"


def command(
    spec: options.Reference,
    overrides: options.Overrides = None,
    code: Annotated[bool, typer.Option("--code", help="The PyTorch it becomes, and nothing else.")] = False,
    length: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Tokens of a sentence on either side, for figures that depend on it."),
    ] = 27,
    json: options.Json = False,
) -> None:
    """Layers, parameters, FLOPs and memory, before anything runs.

    FLOPs are those of matrix products, a multiply-add counted as two; memory is that of float32.
    """
    import specs
    from cli.console import show_json
    from zoo import plan as plans

    chosen = specs.load(spec, overrides or ())
    if code:
        return print(plans.code(chosen), end="")
    plan = plans.plan(chosen, length)
    return show_json(asdict(plan)) if json else _show(plan)


def _show(plan: Plan) -> None:
    from cli.console import show_table

    layers = [
        (layer.name, layer.shape, f"{layer.parameters:,}", f"{layer.flops_a_token:,.0f}", layer.flops)
        for layer in plan.layers
    ]
    show_table(
        ("layer", "gives", "parameters>", "FLOPs/token>", "FLOPs…"),
        [*layers, ("all", "", f"{plan.parameters:,}", f"{plan.flops_a_token:,.0f}", plan.flops)],
        title=f"{plan.name}, sentences of {plan.length} tokens",
    )
    print()
    passes = [(p.name, f"{p.operations:+,}", f"{p.parameters:+,}", p.summary) for p in plan.passes]
    show_table(("pass", "operations>", "parameters>", "what it does…"), passes)
    print()
    show_table(("", ">", "…"), _totals(plan))


def _totals(plan: Plan) -> list[tuple[str, str, str]]:
    from zoo.report import size

    return [
        ("parameters", f"{plan.parameters:,}", f"{plan.program_parameters:,} in the program, after all passes"),
        ("FLOPs a target token", f"{plan.flops_a_token:,.0f}", "forward, encoder included"),
        ("FLOPs a training step", f"{plan.step_flops:.3g}", "forward and backward, of a full batch"),
        ("weights", size(plan.weight_bytes), "in memory, and the file"),
        ("training state", size(plan.state_bytes), "weights, gradients and Adam's moments, in memory"),
        ("activations", size(plan.activation_bytes), "about, for one part of a full batch in training, in memory"),
        ("cache", size(plan.cache_bytes), "a hypothesis when it translates, in memory"),
        ("run", size(plan.disk_bytes), "checkpoints and weights at their most, on disk"),
    ]
