"""`zoo align`: print which source word each word of a translation comes from."""

from __future__ import annotations

from json import dumps

from cli import options, pairs

ALIGN_EXAMPLES = (
    "printf 'He sleeps.\\tEr schläft.\\n' | zoo align everyday --to de"
    "\n\nzoo align --spec tiny --source test.en --target test.de --output test.align"
)
_CHUNK_LINES = 1024


def align(
    name: options.Name = None,
    spec: options.OfSpec = None,
    model: options.Model = None,
    from_: options.From = None,
    to: options.To = None,
    source: pairs.SourceFile = None,
    target: pairs.TargetFile = None,
    output: options.Output = None,
    json: options.Json = False,
    device: options.Device = "auto",
    max_batch_tokens: options.MaxBatchTokens = None,
) -> None:
    """Print the word alignments of given translations.

    Select a model by MODEL, --model or --spec. Pairs come from stdin, as source and target separated by a tab, or
    from --source and --target. Each pair gives one line in Pharaoh's format: `0-1` says that the second word of the
    translation comes from the first word of the source. Spaces separate words.

    With --json, each line becomes a list of the tokens of the translation: the positions of their characters in the
    translation and in the source, and the weight of the attention.
    """
    from cli.console import report
    from cli.streams import open_output
    from zoo.generation.alignment import word_links
    from zoo.generation.loading import open_model
    from zoo.models.find import from_options
    from zoo.text.lines import available_chunks

    pairs.check_options(source, target, name, model)
    messages = report()
    folder = from_options(spec, name or model, messages)
    translator = open_model(folder, device=device, max_batch_tokens=max_batch_tokens, report=messages)
    inputs = [source, target] if source else [None]
    with pairs.open_pairs(source, target) as (read, paused), open_output(output, inputs, flush=True) as write:
        for chunk, _ in available_chunks(read, _CHUNK_LINES, paused):
            sources, targets = zip(*chunk, strict=True)
            aligned = translator.align(sources, targets, source=from_, target=to)
            for text, translation, tokens in zip(sources, targets, aligned, strict=True):
                fields = [token._asdict() for token in tokens]
                links = (
                    "" if json else " ".join(f"{one}-{other}" for one, other in word_links(text, translation, tokens))
                )
                write(dumps(fields) if json else links)
