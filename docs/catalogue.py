"""Write the pages of the model catalogue in Markdown: an index, and a page for each model card."""

from __future__ import annotations

from collections.abc import Iterator

from zoo.models.catalogue import ModelCard, packaged
from zoo.report import size

_EXAMPLE = ("en", "de")
"""Language pair in examples, if the model translates it."""
_LISTED_PAIRS = 6
_INTRO = """\
# Catalogue

You can use these public models by name. When you first use a model, `zoo` downloads it, converts it and adds it to the
local model store:

```sh
zoo pull opus-mt-en-de
echo "Hello world!" | zoo decode --model opus-mt-en-de
```

`zoo list --available` prints the catalogue, and `zoo list --available de-fr` prints the models for a language pair.
Each model's page states who trained the model, on which texts, and under which licence you may use it. The page also
gives the source of these facts. Properties that the source does not document are omitted.
"""
_ENDING = """\
The multilingual models translate most other pairs, and OPUS-MT has models for more than 1,200 pairs: see [its
list](opus-mt.md#language-pairs).
"""
_GROUPS = """\
Some codes stand for a group of languages, such as `zle` for Belarusian, Russian and Ukrainian. If the target is a
group, begin each text with the token of a language, such as `>>rus<<`. The model's page on the Hugging Face Hub lists
the tokens.
"""


def pages() -> dict[str, str]:
    """Return the pages of the model catalogue as Markdown, keyed by their paths in the documentation."""
    cards = packaged()
    return {"catalogue/index.md": "\n".join(_index(cards)), **{path_of(card): "\n".join(_page(card)) for card in cards}}


def path_of(card: ModelCard) -> str:
    """Return the path of a model card's page in the documentation."""
    return f"catalogue/{card.name.removesuffix('-{source}-{target}')}.md"


def title_of(card: ModelCard) -> str:
    """Return the model's name. It contains SOURCE and TARGET if the card describes models for many language pairs."""
    return card.name.replace("{source}", "SOURCE").replace("{target}", "TARGET")


def _index(cards: list[ModelCard]) -> Iterator[str]:
    yield _INTRO
    yield "## Models\n\n| Model | Languages | Texts | Licence | Download |\n|---|---|---|---|---|"
    for card in sorted(cards, key=lambda card: not card.differences):  # models like those of the paper come first
        languages, download = card.languages.summary(_LISTED_PAIRS), size(card.bytes) if card.bytes else ""
        yield f"| {_link(card)} | {languages} | {card.texts or ''} | {card.short_licence} | {download} |"
    yield "\n## By language pair\n\n| From | To | Models |\n|---|---|---|"
    models: dict[tuple[str, str], list[ModelCard]] = {}
    for card in cards:
        if not card.is_pattern and card.languages.codes is None and "_" not in card.languages.directions[0][0]:
            for pair in card.languages.directions:
                models.setdefault(pair, []).append(card)
    for (source, target), own in sorted(models.items()):
        patterns = [card for card in cards if card.is_pattern and (source, target) in card.languages.directions]
        links = ", ".join(_link(card, source, target) for card in [*own, *patterns])
        yield f"| {source} | {target} | {links} |"
    yield f"\n{_ENDING}"


def _link(card: ModelCard, *pair: str) -> str:
    name = card.for_pair(*pair).name if pair and card.is_pattern else title_of(card)
    return f"[`{name}`]({path_of(card).removeprefix('catalogue/')})"


def _page(card: ModelCard) -> Iterator[str]:
    yield f"# {title_of(card)}\n\n{_description(card)}\n"
    yield from _commands(card)
    yield "| Property | Value |\n|---|---|"
    rows = {
        "Languages": card.languages.summary(_LISTED_PAIRS),
        "Texts": card.texts,
        "Licence": card.licence,
        "Download": f"about {size(card.bytes)}" if card.bytes else None,
        "Parameters": f"{card.parameters:,}" if card.parameters else None,
        "Trained by": card.trained_by,
        "Training data": card.training_data,
        "Publication": card.reference and f"[{card.reference.title}]({card.reference.url})",
        "Source": f"`{card.source}`",
        "SHA-256": card.sha256 and f"`{card.sha256}`",
        "Files": ", ".join(f"`{file}`" for file in card.files),
        "Other names": ", ".join(f"`{alias}`" for alias in card.aliases),
        "Facts": f"from [this page]({card.facts.url}), read on {card.facts.date}",
    }
    yield from (f"| {name} | {value} |" for name, value in rows.items() if value)
    if card.differences:
        yield "\n## Differences from the paper's model\n"
        yield from (f"- {difference}" for difference in card.differences)
    if card.scores:
        yield "\n## Published scores\n\n| Test set | Metric | Score |\n|---|---|---|"
        yield from (f"| {each.test} | {each.metric} | [{each.value:g}]({each.url}) |" for each in card.scores)
    if card.check:
        yield "\n## Documented translations\n\n`zoo` checks these translations after the download.\n"
        yield "| Source | Translation |\n|---|---|"
        yield from (f"| {each.source} | {each.target} |" for each in card.check)
    if card.is_pattern or len(card.languages.directions) > _LISTED_PAIRS:
        yield from _language_pairs(card)


def _description(card: ModelCard) -> str:
    return card.description.replace("{source} to {target}", "several language pairs")


def _commands(card: ModelCard) -> Iterator[str]:
    pair = card.languages.direction(*_EXAMPLE) or card.languages.directions[0]
    name = card.for_pair(*pair).name if card.is_pattern else card.name
    has_languages = card.languages.codes is not None or "_" in pair[0]
    options = f" --from {pair[0]} --to {pair[1]}" if has_languages else ""
    yield f"```sh\nzoo pull {name}\nzoo decode --model {name}{options} < input.txt\n```\n"
    if card.is_pattern:
        yield "For another language pair, replace the codes in the name.\n"
    if card.source.startswith("hf:"):
        yield "The download needs the `hf` extra: `pip install -e '.[hf]'`.\n"


def _language_pairs(card: ModelCard) -> Iterator[str]:
    if card.languages.codes is not None:
        yield "\n## Languages\n\nThe model translates each of these languages into every other language:\n"
        yield card.languages.codes
        return
    yield "\n## Language pairs\n"
    if card.format == "hf-marian":
        yield _GROUPS
    targets: dict[str, list[str]] = {}
    for source, target in card.languages.directions:
        targets.setdefault(source, []).append(target)
    yield "| From | To |\n|---|---|"
    yield from (f"| {source} | {', '.join(own)} |" for source, own in targets.items())
