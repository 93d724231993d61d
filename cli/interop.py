"""`zoo import` and `zoo export`: convert models from and to the formats of other toolkits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument, flag, option
from specs import ZooError

if TYPE_CHECKING:
    from zoo.interop.formats import PositionConvention

_SOURCE = argument("SOURCE", "File or folder of the model, or hf:ORG/NAME for a model on the Hugging Face Hub.")
_NAME = option(
    "NAME",
    "Name of the model in the local model store. Other commands find it by this name. Letters, digits and the "
    "characters `-`, `_`, `.` and `,` are permitted.",
    shown="the name of the file or folder",
)
_FORMAT = option(
    "hf-marian|hf-multilingual|hf-t5|marian|ctranslate2|fairseq",
    "Format of the files to import.",
    "--format",
    shown="detected from the files",
)
_LANGUAGES = option(
    "SOURCE TARGET", "Source and target language, as codes such as en de.", shown="as the files specify"
)
_POSITIONS = option(
    "marian|transformers",
    "Toolkit that trained a Hugging Face Marian model. Marian and transformers compute sinusoidal positional "
    "encodings slightly differently. OPUS-MT models were trained with Marian.",
    shown="marian",
)
_CHECK = option(
    "FILE",
    "Also translate the sentences in this file, one per line, with the original toolkit, and compare the translations.",
)


def import_model(
    source: Annotated[str, _SOURCE],
    name: Annotated[str | None, _NAME] = None,
    format: Annotated[str | None, _FORMAT] = None,
    languages: Annotated[tuple[str, str] | None, _LANGUAGES] = None,
    positions: Annotated[str | None, _POSITIONS] = None,
    check: Annotated[Path | None, _CHECK] = None,
    replace: Annotated[bool, flag("Replace a stored model of the same name.", "--replace")] = False,
) -> None:
    """Convert another toolkit's model to a bundle in the local model store.

    The bundle can be used like a model trained with zoo: translate with its name, publish it to a registry, or continue
    its training with `training.start_from`. Its spec contains the decoding settings of the original model. A model with
    features that a spec cannot express is refused.

    With --check, the original toolkit (pymarian, transformers or ctranslate2, which must be installed) also translates.
    The report contains the number of identical translations, the differences of log-probabilities, and both speeds.
    Translations are not compared for Marian's pre-norm models with self-attention in the decoder, because Marian itself
    computes such models differently in search and in training.

    Examples:
        zoo import model.npz --name my-model
        zoo import model.deen.intgemm.alphas.bin --languages de en
        zoo import ./opus-mt-en-de --check sentences.en
        zoo import hf:Helsinki-NLP/opus-mt-en-de
    """
    from cli.console import report
    from zoo.interop.importer import ImportOptions, import_model

    messages = report()
    known: dict[str | None, PositionConvention | None] = {
        None: None,
        "marian": "marian",
        "transformers": "transformers",
    }
    if positions not in known:
        problem = f"`--positions` must be `marian` or `transformers`, not `{positions}`"
        raise ZooError(problem, hint="leave `--positions` out for OPUS-MT models")
    wanted = ImportOptions(
        name=name, format=format, languages=languages, positions=known[positions], check=check, replace=replace
    )
    result = import_model(source, wanted, messages)
    if result.comparison:
        messages.info(result.comparison.summary)
    print(result.folder)
    messages.info(f"next: zoo decode --model {result.folder.name}")


def export_model(
    name: Annotated[str, argument("NAME", "Published model: its name or folder.", complete=options.complete_model)],
    to: Annotated[str, option("hf-marian|hf-multilingual|hf-t5|ctranslate2|onnx", "Format to write.", "--to")],
    output: Annotated[Path, option("FOLDER", "New folder to write.", "--output", "-o")],
) -> None:
    """Convert a published model to the format of another toolkit.

    The written files are read again and compared tensor by tensor. If the other toolkit is installed, it must also
    reproduce the model's reference log-probabilities (for ONNX, those of the compiler's interpreter on random tokens).
    If a check fails, nothing is written. A model with features that the format cannot express is refused.

    Examples:
        zoo export transformer-tiny-ende --to ctranslate2 -o tiny.ct2
        zoo export my-model --to hf-marian -o my-model.hf
        zoo export my-model --to onnx -o my-model.onnx
    """
    from cli.console import report
    from zoo.interop.exporter import export_model

    messages = report()
    exported = export_model(name, to, output, messages)
    if exported.check is None:
        messages.info(
            "the written tensors are correct; the other toolkit is not installed, so it has not run the model"
        )
    else:
        check = exported.check
        messages.info(f"checked: {check.engine} differs from {check.reference} by at most {check.difference:.1g}")
    print(exported.folder)
