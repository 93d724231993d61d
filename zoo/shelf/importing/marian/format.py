"""An .npz of Marian: read, and put together as ours."""

from __future__ import annotations

from pathlib import Path

from specs import UNK, Spec
from zoo.shelf.importing.imported import Engine, Imported, Wanted
from zoo.shelf.importing.joined import Joined
from zoo.shelf.importing.marian import vocabularies
from zoo.shelf.importing.marian.archive import archive
from zoo.shelf.importing.marian.decoder import SUFFIX, Decoder, decoder
from zoo.shelf.importing.marian.engine import PyMarian
from zoo.shelf.importing.marian.layers import embeddings, layers, rows
from zoo.shelf.importing.marian.options import architecture
from zoo.shelf.importing.spec import imported_spec


class Marian:
    """`zoo.shelf.importing.imported.Format`."""

    name = "marian"
    description = "Marian's .npz, or the folder of it with decoder.yml and .spm or .yml vocabularies"
    engine = "pymarian"

    def recognises(self, place: Path) -> bool:
        if place.is_dir():
            return any(place.glob(f"*{SUFFIX}")) or len(list(place.glob("*.npz"))) == 1
        return place.name.endswith((SUFFIX, ".npz"))

    def read(self, place: Path, wanted: Wanted) -> Imported:
        if place.suffix == ".npz":
            with archive(place):
                pass  # that it is damaged is told before what is missing beside it
        around = decoder(place)
        with archive(around.model) as within:
            options = within.options()
            section = architecture(options)
            pieces = vocabularies.read(around.vocabularies, rows(within, options))
            spec = self._spec(around, section, pieces, wanted)
            tensors = layers(within, options, spec.architecture)
            tensors.update(embeddings(within, options, spec.architecture, (pieces.source, pieces.target)))
            options.finish()
            within.finish()
        engine = str(options.any("version", "")).split(" ")[0]
        origin = {"format": self.name, "source": around.model.name, "engine": f"Marian {engine}".strip()}
        return Imported(
            spec, pieces.vocabulary, tensors, origin, (*around.notes, *pieces.notes, *_beside(around.model))
        )

    def open(self, place: Path, imported: Imported) -> Engine:
        return PyMarian(decoder(place), imported)

    def _spec(self, around: Decoder, section: dict[str, object], pieces: Joined, wanted: Wanted) -> Spec:
        barred = [*([UNK] if around.bars_unknown else []), *pieces.control]
        decoding = {**around.decoding, "barred": barred}
        said = f"Imported from Marian's {around.model.name}."
        return imported_spec(wanted, said, architecture=section, vocabulary=pieces.section, decoding=decoding)


def _beside(model: Path) -> list[str]:
    scripts = [name for name in ("preprocess.sh", "postprocess.sh") if model.with_name(name).is_file()]
    return [f"`{name}` is not run: text is given to the model as it is" for name in scripts]
