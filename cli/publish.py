"""Commands that publish, verify, remove, import and export models, and `zoo clean`, which frees disk space."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cli import options
from cli.options import argument, field_option, option
from zoo.interop import FORMATS

if TYPE_CHECKING:
    from zoo.publishing.removal import RemovalPlan


def publish(
    run: Annotated[str, argument(complete=options.complete_model_or_run)],
    name: str | None = None,
    replace: bool = False,
    to: str | None = None,
    notes: Path | None = None,
) -> None:
    """Publish a run as a bundle in the local model store, and optionally in a registry.

    The local model store is in your data folder, which you can set with ZOO_HOME. The bundle contains the spec,
    weights, vocabulary, scores, a record of the training, a model card and the hash of each file. It also contains
    reference log-probabilities for a few sentences, which the model must reproduce.

    The bundle is verified before it is published. It replaces a published model of the same name only with --replace.

    With --to, the bundle becomes the next revision of the model in the registry. Uploads are atomic and may
    run concurrently. A revision never changes. Users pull the newest revision or, with NAME@2, revision 2.

    Options:
        run RUN|NAME: Folder of the run, or name of its spec (`tiny` stands for `runs/tiny`). With --to, the NAME of a
            published model is also permitted.
        name NAME: Name under which other users load the published model. Letters, digits and the characters `-`,
            `_`, `.` and `,` are permitted. [default: the name in the spec]
        replace: Replace a published model of the same name.
        to REGISTRY: Also publish to this registry: a folder, s3://BUCKET/..., or hf://ORG/NAME. [default: only the
            local model store]
        notes FILE: Markdown file to include in the model card. The file can describe, for example, the model's
            limitations and further scores. Its headings must start with ##.

    Examples:
        zoo publish tiny
        zoo publish runs/second --name my-model
        zoo publish table3/a-h1 && zoo verify transformer-table3-a-h1-ende
        zoo publish transformer-tiny-ende --to s3://our-models/zoo
    """
    from cli.console import report
    from zoo.files.reading import read_bytes
    from zoo.models.find import published_model
    from zoo.models.folder import ModelFolder
    from zoo.models.registries.registry import open_registry
    from zoo.publishing.publish import is_published_model, publish, upload

    messages = report()
    if to is not None:
        open_registry(to).require_writable()  # before the run is published
    if to is not None and name is None and is_published_model(run):
        options.refuse("runs", replace=replace, notes=notes)
        folder = published_model(run, messages)
    else:
        written = "" if notes is None else read_bytes(notes).decode("utf-8", "replace")
        folder = publish(run, name=name, replace=replace, notes=written, report=messages)
    print(folder)
    if to is None:
        messages.info(f"next: zoo {ModelFolder(folder).spec.task.command} --model {folder.name}")
    else:
        uploaded = upload(folder, to, report=messages)
        print(uploaded.pin)


def pull(names: Annotated[list[str], argument(complete=options.complete_model)], yes: bool = False) -> None:
    """Download published models from the registries, or public models from the catalogue, to the local model store.

    zoo first searches the registries in ZOO_REGISTRIES (folders, https://, s3:// or hf://, separated by spaces), then
    the registries in registries.txt in your data folder, one per line. Files are verified by their hashes, and a model
    becomes available when all its files are complete. An interrupted pull is resumed. If a model is already stored, its
    files are verified, and damaged files are downloaded again.

    If a model is not in any registry, it may be in the catalogue of public models (`zoo list --available`). After
    you confirm its size and licence, it is downloaded from its authors, imported as with `zoo import`, and stored.

    Commands and `zoo.load` pull a missing model automatically, unless ZOO_OFFLINE=1 is set. They never update a stored
    model.

    Options:
        names NAME: Published model, or public model from the catalogue. NAME@2 selects a revision. By default, the
            newest revision is pulled.
        yes: Download public models without asking for confirmation.

    Examples:
        zoo pull transformer-big-ende
        zoo pull opus-mt-de-fr --yes
        zoo pull transformer-big-ende@2 && zoo decode --model transformer-big-ende@2
        ZOO_REGISTRIES=https://models.example.org zoo pull transformer-big-ende
    """
    from cli.console import report
    from zoo.models.find import pull_model

    messages = report(yes=yes)
    for name in names:
        try:
            for folder in pull_model(name, messages):
                print(folder)
        except KeyboardInterrupt:
            messages.info("\nrun the same command again to resume the download")
            raise


def verify(
    name: Annotated[str, argument(complete=options.complete_model)],
    backend: Annotated[str | None, field_option("compilation.backend", shown="eager on the CPU")] = None,
) -> None:
    """Verify the files and log-probabilities of a published model.

    All files must match their published hashes. The log-probabilities of the model's reference sentences must match the
    published log-probabilities to within 1e-4.

    With --backend, the model runs on a GPU if there is one.

    Options:
        name NAME|DIR: Name or folder of a published model. `zoo list` prints the names.

    Examples:
        zoo verify transformer-tiny-ende
        zoo verify ./bundle --backend auto
    """
    from cli.console import report
    from zoo.publishing.publish import verify

    result = verify(name, backend=backend, report=report())
    print(f"{name}: {result.files} files have the published hashes")
    by = f" by {result.backend}" if backend else ""
    difference = f"largest difference {result.max_difference:.1g}"
    print(f"{result.sentences} sentences have the published log-probabilities{by}; {difference}")


def clean(
    what: Annotated[list[str] | None, argument(complete=options.complete_run)] = None,
    yes: options.Yes = False,
) -> None:
    """Remove caches and runs: show what would be removed, and ask for confirmation.

    The caches are compiled programs (`compiled`), prepared corpora (`prepared`), downloaded archives (`archives`), and
    incomplete downloads and imports of models (`pulls`). All caches are created again when they are needed.

    `synthetic` removes the training text that was generated by models. It can take hours to generate this text again.
    `runs` removes all runs under runs/, and their results are lost.

    The command never removes published models (use `zoo remove`), runs in training, prepared corpora in use, downloads
    in progress, or the targets of symbolic links.

    Options:
        what compiled|prepared|archives|pulls|synthetic|runs|RUN: What to remove. RUN is the folder of a run, or the
            name of its spec. [default: all except synthetic and runs]

    Examples:
        zoo clean
        zoo clean compiled prepared --yes
        zoo clean runs/second
    """
    from zoo.publishing.removal import plan_cleanup

    _remove(plan_cleanup(what or ()), yes=yes)


def remove(names: Annotated[list[str], argument(complete=options.complete_model)], yes: options.Yes = False) -> None:
    """Remove published models from the local model store: show them, and ask for confirmation.

    Models in registries are not affected, and `zoo pull` downloads them again.

    Options:
        names NAME: Model in the local model store. NAME removes all revisions of a model, or all members of an
            ensemble. NAME@2 removes one revision.

    Examples:
        zoo remove transformer-tiny-ende
        zoo remove transformer-tiny-ende@1 --yes
    """
    from zoo.publishing.removal import plan_model_removal

    _remove(plan_model_removal(names), yes=yes)


def _remove(plan: RemovalPlan, *, yes: bool) -> None:
    """Remove the files in `plan` after confirmation. Raise ZooError if stdin is not a terminal and `yes` is false."""
    from cli.console import confirm, report, show_tables
    from zoo.report import Table, size

    messages = report()
    for kept in plan.kept:
        messages.info(f"kept: {kept.path}: {kept.reason}")
    if not plan.removable:
        return messages.info("there is nothing to remove")
    rows = [(item.kind, size(item.bytes), str(item.path)) for item in plan.removable]
    show_tables(Table(("to remove", ">", "…"), [*rows, ("total", size(plan.bytes), "")]))
    if not yes and not confirm("remove all of this?", "nothing was removed"):
        return messages.info("nothing was removed")
    failed = plan.remove()
    for kept in failed:
        messages.info(f"kept: {kept.path}: {kept.reason}")
    return messages.info("removed the rest" if failed else f"removed {size(plan.bytes)}")


def import_model(
    source: str,
    name: str | None = None,
    format: Annotated[str | None, option(metavar="|".join(FORMATS["import"]))] = None,
    languages: tuple[str, str] | None = None,
    positions: Literal["marian", "transformers"] | None = None,
    tokenizer: Literal["moses", "space"] | None = None,
    bpe: Path | None = None,
    replace: bool = False,
) -> None:
    """Convert another toolkit's model to a bundle in the local model store.

    The bundle can be used like a model trained with zoo: translate with it, publish it to a registry, or continue its
    training with `training.start_from`. Its spec contains the original model's decoding settings. A model with
    features that a spec cannot express is rejected.

    Options:
        source SOURCE: File or folder of the model, or hf:ORG/NAME for a model on the Hugging Face Hub.
        name NAME: Name of the model in the local model store. Other commands find it by this name. Letters, digits and
            the characters `-`, `_`, `.` and `,` are permitted. [default: the name of the file or folder]
        format: Format of the files to import. [default: detected from the files]
        languages SOURCE TARGET: Source and target language, as codes such as en de. [default: as the files specify]
        positions marian|transformers: Toolkit that trained a Hugging Face Marian model. Marian and transformers compute
            sinusoidal positional encodings slightly differently. OPUS-MT models were trained with Marian. [default:
            marian, if the model scales embeddings as Marian does]
        tokenizer moses|space: Tokenizer of the model's training text, for a model without a SentencePiece model.
            With `moses`, raw text is tokenised and translations are detokenised. With `space`, your texts must already
            be tokenised. [default: as the files specify]
        bpe FILE: BPE codes from subword-nmt or fastBPE, which split words into subwords. [default: `bpecodes`, `code`,
            `bpe.codes`, or `source.bpe` and `target.bpe`, if these files are in the model's folder]
        replace: Replace a stored model of the same name.

    Examples:
        zoo import model.npz --name my-model
        zoo import model.deen.intgemm.alphas.bin --languages de en
        zoo import ./opus-mt-en-de
        zoo import hf:Helsinki-NLP/opus-mt-en-de
        zoo import ./wmt16.en-de.joined-dict.transformer --name transformer-big-ende
        zoo import model.npz --languages en de --tokenizer moses --bpe bpe.codes
    """
    from cli.console import report
    from zoo.interop.formats import ImportRequest
    from zoo.interop.importer import import_model
    from zoo.interop.text_rules import TextOptions

    messages = report()
    request = ImportRequest(name or "", languages, positions, text=TextOptions(tokenizer, bpe))
    folder = import_model(source, request, messages, format=format, replace=replace)
    print(folder)
    messages.info(f"next: zoo decode --model {folder.name}")


def export_model(
    name: Annotated[str, argument(complete=options.complete_model)],
    to: Annotated[str, option("--to", metavar="|".join(FORMATS["export"]))],
    output: Annotated[Path, option("--output", "-o")],
) -> None:
    """Convert a published model to the format of another toolkit.

    The written files are read again and compared with the model, tensor by tensor. If the other toolkit is installed,
    it must also reproduce the model's reference log-probabilities. With --to onnx, onnxruntime must instead reproduce
    the results of zoo's reference interpreter on random tokens. If a check fails, nothing is written. A model with
    features that the format cannot express is rejected.

    Options:
        name NAME: Name or folder of a published model.
        to: Format to write.
        output FOLDER: Folder to create.

    Examples:
        zoo export transformer-tiny-ende --to ctranslate2 -o tiny.ct2
        zoo export my-model --to hf-marian -o my-model.hf
        zoo export my-model --to onnx -o my-model.onnx
    """
    from cli.console import report
    from zoo.interop.exporter import export_model

    messages = report()
    check = export_model(name, to, output, messages)
    if check is None:
        messages.info("the written tensors are correct; the other toolkit is not installed, so it was not run")
    else:
        messages.info(f"checked: {check.engine} differs from {check.reference} by at most {check.difference:.1g}")
    print(output)
