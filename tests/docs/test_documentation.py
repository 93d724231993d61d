"""The README and the documentation are true: commands and options exist, specs load, and every block runs."""

from __future__ import annotations

import bz2
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main
import yaml

import specs
from cli.app import build_app
from tests.conftest import missing
from tests.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = ("cli", "compiler", "specs", "zoo")
QUICK = """
architecture: {N: 1, d_model: 32, h: 4, d_k: 8, d_v: 8}
training: {steps: 12, checkpoint_steps: 3, warmup_steps: 5, cooldown_steps: null, source_tokens: 512,
           target_tokens: 512}
"""
"""Values of specs that make the training runs of the documentation short."""


class Block(NamedTuple):
    """A fenced code block. `reason` says why it cannot be run; `file` is the file that its title names."""

    place: str
    reason: str | None
    language: str
    file: str | None
    text: str


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the code blocks of a page, in order."""
    source, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()
    title = r'(?: title="([^"]+)")?[^\n]*'
    fence = rf"(?:<!-- no test: ([^\n]+) -->\n)?^```(\w*){title}\n(.*?)^```$"
    for match in re.finditer(fence, source, re.DOTALL | re.MULTILINE):
        line = source.count("\n", 0, match.start()) + 1
        yield Block(f"{name}:{line}", *match.groups())


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every `zoo ...` command of the shell blocks and of the text, with its place."""
    for block in BLOCKS:
        yield from ((block.place, words) for words in _block_commands(block))
    for page in PAGES:
        for words in re.findall(r"`zoo ([a-z][^`]*)`", page.read_text(encoding="utf-8")):
            text = re.sub(r"[\[\]]", "", words.replace("\n", " "))
            yield page.name, shlex.split(text)


def _block_commands(block: Block) -> Iterator[list[str]]:
    if block.language in ("sh", "console"):
        without_comments = re.sub(r"\\\n|  #.*", " ", block.text)
        for part in re.split(r"&&|[|<>;\n]", without_comments):
            words = shlex.split(part) if "zoo" in part else []
            starts = [index for index, word in enumerate(words) if word.rpartition("/")[2] == "zoo"]
            if starts and words[starts[-1] + 1 :]:
                yield words[starts[-1] + 1 :]


def test_commands_and_options_exist() -> None:
    group = typer.main.get_command(build_app())
    found = list(commands())
    assert len(found) > 80
    for place, words in found:
        command = group
        while words and hasattr(command, "commands") and not words[0].startswith("-"):
            assert words[0] in command.commands, f"{place}: `zoo {words[0]}` does not exist"
            command, words = command.commands[words[0]], words[1:]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        options |= {"--help", "--install-completion"}
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given <= options, f"{place}: {command.name} has no {sorted(given - options)}"


def test_guides_use_the_commands_for_everyday_tasks() -> None:
    guides = [blocks_of(page) for page in PAGES if page.parent.name == "how-to"]
    used = {words[0] for blocks in guides for block in blocks for words in _block_commands(block)}
    assert {"run", "doctor", "clean", "remove", "compile"} <= used


def test_start_page_shows_the_three_ways_in() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    ways = "zoo train specs/big.yaml", "zoo decode --spec base", 'zoo.load("transformer-big-ende")'
    assert not missing(page, *ways)
    assert specs.load("specs/big.yaml").name == "transformer-big-ende"
    (shown,) = [yaml.safe_load(each.text) for each in blocks_of(ROOT / "docs" / "index.md") if each.language == "yaml"]
    spec = yaml.safe_load((ROOT / "specs" / "big.yaml").read_text(encoding="utf-8"))
    assert shown == {key: value for key, value in spec.items() if key != "description"}


def test_named_specs_load_with_their_overrides() -> None:
    files = {block.file for block in BLOCKS}
    loading = [words for _, words in commands() if words[0] in ("train", "show", "plan", "prepare") and words[1:]]
    loading = [words for words in loading if words[1] not in files and not re.search(r"^-|[A-Z]{3}|runs/", words[1])]
    assert len(loading) > 15
    for _, name, *words in loading:
        specs.load(name, [word for word in words if re.match(r"[a-z_.A-Z]+=", word)])


