"""Train `multi30k-ende` to its end, if the corpus is prepared, and measure BLEU. With `--toy`, train a tiny model."""

from __future__ import annotations

from collections.abc import Iterator

import zoo
from specs import ZooError
from tests.benchmarks.gpu_parts.setting import Absent, Figures, Setting
from zoo.data.prepare import prepare
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.text_metrics import text_metric
from zoo.report import PlainReport, Report
from zoo.system.processors import timed
from zoo.training.train import train

MARK = 41.0
"""Published BLEU of small Transformers, lower-cased and tokenised."""


def real(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Train `multi30k-ende` and score it on the test set.

    Before, `zoo prepare multi30k-ende` must have prepared the corpus with the same ZOO_HOME.
    """
    spec = setting.spec("multi30k-ende", compilation={"backend": "eager" if setting.toy else "auto"})
    try:
        preparing, _ = timed(lambda: prepare(spec, Report()))
    except ZooError as error:
        raise Absent(f"{error.problem}: `zoo prepare {spec.name}`, and name its ZOO_HOME") from error
    device, folder = str(setting.device), setting.folder / "runs" / spec.name
    seconds, run = timed(lambda: train(spec, run=folder, fresh=True, device=device, report=PlainReport()))
    yield "training", {"prepared, s": preparing, "s": seconds}
    translator = zoo.load(str(run.folder), device=device)
    texts = read_split(spec, "test", Report(), translator.vocabulary)
    sources, references = texts.sources, texts.references
    taken, found = timed(lambda: translator.translate(sources, protect=False))
    plain = text_metric("bleu").score(found, references)
    lowered = text_metric("bleu", lowercase=True).score(found, references)
    figures = {"BLEU": plain, "BLEU, lower-cased": lowered, "above the published score": lowered >= MARK}
    yield "test set", {**figures, "sentences/s": len(sources) / taken}
