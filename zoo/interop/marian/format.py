"""An .npz of Marian: read, and put together as ours."""

from __future__ import annotations

from pathlib import Path

from specs import UNK, Spec
from zoo.interop.imported import Engine, Imported, Wanted
from zoo.interop.joined import Joined
from zoo.interop.marian import vocabularies
from zoo.interop.marian.archive import archive
from zoo.interop.marian.decoder import SUFFIX, Decoder, decoder
from zoo.interop.marian.engine import PyMarian
from zoo.interop.marian.layers import embeddings, layers, rows
from zoo.interop.marian.options import architecture
from zoo.interop.spec import imported_spec


class Marian:
    """`zoo.interop.imported.Format`."""

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
            tokens = vocabularies.read(around.vocabularies, rows(within, options))
            spec = self._spec(around, section, tokens, wanted)
            tensors = layers(within, options, spec.architecture)
            tensors.update(embeddings(within, options, spec.architecture, (tokens.source, tokens.target)))
            options.finish()
            within.finish()
        engine = str(options.any("version", "")).split(" ")[0]
        origin = {"format": self.name, "source": around.model.name, "engine": f"Marian {engine}".strip()}
        return Imported(
            spec, tokens.vocabulary, tensors, origin, (*around.notes, *tokens.notes, *_beside(around.model))
        )

    def open(self, place: Path, imported: Imported) -> Engine:
        return PyMarian(decoder(place), imported)

    def _spec(self, around: Decoder, section: dict[str, object], tokens: Joined, wanted: Wanted) -> Spec:
        suppressed = [*([UNK] if around.bars_unknown else []), *tokens.control]
        decoding = {**around.decoding, "suppressed_tokens": suppressed}
        said = f"Imported from Marian's {around.model.name}."
        return imported_spec(wanted, said, architecture=section, vocabulary=tokens.section, decoding=decoding)


def _beside(model: Path) -> list[str]:
    scripts = [name for name in ("preprocess.sh", "postprocess.sh") if model.with_name(name).is_file()]
    return [f"`{name}` is not run: text is given to the model as it is" for name in scripts]