def test_links_lead_to_files() -> None:
    """Links also work on code hosts, which do not build the site."""
    folders = ("docs", "tests", *PACKAGES)
    for page in (*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))):
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)#\s]+)|(?:href|src)=\"([^\"#]+)", text):
            target = "".join(link)
            if not target.startswith(("https://", "http://", "mailto:")):
                assert (page.parent / target).exists(), f"{page}: {target}"


def test_readme_has_two_commands_and_fits_on_one_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 200
    for mark in ("start", "tests"):
        assert re.search(rf"<!-- {mark} -->\n```sh\n.*-m venv.*pip install.*\n```", readme), mark


def test_zoo_is_installed_from_its_source_folder() -> None:
    """No package index has zoo."""
    files = [*PAGES, *ROOT.glob("C*.md"), *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))]
    for file in files:
        text = " ".join(file.read_text(encoding="utf-8").split())
        assert not re.search(r"pip install [^`\n]{0,60}transformer-zoo", text), file
    named = r"(?:pip install (?:-\w+ )*-e '?\.\[|install_hint\(['\"])(\w+)"
    extras = set(re.findall(named, " ".join(file.read_text() for file in files)))
    defined = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {"serve", "ctranslate2", "hf"} <= extras <= defined.keys()


def _packages(folder: Path, *others: str) -> Path:
    """Copy zoo's packages to a folder, in which training `tiny`, `parsing/tiny`, `small` and others takes seconds."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package)
    for name in ("tiny", "parsing/tiny", "small", *others):
        path = folder / "specs" / f"{name}.yaml"
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))
        for section, values in yaml.safe_load(QUICK).items():
            spec.setdefault(section, {}).update(values)
        spec["vocabulary"]["size"] = min(1000, spec["vocabulary"]["size"])
        path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    return folder


def _environment(folder: Path, packages: Path) -> dict[str, str]:
    """Return an environment in which `zoo` is the command of `packages` and keeps its data in the folder."""
    shim = folder / "bin" / "zoo"
    shim.parent.mkdir(parents=True)
    # A longer training has 16 steps instead of 12.
    replace = """for word; do shift; set -- "$@" "$(sed 's/^training.steps=.*/training.steps=16/' <<<"$word")"; done"""
    shim.write_text(
        f'#!/usr/bin/env bash\n{replace}\nexec {shlex.quote(sys.executable)} -m zoo "$@"\n', encoding="utf-8"
    )
    shim.chmod(0o755)
    paths = f"{shim.parent}{os.pathsep}{os.environ['PATH']}"
    home = str(folder / "home")
    return {**os.environ, "PATH": paths, "ZOO_HOME": home, "PYTHONPATH": str(packages), "ZOO_REGISTRIES": ""}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a reader, in which `tiny` and `parsing/tiny` are trained and published, shortly."""
    folder = tmp_path_factory.mktemp("documentation")
    environment = _environment(folder, _packages(folder / "packages"))
    script = "for spec in tiny parsing/tiny; do zoo train $spec; zoo publish $spec; done"
    script += "; zoo publish transformer-tiny-ende --to ./registry"
    subprocess.run(["bash", "-ec", script], cwd=folder, env=environment, check=True, capture_output=True, timeout=600)
    _write_files(folder)
    return folder


def _page_folder(prepared: Path, packages: Path, base: Path) -> tuple[Path, dict[str, str]]:
    """Copy the prepared folder for one page. Return the copy and its environment."""
    folder = base / "page"
    shutil.copytree(prepared, folder, ignore=shutil.ignore_patterns("bin", "packages"))
    return folder, _environment(base / "shims", packages) | {"ZOO_HOME": str(folder / "home")}


def _run(block: Block, folder: Path, environment: dict[str, str]) -> None:
    if block.file:
        text = re.sub(r"steps: \d{3,}", "steps: 12", block.text)
        (folder / block.file).write_text(text, encoding="utf-8")
        return
    command = ["bash", "-ec", block.text] if block.language == "sh" else [sys.executable, "-c", block.text]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{block.place}:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"


