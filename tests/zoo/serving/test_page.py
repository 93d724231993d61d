"""The web page in a browser: translate, explain words, documents, keyboard, narrow and dark screens, errors."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")
sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")

from tests.zoo.serving.conftest import TEXT, open_quietly, running  # noqa: E402
from zoo.serving.admission import hash_key  # noqa: E402
from zoo.serving.documents import Documents  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian's package chromium)")
pytestmark = [pytest.mark.integration, needs_chromium]

DROPPED = "const all = new DataTransfer(); for (const name of '12') all.items.add(new File([1], `${name}.txt`)); all"


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        microphone = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *microphone])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[ExitStack, list[str]]]:
    """The server of all tests of this module, once it is started, and what stops it."""
    with ExitStack() as stack:
        yield stack, []


@pytest.fixture
def url(shared, trained, service_of) -> str:
    stack, urls = shared
    if not urls:
        trained()
        urls.append(stack.enter_context(running(service_of(names=(str(Path("runs/tiny").resolve()),)))))
    return urls[0]


@pytest.fixture
def open_page(browser, url) -> Iterator[Callable[..., sync_api.Page]]:
    """A function that opens the page, and fails the test if the console has an error or another host is asked."""
    problems = []

    def make(address: str = url, **options) -> sync_api.Page:
        page = stack.enter_context(browser.new_context(**options)).new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: message.type == "error" and problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda each: each.url.startswith((address, "data:", "blob:")) or problems.append(each.url))
        page.goto(address)
        page.wait_for_selector("#target option", state="attached")
        return page

    with ExitStack() as stack:
        yield make
    assert [problem for problem in problems if "status of 4" not in problem and "ERR_" not in problem] == []


@pytest.fixture
def page(open_page) -> sync_api.Page:
    return open_page()


def translate(page, text: str = TEXT) -> str:
    page.select_option("#source", "en")
    page.fill("#text", text)
    page.wait_for_selector("#facts:not(:empty)")
    return page.inner_text("#result")


def explain(word) -> None:
    word.click()
    word.page.wait_for_selector("#attention span")


def is_focused(word) -> bool:
    return word.evaluate("each => each === document.activeElement")


def serious(page) -> list[str]:
    """Return the serious problems of accessibility that axe finds."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    found = axe.Axe().run(page).response["violations"]
    return [each["id"] for each in found if each["impact"] in ("serious", "critical")]


def test_the_translation_appears_while_one_types(page, trained):
    if not Path("runs/tiny").exists():  # another test started the server, with the same weights
        trained()
    first, second = open_quietly().translate([TEXT, "we read"])
    text = translate(page, f"{TEXT}\n\nwe read")
    assert (text.split("\n\n")[0], text.rpartition("\n")[2]) == (first, second)
    assert "runs/tiny" in page.inner_text("#facts")
    page.fill("#text", "")
    page.wait_for_selector("#facts:empty", state="attached")
    assert page.inner_text("#result") == ""


def test_a_word_has_alternatives_and_attention(page):
    before, word = translate(page), page.locator("#result button").first
    explain(word)
    page.locator("#alternatives button").first.wait_for()
    assert page.locator("#attention span").all_inner_texts() == TEXT.split(), "control tokens are not shown"
    layer, head = page.input_value("#layer"), page.input_value("#head")
    with page.expect_response("**/v1/attention") as response:
        page.select_option("#head", index=2 if head == "0" else 1)  # the first one is the mean
    assert response.value.json()["layer"] == int(layer)
    assert response.value.json()["head"] != int(head)
    page.wait_for_selector("#attention span")
    alternative = page.locator("#alternatives button").first
    chosen = alternative.inner_text()
    alternative.click()
    assert page.inner_text("#result") == chosen != before
    assert (page.locator("#word").is_hidden(), is_focused(word)) == (True, True)


def answer_with(page, translation: dict, *others: dict) -> list[dict]:
    """Let the page receive a translation, and others as its alternatives. Return a list of the requests for these."""
    hint = "`m` is made for short sentences; `n` may be better: `zoo serve --model n`"
    result, asked = {"source": "en", "model": "m", "revision": "r", "index": 0, "hint": hint}, []

    def answer(route) -> None:
        body = route.request.post_data_json
        if body.get("stream"):
            route.fulfill(body=stream({**result, "translations": [translation]}))
        else:
            asked.append(body)
            route.fulfill(json={"results": [{**result, "translations": others}]})

    page.route("**/v1/translate", answer)
    return asked


