"""Fetch models from the catalogue: download, verify, import and check them, and store them under their names."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import zlib
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path

from specs import ZooError
from zoo.evaluation.text_metrics import text_metric
from zoo.files import archive, download, storage
from zoo.files.atomic import convert_disk_errors, remove_path
from zoo.files.locks import exclusive
from zoo.files.manifest import sha256
from zoo.generation.loading import open_model
from zoo.generation.translator import Translator
from zoo.interop.formats import ImportRequest
from zoo.interop.huggingface.hub import HubModel
from zoo.interop.importer import stage_import
from zoo.interop.text_rules import TextOptions
from zoo.models.catalogue import ModelCard
from zoo.models.local_store import StoredModel
from zoo.publishing.publish import EXACT
from zoo.report import Report, size

_MIN_SIMILARITY = 50.0
"""Minimum chrF of an imported model's translations, with the documented translations as references."""
_LISTED_DIFFERENCES = 3


def fetch(card: ModelCard, report: Report) -> None:
    """Download, import and store a model from the catalogue, unless it is already stored.

    If the user does not agree to the download, nothing is downloaded. If another process is fetching the same model,
    wait for it. The next call resumes an interrupted download.

    Args:
        card: The model's card in the catalogue. Its name must not be a pattern such as `opus-mt-{source}-{target}`.
        report: Receives progress and warnings, and asks the user whether to download the model.

    Raises:
        ZooError: The user does not agree, the model cannot be downloaded or imported, its SHA-256 is wrong, or its
            translations differ too much from the documented translations.
    """
    if not _missing(card):
        return
    _ask(card, report)
    work = storage.pulls() / f"{card.name}@catalogue"
    with convert_disk_errors(work), exclusive(work, report):
        if missing := _missing(card):
            remove_path(work)  # left by a call that was killed
            try:
                source = _obtain(card, work, report)
                _import(card, missing, source, report)
            finally:
                remove_path(work)
            _discard_downloads(card, report)  # not after an error, so that the next call need not download again


def _missing(card: ModelCard) -> list[str]:
    """Return the names in `card.members` that are not yet in the local model store."""
    return [name for name in card.members if not StoredModel.current(name).published]


def _ask(card: ModelCard, report: Report) -> None:
    """Report a model's size and licence, and ask whether to download it. Raise ZooError if the user does not agree."""
    command = f"zoo pull {card.name} --yes"
    bytes = size(card.bytes) if card.bytes else "unknown size"
    report.info(f"`{card.name}` is in the catalogue: {card.description}")
    if card.licence and card.licence != card.short_licence:
        report.info(f"licence: {card.licence}")
    about = f"{bytes}, licence: {card.short_licence or 'not documented'}"
    refused, hint = f"`{card.name}` was not downloaded", f"run `{command}` to download it ({about})"
    if report.ask and not report.ask(f"download it from {card.source} ({about})?", refused, hint):
        raise ZooError(refused, hint=hint)
    report.info(f"fetching {card.source} ({about})")


def _obtain(card: ModelCard, work: Path, report: Report) -> Path:
    """Download the files of a model, and return the folder that contains them. Unpack archives into `work`."""
    again = f"`zoo pull {card.name}`"
    if (model := HubModel.parse(card.source)) is not None:
        return _obtain_from_hub(card, model, again, report)
    work.mkdir(parents=True)
    for url in card.addresses:
        fetched = download.fetch(url, None if card.is_folder else card.sha256, report, again)
        try:
            if card.is_folder:
                _unpack_file(fetched.path, work / url.rpartition("/")[2])
            else:
                report.info(f"unpacking {fetched.path.name}")
                archive.extract_all(fetched.path, work)
        except archive.DamagedArchiveError as error:  # such as an error page in place of the file
            download.discard_damaged(url, fetched)
            raise ZooError(error.problem, hint=f"run {again} to download it again from {url}", exit_code=1) from None
    return work


