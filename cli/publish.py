"""`zoo publish`, `zoo pull` and `zoo verify`: publish, download and verify models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli import options
from specs import ZooError

PUBLISH_EXAMPLES = (
    "zoo publish tiny\n\nzoo publish runs/second --name my-model"
    "\n\nzoo publish table3/a-h1 && zoo verify transformer-table3-a-h1-ende"
    "\n\nzoo publish tiny --to s3://our-models/zoo"
)
PULL_EXAMPLES = (
    "zoo pull transformer-big-ende\n\nzoo pull transformer-big-ende@2 && zoo decode --model transformer-big-ende@2"
    "\n\nZOO_REGISTRIES=https://models.example.org zoo pull transformer-big-ende"
)
VERIFY_EXAMPLES = "zoo verify transformer-tiny-ende\n\nzoo verify ./bundle --backend auto"

_RunOrName = Annotated[
    str,
    typer.Argument(
        metavar="RUN|NAME",
        show_default=False,
        autocompletion=options.complete_model_or_run,
        help="Run: its folder, or the name of its spec (`tiny` stands for `runs/tiny`). With --to, it can also be the "
        "NAME of a published model.",
    ),
]
_Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default="the name in the spec",
        help="Name under which others load the published model. Letters, digits and the characters `-`, `_`, `.` "
        "and `,` are permitted.",
    ),
]
_To = Annotated[
    str | None,
    typer.Option(
        metavar="REGISTRY",
        show_default="only the local model store",
        help="Also publish to this registry: a folder, s3://BUCKET/..., or hf://ORG/NAME.",
    ),
]
_Alias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help="Old name of a renamed model. In the registry it becomes an alias: pulling it gives this model and a "
        "warning. Requires --to.",
    ),
]
_Text = Annotated[
    bool | None,
    typer.Option(
        "--text/--no-text",
        show_default="--text if the whole corpus is the built-in grammar",
        help="Whether to include sentences of the dev and test sets in the bundle. Check their licence first.",
    ),
]
_Notes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default=False,
        help="Markdown file whose text the model card contains, such as the limits of the model and further scores. "
        "Headings start with ##.",
    ),
]


def publish(
    run: _RunOrName,
    name: _Name = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a published model of the same name that comes from another run.")
    ] = False,
    to: _To = None,
    alias: _Alias = None,
    text: _Text = None,
    notes: _Notes = None,
) -> None:
    """Publish a run as a bundle in the local model store, and optionally in a registry.

    The local model store is in your data folder, which ZOO_HOME sets. The bundle contains the spec, weights,
    vocabulary, scores, a record of the training, a model card and the hash of each file. It also contains reference
    log-probabilities of a few sentences, which the model must reproduce. With --text, these sentences are from the dev
    set, and the bundle contains reference outputs for a sample of the test set, whose score `zoo verify` reproduces.

    The bundle is verified before it is published. It replaces a bundle of the same training run that was published
    earlier. To replace another model of the same name, use --replace.

    With --to, the bundle becomes the next revision of its name in the registry. The upload is atomic and safe with
    concurrent uploads, and a revision never changes. Others pull the newest revision, or one that they name.
    """
    from cli.console import report
    from zoo.files.reading import read_bytes
    from zoo.models.find import published_model
    from zoo.models.folder import ModelFolder
    from zoo.publishing.publish import publish
    from zoo.publishing.upload import is_published_model, require_registry, upload

    messages = report()
    if alias is not None and to is None:
        raise ZooError("`--alias` needs `--to`", hint="add `--to REGISTRY`, the registry that stores the alias")
    if to is not None:
        require_registry(to, alias)
    if to is not None and name is None and is_published_model(run):
        given = {"--replace": replace, "--text": text, "--no-text": text is False, "--notes": notes}
        if option := next((option for option, value in given.items() if value), None):
            problem = f"`{option}` applies to runs only, but `{run}` is a published model"
            raise ZooError(problem, hint=f"leave `{option}` out, or give the run instead of the published model")
        folder = published_model(run, messages)
    else:
        written = "" if notes is None else read_bytes(notes).decode("utf-8", "replace")
        folder = publish(run, name=name, replace=replace, with_text=text, notes=written, report=messages)
    print(folder)
    if to is None:
        messages.info(f"next: zoo {ModelFolder(folder).spec.task.command} --model {folder.name}")
    else:
        uploaded = upload(folder, to, alias=alias, report=messages)
        print(f"{uploaded.pin} sha256:{uploaded.digest}")


def pull(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            show_default=False,
            autocompletion=options.complete_model,
            help="Published model. NAME@2 or NAME@sha256:... selects a revision. By default, the newest is pulled.",
        ),
    ],
) -> None:
    """Download published models from the registries to the local model store.

    The registries are those in ZOO_REGISTRIES (folders, https://, s3:// or hf://, separated by spaces) and then those
    in registries.txt in your data folder, one per line. Files are verified by their hashes, and a model is available
    when it is complete. An interrupted pull resumes. Models that are already stored are verified and, if damaged,
    repaired.

    Commands and `zoo.load` pull a missing model automatically, unless ZOO_OFFLINE=1. They never update a stored model.
    """
    from cli.console import report
    from zoo.models.find import pull_model

    messages = report()
    for name in names:
        try:
            print(pull_model(name, messages))
        except KeyboardInterrupt:
            messages.info("\nthe downloaded part is kept: run the same command again to resume")
            raise


def verify(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|DIR",
            show_default=False,
            autocompletion=options.complete_model,
            help="Published model: its name (`zoo list` prints them) or folder.",
        ),
    ],
    backend: Annotated[
        str | None,
        typer.Option(
            callback=options.check_backend,
            autocompletion=options.complete_backend,
            metavar="NAME",
            show_default="eager on the CPU",
            help="Backend that runs the model: auto, or one that `zoo doctor` lists. With this option, the model runs "
            "on a GPU if there is one.",
        ),
    ] = None,
) -> None:
    """Verify the files, log-probabilities and score of a published model.

    All files must have their published hashes. The log-probabilities of the model's reference sentences must be the
    published ones, within 1e-4. Models that were published with --text also contain a sample of the test set; its score
    must be the published one, within one point.
    """
    from cli.console import report
    from zoo.publishing.publish import verify

    result = verify(name, backend=backend, report=report())
    print(f"{name}: {result.files} files have the published hashes")
    by = f" by {result.backend}" if backend else ""
    print(
        f"{result.sentences} sentences have the published log-probabilities{by}; largest difference "
        f"{result.max_difference:.1g}"
    )
    if sample := result.reference_outputs:
        scores = f"{sample.metric} {sample.new_score:.2f}; published: {sample.published_score:.2f}"
        print(f"{sample.sentences} sentences of {sample.set} score {scores}; {sample.identical} outputs are identical")
    else:
        print("the model contains no sample of its test set, so no score was computed")