def test_alternatives_and_attention_are_about_the_sentence_of_the_word(page):
    sentences = [["I see.", "Ich sehe."], ["We 😀 read.", "Wir 😀 lesen."], ["She knows.", "Sie weiß."]]
    texts = ["Wir 😀 lesen.", "Wir 😀 lesen es.", "Wir 😀 schauen.", "Wirt 😀 malt.", "Wir 😀", "Wir 😀 schauen es."]
    translation = {"text": "Ich sehe. Wir 😀 lesen.\nSie weiß.", "sentences": sentences}
    asked = answer_with(page, translation, *({"text": text} for text in texts))

    def attend(route) -> None:
        asked.append(route.request.post_data_json)
        words = {"source": ["We", "😀", "read."], "target_starts": [0, 4, 6], "weights": np.eye(3).tolist()}
        route.fulfill(json={**words, "layer": 0, "head": 0, "layers": 1, "heads": 1})

    page.route("**/v1/attention", attend)
    assert translate(page) == "Ich sehe. Wir 😀 lesen.\nSie weiß."
    assert page.inner_text("#hint") == "m is made for short sentences; n may be better.", "without the command"
    explain(page.get_by_role("button", name="lesen"))
    page.locator("#alternatives button").first.wait_for()
    assert page.locator("#alternatives button").all_inner_texts() == ["… schauen."], "only other words at this place"
    assert page.locator("#attention span").evaluate_all("all => all.map(each => each.title)") == ["0%", "0%", "100%"]
    for body in asked:
        assert (body["text"], body["model"]) == ("We 😀 read.", "m")
    assert sorted(body.get("prefix", body.get("translation")) for body in asked) == ["Wir 😀", "Wir 😀 lesen."]
    page.locator("#alternatives button").click()
    assert page.inner_text("#result") == "Ich sehe. Wir 😀 schauen.\nSie weiß."


@pytest.mark.parametrize(("confidence", "described"), [(0.123, "its confidence is 12%"), (None, "not sure")])
def test_uncertain_sentences_are_marked(open_page, confidence, described):
    page = open_page(color_scheme="dark" if confidence else "light")
    sentences = [["I see.", "Ich sehe."], ["We read.", "Wir lesen."]]
    doubt = {"text": "Ich sehe. Wir lesen.", "uncertain": ["We read."], "confidence": confidence}
    first = {**doubt, "sentences": sentences, "confidences": [confidence and 0.9, confidence]}
    answer_with(page, first, {"text": "Wir schauen.", "confidence": confidence and 0.8})
    translate(page)
    marked = page.get_by_role("group", name=described)
    assert marked.all_inner_texts() == ["Wir lesen."]
    assert described in marked.get_attribute("title")
    decoration = "all => all.map(each => getComputedStyle(each).textDecoration)"
    styles = page.locator("#result button").evaluate_all(decoration)
    assert ["dotted" in style for style in styles] == [False] * 3 + [True] * 3
    assert serious(page) == []
    page.get_by_role("button", name="lesen").click()
    page.locator("#alternatives button").click()
    assert page.inner_text("#result") == "Ich sehe. Wir schauen."
    assert marked.count() == 0, "the other translation is not uncertain"


def test_the_keyboard_alone_is_enough(page):
    page.select_option("#source", "en")
    page.focus("#text")
    page.keyboard.type("we read two books")
    page.wait_for_selector("#facts:not(:empty)")
    page.focus("#text")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # the first stop clears the text
    words = page.locator("#result button")
    assert is_focused(words.first)
    page.keyboard.press("End")
    assert is_focused(words.last)
    page.keyboard.press("Enter")
    page.wait_for_selector("#attention span")
    assert words.last.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Escape")
    assert page.locator("#word").is_hidden()


def test_sounds_and_the_microphone_are_transcribed(open_page, hearing, url_of, monkeypatch, tmp_path):
    soundfile = pytest.importorskip("soundfile")
    chance = np.random.default_rng(0)
    soundfile.write(tmp_path / "a.flac", 0.1 * chance.normal(size=8_000), 16_000)
    hearing("runs/hearing")
    received, transcribe = [], Documents.transcribe

    def record(self, call, model, content):
        received.append(content)
        return transcribe(self, call, model, content)

    monkeypatch.setattr(Documents, "transcribe", record)
    page = open_page(url_of(names=("runs/hearing", "runs/tiny")), permissions=["microphone"])
    assert page.locator("#sound-model option").all_inner_texts() == ["runs/hearing: English to German"]
    sounds = page.evaluate_handle(DROPPED.replace("[1]", "['nothing']").replace("txt", "wav"))
    page.locator("#sound").dispatch_event("drop", {"dataTransfer": sounds})
    page.wait_for_selector("#heard .error:has-text('1.wav: ') + .error:has-text('2.wav: ')")
    with page.expect_response("**/v1/audio/translations") as answer:
        page.set_input_files("#sound-file", tmp_path / "a.flac")
    page.wait_for_selector("#heard [lang=de]")
    assert page.inner_text("#heard") == f"a.flac: {answer.value.json()['text']}", "the old errors are gone"
    page.click("#record")
    page.wait_for_selector("#record[aria-pressed=true]")
    page.wait_for_timeout(1500)
    with page.expect_response("**/v1/audio/translations") as answer:
        page.click("#record")
    assert answer.value.status == 200
    samples, rate = soundfile.read(io.BytesIO(received[-1]))
    assert (rate, samples.ndim, len(samples) > rate / 2) == (16_000, 1, True)
    assert np.abs(samples).max() > 0.01, "the browser's microphone for tests beeps"
    page.wait_for_selector("#heard:has-text('Recording: '):not(:has-text('a.flac'))")
    assert serious(page) == []