@pytest.mark.integration
def test_python_of_the_readme_and_of_documents_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("zoo.models.registries.registry.INCLUDED", ROOT / "zoo" / "included")
    monkeypatch.chdir(tmp_path)
    Path("page.html").write_text("<p>I do not like the <b>red</b> house.</p>", encoding="utf-8")
    pages = ROOT / "README.md", ROOT / "docs" / "how-to" / "documents.md"
    blocks = [block for page in pages for block in blocks_of(page) if block.language == "python"]
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block.text, block.place, "exec"), {})
    assert "<b>rote</b> Haus" in Path("seite.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_a_page_runs_in_order(page: Path, prepared: Path, tmp_path: Path) -> None:
    blocks = [block for block in blocks_of(page) if block.reason is None]
    blocks = [
        block for block in blocks if block.language in ("sh", "python") or (block.language == "yaml" and block.file)
    ]
    blocks = [block for block in blocks if page.name != "README.md" or "pip install" not in block.text]
    if not blocks:
        pytest.skip("this page has no block that can be run")
    folder, environment = _page_folder(prepared, prepared / "packages", tmp_path)
    environment["ZOO_REGISTRIES"] = str(folder / "registry")
    if any("zoo publish" in block.text for block in blocks):  # the page publishes the models itself
        shutil.rmtree(folder / "home" / "models")
    for block in blocks:
        _run(block, folder, environment)


FIGURES = [page for page in PAGES if "tests.benchmarks." in page.read_text(encoding="utf-8")]
"""Pages that print commands to repeat a measurement."""
VALUES = {"SPEC|MODEL": "tiny", "B": "native", "PRECISION": "bfloat16", "NAME=FILE": "dev=dev", "FILE": "dev"}
SCRIPT = r"python -m tests\.benchmarks\.(\w+)"
SPEC_COMMAND = r"zoo (train|sweep|compile|plan|benchmark \w+) (?!speech|pictures)[^-\s]"


def _commands_to_repeat(page: Path) -> Iterator[str]:
    """Yield the commands of a page that run a benchmark script or a spec, with small models."""
    blocks = [block for block in blocks_of(page) if block.language == "text"]
    lines = [line for block in blocks for line in block.text.replace("\\\n", " ").splitlines()]
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", page.read_text(encoding="utf-8"))]
    found = [line for line in lines if re.match(r"(python|zoo|echo) \S", line)]
    found += [span for span in spans if re.match(f"{SCRIPT}|{SPEC_COMMAND}", span)]
    for command in dict.fromkeys(found):
        for name, value in VALUES.items():
            command = re.sub(rf"\b(?:{name})\b", value, command)
        if script := re.match(SCRIPT, command):
            takes_toy = "toy" in (ROOT / "tests" / "benchmarks" / f"{script[1]}.py").read_text(encoding="utf-8")
            command += " --toy" if takes_toy else ""
        yield command


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", FIGURES, ids=lambda page: page.name)
def test_commands_that_repeat_measurements_run(page: Path, prepared: Path, tmp_path: Path) -> None:
    folder, environment = _page_folder(prepared, _packages(tmp_path / "packages", "everyday"), tmp_path)
    environment["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
    for command in _commands_to_repeat(page):
        done = subprocess.run(["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"


def _write_files(folder: Path) -> None:
    """Write the files that the commands read: a reader's pairs of sentences and trees, and Tatoeba's downloads."""
    from zoo.data.builtin import sentences

    pairs = list(sentences("train", 4_000))
    (folder / "my.en").write_text("".join(f"{pair.source}\n" for pair in pairs[:1_000]), encoding="utf-8")
    (folder / "my.de").write_text("".join(f"{pair.target}\n" for pair in pairs[:1_000]), encoding="utf-8")
    for split, part in (("train", pairs[:800]), ("dev", pairs[800:900]), ("test", pairs[900:1_000])):
        (folder / f"{split}.trees").write_text("".join(f"{pair.tree}\n" for pair in part), encoding="utf-8")
    downloads = folder / "downloads"
    downloads.mkdir()
    for side, (language, code) in enumerate((("en", "eng"), ("de", "deu"))):
        texts = [(f'Tom says "{pair.source}".', f"Tom sagt „{pair.target}“.")[side] for pair in pairs]
        for name in ("train", "dev", "test"):
            (folder / f"{name}.{language}").write_text("".join(f"{text}\n" for text in texts[:100]), encoding="utf-8")
        rows = "".join(f"{number}\t{code}\t{text}\n" for number, text in enumerate(texts))
        (downloads / f"{code}_sentences.tsv.bz2").write_bytes(bz2.compress(rows.encode()))
    links = "".join(f"{number}\t{number}\n" for number in range(len(pairs)))
    (downloads / "eng-deu_links.tsv.bz2").write_bytes(bz2.compress(links.encode()))
