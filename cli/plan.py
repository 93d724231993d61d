"""`zoo plan`: what a spec costs, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from specs import Spec
    from zoo.planning.plan import GraphSizes, Plan
    from zoo.planning.training_estimate import TrainingEstimate

EXAMPLES = (
    "zoo plan big\n\nzoo plan base architecture.N=12 --length 60\n\nzoo plan tiny --code > tiny.py"
    "\n\nzoo plan base compilation.precision=int8 --passes\n\nzoo plan table3/e-learned --graph figure-1.svg"
    "\n\nzoo plan base training.precision=bfloat16 --device cpu"
)


def command(
    spec: options.Reference,
    overrides: options.Overrides = None,
    passes: Annotated[bool, typer.Option("--passes", help="What each pass did, and nothing else.")] = False,
    code: Annotated[bool, typer.Option("--code", help="The PyTorch it becomes, and nothing else.")] = False,
    graph: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", show_default=False, help="Draw it as Figure 1 does, and nothing else."),
    ] = None,
    length: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=10_000, help="Tokens of a sentence on either side, for figures that depend on it."
        ),
    ] = 27,
    json: options.Json = False,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            show_default=False,
            help="Measure this one (auto, cpu, cuda, cuda:N), and forecast time and memory of the training there.",
        ),
    ] = None,
) -> None:
    """Layers, parameters, FLOPs and memory, before anything runs.

    FLOPs are those of matrix products, a multiply-add counted as two. Memory is that of float32, but with --passes that
    of the spec's precision.
    """
    import specs
    from cli.console import show_json
    from zoo.planning import plan as plans

    _require_one(passes=passes, code=code, graph=graph is not None, device=device is not None, json=json)
    chosen = specs.load(spec, overrides or ())
    if graph is not None:
        return print(plans.draw_to(chosen, graph, length))
    if code:
        return print(plans.code(chosen), end="")
    plan = plans.plan(chosen, length)
    estimate_training = _outlook(chosen, length, device) if device is not None else None
    if json:
        return show_json({**asdict(plan), **({"outlook": asdict(estimate_training)} if estimate_training else {})})
    if passes:
        return _show_passes(plan)
    _show(plan)
    _warn_of_memory(plan)
    return _show_outlook(estimate_training) if estimate_training else None


def _warn_of_memory(plan: Plan) -> None:
    from cli.console import report
    from zoo.report import size
    from zoo.system.memory import machine_memory

    there = machine_memory()
    for what, needed in (("the weights of this spec need", plan.weight_bytes), ("to train it takes", plan.state_bytes)):
        if needed > there:
            report().warn(f"{what} {size(needed)} of memory, and this machine has {size(there)}")


def _require_one(**wanted: bool) -> None:
    """Each shows something else, but `--json`, which has all that `--passes` and `--device` show."""
    from specs import ZooError

    given = [name for name, wish in wanted.items() if wish]
    if len(given) > 1 and not (wanted["json"] and not wanted["code"] and not wanted["graph"]):
        several = " and ".join(f"`--{name}`" for name in given)
        raise ZooError(f"{several} are given, and each shows something else", hint="ask for them one at a time")


def _outlook(spec: Spec, length: int, device: str) -> TrainingEstimate:
    from cli.console import report
    from zoo.planning.training_estimate import estimate_training

    return estimate_training(spec, length, device, report())


def _show_outlook(estimate_training: TrainingEstimate) -> None:
    from cli.console import show_table
    from zoo.report import duration, size
    from zoo.system.calibration import emulation_warning

    rows = [
        ("backend", estimate_training.backend, f"in {estimate_training.precision}"),
        ("matrix products", f"{estimate_training.flops / 1e9:,.0f} GFLOP/s", "a large one, measured"),
        ("copies", f"{estimate_training.bytes / 1e9:,.0f} GB/s", "read and written, measured"),
        ("a training step", f"{estimate_training.step_seconds:,.3g} s", "forecast, of a full batch"),
        ("training", duration(estimate_training.seconds), f"forecast, of {estimate_training.steps:,} steps"),
        (
            "memory",
            size(estimate_training.memory_bytes),
            f"forecast, at its most, of {size(estimate_training.device_bytes)}",
        ),
    ]
    if not estimate_training.fits:
        rows.append(("", "too much", "under torchrun processes share batches and, if need be, weights and moments"))
    if estimate_training.matrix_library is not None:
        rows.insert(2, ("float32 products", estimate_training.matrix_library, _libraries(estimate_training)))
        kept = "kept by the process" if estimate_training.keeps_memory else "given back to the system"
        rows.append(("freed memory", kept, "fresh pages cost time"))
    if estimate_training.slowdown is not None:
        rows.insert(1, ("bfloat16", "emulated", emulation_warning(estimate_training.slowdown)))
    print()
    show_table(("", ">", "…"), rows, title=f"training on {estimate_training.device}")


def _libraries(estimate_training: TrainingEstimate) -> str:
    measured = [f"{name} {seconds:.3g} s" for name, seconds in estimate_training.float32_seconds.items()]
    return f"measured with this spec: {', '.join(measured)}" if len(measured) > 1 else "the library that computes them"


def _show_passes(plan: Plan) -> None:
    from cli.console import show_table

    columns = ("pass", "operations>", "FLOPs a sentence>", "weights>", "a step moves>", "training keeps>", "", "…")
    first = plan.passes[0].before if plan.passes else None
    rows = [("as in the paper", *_amounts(first), "", "")] if first else []
    for each in plan.passes:
        changes = [
            f"{old} → {new}" if new != old else "·"
            for old, new in zip(_amounts(each.before), _amounts(each.after), strict=True)
        ]
        rows.append((each.name, *changes, "exact" if each.exact else "approximate", each.summary))
    show_table(columns, rows, title=f"{plan.name}, sentences of {plan.length} tokens, beam {plan.beam}")


def _amounts(sizes: GraphSizes) -> tuple[str, ...]:
    from zoo.report import size

    machine_memory = (size(sizes.weight_bytes), size(sizes.step_bytes), size(sizes.activation_bytes))
    return f"{sizes.operations:,}", f"{sizes.flops / 1e6:,.0f} M", *machine_memory


def _show(plan: Plan) -> None:
    from cli.console import show_table

    layers = [
        (layer.name, layer.shape, f"{layer.parameters:,}", f"{layer.flops_per_token:,.0f}", layer.flops)
        for layer in plan.layers
    ]
    show_table(
        ("layer", "gives", "parameters>", "FLOPs/token>", "FLOPs…"),
        [*layers, ("all", "", f"{plan.parameters:,}", f"{plan.flops_per_token:,.0f}", plan.flops)],
        title=f"{plan.name}, sentences of {plan.length} tokens",
    )
    print()
    show_table(("", ">", "…"), _totals(plan))


def _totals(plan: Plan) -> list[tuple[str, str, str]]:
    from zoo.report import size

    return [
        ("parameters", f"{plan.parameters:,}", f"{plan.program_parameters:,} in the program, after all passes"),
        ("FLOPs a target token", f"{plan.flops_per_token:,.0f}", "forward, encoder included"),
        ("FLOPs a training step", f"{plan.step_flops:.3g}", "forward and backward, of a full batch"),
        *_positions(plan),
        ("weights", size(plan.weight_bytes), "in memory, and the file"),
        ("training state", size(plan.state_bytes), "weights, gradients and Adam's moments, in memory"),
        ("activations", size(plan.activation_bytes), "about, for one part of a full batch in training, in memory"),
        ("cache", size(plan.cache_bytes), "a hypothesis when it translates, in memory"),
        ("run", size(plan.disk_bytes), "checkpoints and weights at their most, on disk"),
    ]


def _positions(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Table 1's last two columns, of each stack."""
    for each in plan.positions:
        chain = f"of a layer of the {each.stack}: its longest chain over {plan.length} positions"
        yield "sequential steps", f"{each.steps:,}", chain
        far = f"between the furthest positions of the {each.stack}"
        if each.path is None:
            far = f"in the {each.stack}: its layers connect positions up to {each.reach:,} apart"
        yield "path", "none" if each.path is None else f"{each.path:,}", far