def test_documents_are_translated(page, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT, "utf-8")
    page.clock.install()
    page.select_option("#source", "en")
    page.set_input_files("#file", tmp_path / "a.txt")
    with page.expect_download() as download:
        page.locator("#file-status a").click()
    assert download.value.suggested_filename == "a.de.txt"
    (tmp_path / "b.docx").write_bytes(b"\xff")
    page.set_input_files("#file", tmp_path / "b.docx")
    page.wait_for_selector("#file-status .error:has-text('damaged')")
    assert "B.docx" not in page.inner_text("#file-status"), "the name of a file keeps its case"
    (tmp_path / "b.docx").unlink()
    page.dispatch_event("#file", "change")
    page.wait_for_selector("#file-status p:has-text('Download') + .error:has-text('cannot be read')")
    page.locator("h1").dispatch_event("drop", {"dataTransfer": page.evaluate_handle(DROPPED)})
    page.wait_for_selector("#file-status p:has-text('1.txt: Download') + p:has-text('2.txt: Download')")
    twice = "all => [all, all].map(({ files }) => translateFiles(files)) && byId('file-status').innerText"
    assert page.evaluate(twice, page.evaluate_handle(DROPPED)).count("waits") == 4
    page.route("**/translate_file", lambda route: route.fulfill(status=413, body="<html>"))  # from a reverse proxy
    page.set_input_files("#file", tmp_path / "a.txt")
    page.wait_for_selector("#file-status .error:has-text('status 413')")
    page.clock.fast_forward("10:01")
    assert "Download" not in page.inner_text("#file-status")


def test_texts_never_become_markup_and_the_page_may_only_use_its_own_server(page, url):
    policy = page.request.get(url).headers["content-security-policy"]
    assert ("default-src 'none'" in policy, "unsafe" in policy) == (True, False)
    translate(page, "<img src=x onerror=alert(1)> we <b>read</b>")
    assert page.locator("#result img, #result b").count() == 0
    explain(page.locator("#result button").first)
    assert page.locator("#attention img, #attention b, #alternatives img").count() == 0


@pytest.mark.parametrize("options", [{"viewport": {"width": 360, "height": 700}}, {"color_scheme": "dark"}], ids=str)
def test_narrow_and_dark_screens_are_accessible(open_page, options):
    page = open_page(**options)
    translate(page)
    explain(page.locator("#result button").first)
    page.locator("#alternatives li").first.wait_for()
    wide = "all => all.filter(each => each.getBoundingClientRect().right > innerWidth).map(each => each.outerHTML)"
    assert page.locator("main :not(.wide *)").evaluate_all(wide) == []
    assert serious(page) == []


@pytest.fixture
def several_languages(page) -> None:
    """Let the page have several languages and models. Texts are language codes, and `en` is translated."""

    def answer(route) -> None:
        body = route.request.post_data_json
        (source,), target = body["text"], body["target"]
        model = None if source == target else body["model"] or "default"
        translations = [{"text": f"{source} into {target} with {model}"}]
        result = {"index": 0, "source": source, "model": model, "revision": "r", "translations": translations}
        route.fulfill(body=stream(result), content_type="text/event-stream")

    names, targets = {"de": "German", "en": "English", "fr": "French"}, {"de": ["en"], "en": ["de", "fr"]}
    languages = [{"code": code, "name": names[code], "targets": targets[code]} for code in targets]
    directions = {"one": [["en", "de"], ["de", "en"]], "two": [["en", "de"]], "three": [["en", "fr"]]}
    models = [{"id": name, "reads": "text", "directions": pairs, "scores": {}} for name, pairs in directions.items()]
    models.append({**models[0], "id": "speech", "reads": "audio"})
    page.route("**/languages", lambda route: route.fulfill(json=languages))
    page.route("**/v1/models", lambda route: route.fulfill(json={"data": models}))
    page.route("**/detect", lambda route: route.fulfill(json=[{"language": route.request.post_data_json["q"]}]))
    page.route("**/v1/translate", answer)
    page.reload()
    page.wait_for_selector("#target option", state="attached")
    assert page.input_value("#target") == "en"
    type_text(page, "en", "en into de with default")


