"""Test and measure everything that needs a GPU: `python -m tests.benchmarks.gpu [PART ...] [--out FOLDER]`.

Run the script in the root of the repository. It takes up to 25 minutes. If no PART is given, all parts run, in this
order:

- correct: compare training steps and searches with the CPU, a resumed run with an uninterrupted run, and the backends
  with the interpreter. Run the pytest tests that need a GPU. Time limit: 300 seconds.
- training: measure the training speed of `base` and `big` in bfloat16 with up to 25,000 source and 25,000 target tokens
  per step, and the time of each GPU kernel in a step. Time limit: 300 seconds.
- decoding: measure the translation speed of `base` in bfloat16 at several batch sizes, and of Hugging Face. Time limit:
  300 seconds.
- real: train `multi30k-ende` to its end, if the corpus is prepared. Time limit: 600 seconds.

Each part writes FOLDER/PART.json after each result, so that results are kept if the script is interrupted. A part ends
at its time limit, which `--limit` replaces for all parts. If a part fails, the other parts still run. At the end, the
script prints a table of all results. With `--table`, it only prints the table, from the files of earlier runs. Before
the parts, the script measures the peak speeds of matrix products and memory copies. With `--toy`, models are small and
run on the CPU.

If the GPU machine has torch but no network, download a folder of wheels elsewhere with `pip download --no-deps
--only-binary :all: --python-version 3.12 -d wheels` of pydantic pydantic-core annotated-types typing-inspection pyyaml
typer click annotated-doc rich markdown-it-py mdurl pygments shellingham safetensors sentencepiece sacrebleu sacremoses
sentencex py3langid nltk joblib tqdm portalocker regex tabulate lxml colorama platformdirs jaxtyping wadler-lindig
pytest pluggy iniconfig pytest-timeout hypothesis sortedcontainers filelock fsspec. Install the wheels on the GPU
machine with `pip install --no-index --no-deps wheels/*`. Add transformers, tokenizers and huggingface-hub to compare
with Hugging Face's `generate`. For the part `real`, first run `ZOO_HOME=DATA zoo prepare multi30k-ende`, copy the
folder DATA to the GPU machine, and set ZOO_HOME to this copy.
"""

from __future__ import annotations

import argparse
import gc
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.benchmarks.gpu_parts.correct import correct
from tests.benchmarks.gpu_parts.decoding import decoding
from tests.benchmarks.gpu_parts.real import real
from tests.benchmarks.gpu_parts.setting import Absent, Figures, Part, Setting
from tests.benchmarks.gpu_parts.training import training
from zoo.report import figure
from zoo.system.processors import host, matrix_peak, repeat


class Limited(NamedTuple):
    run: Part
    seconds: int


PARTS: Mapping[str, Limited] = {
    "correct": Limited(correct, 300),
    "training": Limited(training, 300),
    "decoding": Limited(decoding, 300),
    "real": Limited(real, 600),
}


def main() -> None:
    given = _arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.table:
        setting = _setting(given)
        for name in given.parts or PARTS:
            _run(name, setting, given.limit or PARTS[name].seconds)
            gc.collect()
            if setting.cuda:
                torch.cuda.empty_cache()
    _show(given.out)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("build/gpu"))
    parser.add_argument("--limit", type=int, help="time limit of each part in seconds (default: the limits above)")
    parser.add_argument("--toy", action="store_true", help="run small models on the CPU")
    parser.add_argument("--table", action="store_true", help="only print the results of earlier runs")
    given = parser.parse_args()
    if strange := set(given.parts) - PARTS.keys():
        parser.error(f"`{min(strange)}` is not a part; the parts are {', '.join(PARTS)}")
    if not (given.toy or given.table or torch.cuda.is_available()):
        parser.error("torch finds no GPU on this machine; use `--toy` to run small models on the CPU")
    return given


def _copy_bandwidth(device: torch.device, elements: int) -> float:
    """Return the memory bandwidth of a large copy, in bytes read and written per second."""
    source = torch.ones(elements, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        for _ in range(8):  # the host waits less often
            target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return 8 * 2 * source.nbytes / min(repeat(copy, 0.2, rounds=2))


def _setting(given: argparse.Namespace) -> Setting:
    """Measure the peak speeds of the device, and write them to `limits.json`. Return the setting for all parts."""
    toy = given.toy
    device = torch.device("cpu" if toy else "cuda")
    flops = matrix_peak(device, "bfloat16")
    copied = _copy_bandwidth(device, elements=2**20 if toy else 2**25)
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    name, size = ("cpu", "toy") if toy else (torch.cuda.get_device_name(device), "full")
    limits: Figures = {**asdict(host()), "device": name, "size": size, "date": date, "bfloat16, TFLOP/s": flops / 1e12}
    limits |= {"float32, TFLOP/s": matrix_peak(device, "float32") / 1e12, "copy, TB/s": copied / 1e12}
    _write(given.out / "limits.json", {"limits": limits})
    return Setting(device, toy, given.out.resolve(), flops, copied)


def _run(name: str, setting: Setting, seconds: int) -> None:
    """Run a part, and write each row of results as soon as it is measured. An error or a timeout also becomes a row."""
    rows: dict[str, Figures] = {}
    begun = time.perf_counter()
    file = setting.folder / f"{name}.json"
    try:
        with _limit(seconds):
            for row, figures in PARTS[name].run(setting):
                rows[row] = {**figures, "after, s": round(time.perf_counter() - begun, 1)}
                _write(file, rows)
                print(f"{name}: {row}: {_words(rows[row])}", file=sys.stderr, flush=True)
    except Absent as reason:
        rows["all"] = {"absent": str(reason)}
    except TimeoutError:
        rows["the rest"] = {"absent": f"the time limit of {seconds} seconds was reached"}
    except Exception as error:
        rows["the rest"] = {"failed": f"{type(error).__name__}: {error}"[:500]}
    _write(file, rows)


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _write(file: Path, rows: Mapping[str, Figures]) -> None:
    """Write rows of results to a JSON file atomically."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    partial.replace(file)


def _show(folder: Path) -> None:
    for name in ("limits", *PARTS):
        file = folder / f"{name}.json"
        if file.exists():
            print(f"\n{name}")
            rows = json.loads(file.read_text(encoding="utf-8"))
            width = max(map(len, rows), default=0)
            for row, figures in rows.items():
                print(f"  {row:{width}}  {_words(figures)}")


def _words(figures: Figures) -> str:
    return " | ".join(f"{key} {_word(value)}" for key, value in figures.items() if key != "after, s")


def _word(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return figure(float(value))


if __name__ == "__main__":
    main()