def _obtain_from_hub(card: ModelCard, model: HubModel, again: str, report: Report) -> Path:
    """Return the folder that contains the files of a model from the Hugging Face Hub. Download missing files.

    If the card specifies no revision, the first call records the SHA-256 of the files, and later calls compare it.
    """
    by_hand = storage.archives() / model.name.replace("/", "--")
    otherwise = f"save the files of {model.page} in `{by_hand}` and run {again} again"
    folder = by_hand if by_hand.is_dir() else model.download(report, otherwise)
    if model.revision is None:
        files = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix not in (".md", ".lock"))
        digest = hashlib.sha256("".join(f"{sha256(file)} {file.name}\n" for file in files).encode()).hexdigest()
        download.record_or_compare(card.source, digest, sum(file.stat().st_size for file in files), "revision", report)
    return folder


def _unpack_file(path: Path, target: Path) -> None:
    """Copy a downloaded file to `target`. If `target` ends with `.gz`, decompress the file, and omit this suffix."""
    if target.suffix != ".gz":
        shutil.copyfile(path, target)
        return
    try:
        with archive.open_gzip(path) as packed, target.with_suffix("").open("wb") as file:
            shutil.copyfileobj(packed, file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise archive.DamagedArchiveError(f"`{path}` is not a .gz file, or it is damaged: {error}") from None


def _import(card: ModelCard, missing: Collection[str], source: Path, report: Report) -> None:
    """Import a single model, or the missing members of an ensemble. Store only models that translate as documented."""
    directions = card.languages.directions
    languages, text = directions[0] if len(directions) == 1 else None, TextOptions(card.tokenizer)
    with ExitStack() as staged:
        folders = []
        for number, name in enumerate(card.members):
            if name in missing:
                report.info(f"importing `{name}`")
                path, request = str(_model_path(card, number, source)), ImportRequest(name, languages, text=text)
                bundle = staged.enter_context(stage_import(path, request, report, format=card.format, card=card))
                folders.append(bundle.folder)
            else:
                folders.append(StoredModel.current(name).folder)
        if card.check:
            _require_translations(card, folders, report)


def _model_path(card: ModelCard, number: int, source: Path) -> Path:
    """Return the path to import for member `number` (from 0) of a model or ensemble.

    If the card lists checkpoints in an archive, this is the checkpoint `card.files[number]`. Otherwise, it is the
    folder with the model's files. `source` is the folder that `_obtain` returned.
    """
    inside = [path for path in source.iterdir() if not path.name.startswith(".")]  # macOS adds `._NAME` for each file
    folder = inside[0] if len(inside) == 1 and inside[0].is_dir() else source
    if not card.files or card.is_folder:
        return folder
    path = folder / card.files[number]
    if not path.is_file():
        problem = f"the card of `{card.name}` lists `{card.files[number]}`, but `{card.source}` has no such file"
        raise ZooError(problem, hint=f"copy the card to `{storage.home() / 'catalogue'}`, and correct its `files`")
    return path


def _require_translations(card: ModelCard, folders: Sequence[Path], report: Report) -> None:
    """Compare the translations of a model or an ensemble with the documented translations.

    Warn about differences. Raise ZooError if the chrF is below `_MIN_SIMILARITY`.
    """
    models = [open_model(folder, **EXACT, report=Report()) for folder in folders]
    translator = Translator.ensemble(models)
    outputs = []
    for each in card.check:
        source, _, target = (each.pair or "").partition("-")
        outputs.append(translator.translate(each.source, source=source or None, target=target or None))
    expected = [each.target for each in card.check]
    different = [pair for pair in zip(outputs, expected, strict=True) if pair[0] != pair[1]]
    similarity = text_metric("chrf").score(outputs, expected)
    described = "; ".join(f"`{ours}` instead of `{theirs}`" for ours, theirs in different[:_LISTED_DIFFERENCES])
    if similarity < _MIN_SIMILARITY:
        problem = f"`{card.name}` was not stored, because it does not translate as documented: {described}"
        hint = "please report this: the files or the import options in the card may be wrong"
        raise ZooError(problem, hint=hint, exit_code=1)
    if different:
        count = f"{len(different)} of {len(outputs)} documented translations"
        report.warn(f"`{card.name}` does not reproduce {count}: {described}")
    else:
        report.info(f"all {len(outputs)} documented translations are reproduced")


def _discard_downloads(card: ModelCard, report: Report) -> None:
    """Remove the downloaded files of an imported model. Keep their recorded SHA-256, to verify later downloads."""
    for url in card.addresses:
        path = download.path_of(url)
        if path.is_file():
            report.info(f"removing the download `{path}` ({size(path.stat().st_size)}), because the model is stored")
            path.unlink()