def stream(result: dict[str, object]) -> str:
    """Return the server-sent events of a request with one text."""
    return f"event: translation\ndata: {json.dumps(result)}\n\nevent: done\ndata: {{}}\n\n"


def type_text(page, text: str, expected: str) -> None:
    page.fill("#text", text)
    page.wait_for_selector(f"#result p:text-is('{expected}')")


def test_the_target_follows_the_detected_language_until_the_user_has_chosen_one(page, several_languages):
    type_text(page, "de", "de into en with default")
    type_text(page, "en", "en into de with default")
    page.select_option("#source", "de")  # German is no target of itself, so the page chooses again
    assert page.input_value("#target") == "en"
    page.select_option("#source", "auto")
    type_text(page, "de", "de into en with default")
    page.select_option("#target", "fr")
    type_text(page, "en", "en into fr with default")
    page.select_option("#source", "de")
    assert page.input_value("#target") == "en", "there is no other"
    page.select_option("#source", "en")
    assert page.input_value("#target") == "fr"
    page.select_option("#target", "de")
    page.select_option("#source", "auto")
    type_text(page, "de", "de into de with None")
    page.wait_for_selector("#facts:has-text('Already in this language')")
    assert page.input_value("#target") == "de"


def test_swapping_chooses_both_languages(page, several_languages):
    page.click("#swap")
    page.wait_for_selector("#result p:text-is('en into de with default into en with default')")
    assert (page.input_value("#source"), page.input_value("#target")) == ("de", "en")
    page.select_option("#source", "auto")
    type_text(page, "en", "en into en with None")


def test_the_model_can_be_chosen_if_several_translate_the_pair(page, several_languages):
    assert page.locator("#model option").all_inner_texts() == ["automatic", "one", "two"]
    page.select_option("#model", "two")
    page.wait_for_selector("#result p:text-is('en into de with two')")
    type_text(page, "de", "de into en with default")
    assert page.locator("#model").is_hidden()


def test_a_paragraph_in_a_language_without_a_model_is_left_as_it_is(page):
    foreign = "Le vieux chien voit une petite maison."
    page.fill("#text", f"{TEXT}\n{foreign}\nthe red house")
    page.wait_for_selector("#facts:not(:empty)")
    assert page.locator("#result p").nth(1).inner_text() == foreign
    assert page.locator("#result p.left").count() == 1
    assert page.locator("#result p:not(.left) button").count() > 1
    assert page.inner_text("#error").endswith("it into German; set the source language if this is wrong")
    page.fill("#text", foreign)
    page.wait_for_selector("#error:has-text('be French, and'):not(:has-text('left'))")
    assert page.inner_text("#result") == ""


def test_the_colours_can_be_chosen(open_page):
    page = open_page(color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.select_option("#theme", "dark")
    dark = page.evaluate(colour)
    page.reload()
    assert page.evaluate(colour) == dark != light
    page.emulate_media(color_scheme="dark")
    page.select_option("#theme", "light")
    assert page.evaluate(colour) == light


def test_a_browser_that_permits_no_storage_translates(page):
    denied = "Object.defineProperty(window, name, { get() { throw new DOMException('denied', 'SecurityError') } })"
    page.add_init_script(f"for (const name of ['localStorage', 'sessionStorage']) {denied}")
    page.reload()
    assert translate(page)


def test_the_translation_is_copied(open_page):
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    text = translate(page)
    page.click("#copy")
    page.wait_for_selector("#announced:has-text('copied')", state="attached")
    assert page.evaluate("navigator.clipboard.readText()") == text
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })")
    page.evaluate("addEventListener('copy', () => window.copied = getSelection().toString())")
    page.click("#copy")
    assert page.evaluate("window.copied") == text


def test_errors_say_what_to_do_and_replace_the_result(open_page, service_of):
    with running(service_of(keys={hash_key("secret"): None})) as address:
        page = open_page(address)
        page.select_option("#source", "en")
        page.fill("#text", TEXT)
        page.wait_for_selector("#error:text-is('An API key is required')")
        page.fill("#key", "wrong")
        page.wait_for_selector("#error:has-text('wrong')")
        page.fill("#key", " secret\u200b")  # pasted with invisible characters
        page.wait_for_selector("#error:empty + #result button")
    page.fill("#text", "we read")
    page.wait_for_selector("#error:has-text('does not answer')")
    assert (page.inner_text("#result"), page.inner_text("#facts"), page.locator("#copy").is_hidden()) == ("", "", True)
