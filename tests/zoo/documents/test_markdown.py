"""Markdown: blocks and markup stay whole, extensions are copied, and no translation becomes markup."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.zoo.documents.translators import WORD, Shuffle, render, texts
from zoo.documents.document import TextFile
from zoo.documents.markdown import FORMAT
from zoo.generation.alignment import AlignedToken

REFERENCE = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("reference")


def translated(text: str, model: Shuffle | None = None) -> str:
    return render(text, FORMAT, model)


def replaced(text: str, translate: Callable[[str], str]) -> str:
    """Return the text with other texts, whose words are not aligned."""
    document = TextFile(text, FORMAT)
    return document.render((translate(segment.text), []) for segment in document.segments)


@pytest.mark.parametrize(("before", "after"), [
    # What is not CommonMark is copied.
    ("- [ ] one two\n- [x] three", "- [ ] TWO ONE\n- [x] THREE"),
    ("> [!TIP]\n> one two", "> [!TIP]\n> TWO ONE"),
    ("one two {#a-b}\n---", "TWO ONE {#a-b}\n---"),
    ("# one *two*{.a} {: #b }", "# *TWO*{.a} ONE {: #b }"),
    ("[one](u){.a} `x`{.b} ![i](u){.c} two", "TWO `x`{.b} ![i](u){.c} [ONE](u){.a}"),
    (":::tip one two\nthree four\n:::", ":::tip TWO ONE\nFOUR THREE\n:::"),
    ("::: {.a}\none two\n:::\n", "::: {.a}\nTWO ONE\n:::\n"),
    ('!!! tip "one two"\n    three four\n\n    - five six', '!!! tip "TWO ONE"\n    FOUR THREE\n\n    - SIX FIVE'),
    ("???+ tip\n    one two\n", "???+ tip\n    TWO ONE\n"),
    ('=== "one two"\n\n    three four', '=== "TWO ONE"\n\n    FOUR THREE'),
    ("---\na: one\n...\none two", "---\na: one\n...\nTWO ONE"),
    ("+++\na = 'one'\n+++\none two", "+++\na = 'one'\n+++\nTWO ONE"),
    ("one[^1] two\n\n[^1]: three four\n\n    five six", "TWO ONE[^1]\n\n[^1]: FOUR THREE\n\n    SIX FIVE"),
    ("one\n: two three\n\n    four five", "ONE\n: THREE TWO\n\n    FIVE FOUR"),
    ("*[AB]: one two", "*[AB]: TWO ONE"),
    (r"one \(a_b\) two \[a = b\]", r"\[a = b\] TWO \(a_b\) ONE"),
    ("\\[\na\n+ b\n\\]\ntwo three", "\\[\na\n+ b\n\\]\nTHREE TWO"),
    ("one $A:$B two", "TWO B $ : A $ ONE"),
    ("one $5 and $6 two", "TWO 6 $ AND 5 $ ONE"),
    ("one [[a_b|c]] {{ d_e }} {% f %} two", "TWO {% f %} {{ d_e }} [[a_b|c]] ONE"),
    ("one :a_b: two 10:20:30", None), ("one :+1: two", "TWO ONE :+1:"),
    ("**one {{ a }} {% if x %}two** three{% endif %}", "**{{ a }} ONE {% if x %}TWO** THREE{% endif %}"),
    ("one {/* a_b\n*c* */} <%= d_e %> two", "TWO <%= d_e %> ONE {/* a_b\n*c* */}"),
    ("one ==two three== h~2~o x^2^", "X^2^ H~2~O ==THREE TWO== ONE"),
    ("> [!tip]- one two\n> three four", "> [!tip]- TWO ONE\n> FOUR THREE"),
    ("{% note %}\none two\n{% endnote %}", "{% note %}\nTWO ONE\n{% endnote %}"),
    ("import A from 'a'\nimport 'b';\n\none two", "import A from 'a'\nimport 'b';\n\nTWO ONE"),
    ("\\newpage\n\none two", "\\newpage\n\nTWO ONE"),
    ("one http://a.b/c_d_(e), f.g@h.i <xx:y> two", "TWO <xx:y> f.g@h.i , http://a.b/c_d_(e) ONE"),
    ("[TOC]\n\none two", "[TOC]\n\nTWO ONE"),
    ("one <!-- a_b --> two", "TWO ONE <!-- a_b -->"),
    ("~<!--~-->\n\nb", None), ('==<b id="==">\n\nb', None),
    # HTML is translated as HTML.
    ('one <a href="x">two</a>', '<a href="x">TWO</a> ONE'),
    ("one <kbd>a <b>c</b></kbd> two", "TWO <kbd>a <b>c</b></kbd> ONE"),
    ("one <code>a two", None),
    ("one two<br>three four", "TWO ONE<br>FOUR THREE"),
    ("> <p\n> title='one two'>\n> <img alt=\"three four\">five\n",
     '> <p\n> title="TWO ONE">\n> <img alt="FOUR THREE">FIVE\n'),
    ("<div>one <b>two</b> & three</div>", "<div>THREE &amp; <b>TWO</b> ONE</div>"),
    ("<Tabs>\n  <Tab a=b>\none <b>two</b>\n  </Tab>\n</Tabs>",
     "<Tabs>\n  <Tab a=b>\n<b>TWO</b> ONE\n  </Tab>\n</Tabs>"),
    ("> <p>one\n> two</p>", "> <p>TWO ONE</p>"),
    ("<details>\n<summary>one two</summary>\n\n*three* four\n\n</details>", None),
    ("<pre>\none *two*\n</pre>", "<pre>\none *two*\n</pre>"),
    # Texts are written where they were read.
    ("| a \\| b | b |\n|-|-|\n| c | a \\| d |", "| A \\| B | B |\n|-|-|\n| C | A \\| D |"),
    ("a `b \\| c`|d\n-|-\n\na | b", "`b \\| c` A|D\n-|-\n\nA | B"),
    ("> one\n> > two\n> > three\n\none", "> ONE\n> > THREE\n> > TWO\n\nONE"),
    ("- one\n  two\n\n  three four\n- one", "- TWO\n  ONE\n\n  FOUR THREE\n- ONE"),
    ("one two  \nthree four\\\nfive", "TWO ONE  \nFOUR THREE\\\nFIVE"),
    ("[one two][x]\n\n[x]: u 'one'", "[TWO ONE][x]\n\n[x]: u 'one'"),
    ("[one two] three\n\n[One  Two]: u", "THREE [TWO ONE][one two]\n\n[One  Two]: u"),
    ("[one *two*][] `a` b\n\n[one *two*]: u", "B `a` [*TWO* ONE][one *two*]\n\n[one *two*]: u"),
    ("[1] one two\n\n[1]: u", None),
    ("![one two](u 'v') [![three *four*][]](u)\n\n[three *four*]: w",
     "![TWO ONE](u 'v') [![*FOUR* THREE][three *four*]](u)\n\n[three *four*]: w"),
    ("one ![two](u)", "ONE ![two](u)"),
    ("[![one](u)](v) [two](w) three", "[![one](u)](v) THREE [TWO](w)"),
    ("one [*two*\nthree](u) four", "FOUR [THREE *TWO*](u)\nONE"),
])  # fmt: skip
def test_text_is_translated_and_everything_else_is_kept(before: str, after: str | None) -> None:
    assert translated(before) == before
    assert after is None or translated(before, Shuffle()) == after


def test_a_reference_whose_text_is_kept_is_written_as_before() -> None:
    text = "one two\n\nthree [four]\n\n[four]: u"
    result = replaced(text, lambda text: "ONE" if text == "one two" else text)
    assert result == "ONE\n\nthree [four]\n\n[four]: u"


@pytest.mark.parametrize(("before", "target", "after"), [
    ("a", "# b", "\\# b"),
    ("a", "1. b", "1\\. b"),
    ("a", "b 1. #1 - + >", "b 1. #1 - + >"),
    ("a", "- b", "\\- b"),
    ("- a", "+ b", "- \\+ b"),
    ("> a", "> b", "> \\> b"),
    ("a\nb", "===", "\\==="),
    ("a", ": b", "\\: b"),
    ("a", "b_c _d_ 2 * 3 *e*", "b_c \\_d\\_ 2 * 3 \\*e\\*"),
    ("a", "5 < 6 & <b> &amp;", "5 < 6 & \\<b> \\&amp;"),
    ("a", "b | c ~ ~~d~~ `e`", "b | c ~ \\~~d\\~~ \\`e\\`"),
    ("a|b\n-|-", "c | d", "c \\| d|c \\| d\n-|-"),
    ("a", "$b$ {{c}} ==d== e^f^", "$b$ {{c}} ==d== e^f^"),
    ("a", "[b](c) ![d](e)", "\\[b\\](c) !\\[d\\](e)"),
    ("a", r"b\c \* d", r"b\c \\\* d"),
    ("# a", "b #", "# b \\#"),
    ('!!! note "a"', 'b "c"', '!!! note "b &quot;c&quot;"'),
])  # fmt: skip
def test_text_is_escaped_where_it_would_be_markup(before: str, target: str, after: str) -> None:
    result = replaced(before, lambda text: target)
    assert result == after or (before == "a" and result.replace("\\~\\~", "\\~~") == after)


@pytest.mark.parametrize(("before", "target", "after"), [
    ("**one**, two", "甲。乙", "**甲**。乙"),
    ("**one.** two", "甲。乙", "**甲**。乙"),
    ("_one_, two", "甲。乙", "_甲_。乙"),
    ("_one_-two", "xonetwo", "x*one*two"),
    ('*"one"* two', '"A" B', '*"A"* B'),
    ("one *(two) three*", "A “B ) C", None),
    ("**one** *two*", "甲 乙", "**甲** *乙*"),
    ("**!** one", "! ONE", "**!** ONE"),
])  # fmt: skip
def test_delimiters_stay_delimiters(before: str, target: str, after: str | None) -> None:
    document = TextFile(before, FORMAT)
    spans = zip(WORD.finditer(target), WORD.finditer(document.segments[0].text), strict=False)
    result = document.render(iter([(target, [AlignedToken(one.span(), other.span(), 1.0) for one, other in spans])]))
    assert after is None or result == after
    plain = "".join(token.content for token in REFERENCE.parseInline(result)[0].children)
    assert "*" not in plain
    assert "_" not in plain


class Writer:
    """Writes random Markdown with unique words, and records what must be copied."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.numbers, self.copied = draw, count(), list[str]()

    def word(self) -> str:
        return f"w{next(self.numbers)}" + self.draw.choice(["", "", "", "é", ",", ".", "?", " \\*", " &amp;", " 5."])

    def copy(self, pattern: str) -> str:
        self.copied.append(pattern.replace("#", f"K{next(self.numbers)}z"))
        return self.copied[-1]

    def inline(self, depth: int = 0, *, line: str = "\n") -> str:
        parts = []
        for _ in range(self.draw.randint(1, 4 - depth)):
            kind = self.draw.random()
            if kind < 0.5 or depth > 1:
                parts.append(" ".join(self.word() for _ in range(self.draw.randint(1, 3))))
            elif kind < 0.75:
                patterns = ["`# *x*`", "$#_x$", "![#](#)", "<http://#>", "http://x.y/#_z", "[[#|a]]", "{{ #_x }}"]
                patterns += ["<kbd>#</kbd>", "[^#]", ":a#:", r"\(#_x\)", "<img src=#>", "[@#]"]
                parts.append(self.copy(self.draw.choice(patterns)))
            else:
                mark = self.draw.choice(["**", "<b>"] if depth else ["*", "_", "~~", "["])
                end = {"<b>": "</b>", "[": "](u)"}.get(mark, mark)
                parts.append(f"{mark}{self.inline(depth + 1, line=line)}{end}")
        return ("" if depth else self.word() + " ") + self.draw.choice([" ", line]).join(parts)

    def block(self, depth: int = 0) -> str:
        if depth < 2 and self.draw.random() < 0.4:
            frames = [("> ", "> "), ("- ", "  "), ("1. ", "   ")]
            frames += [('!!! note "a"\n    w\n\n    ', "    "), ("[^a]: w\n\n    ", "    ")]
            start, indent = self.draw.choice(frames)
            inner = "\n\n".join(self.block(depth + 1) for _ in range(self.draw.randint(1, 2)))
            return start + inner.replace("\n", "\n" + indent)
        kinds = [
            lambda: f"## {self.inline(line=' ')} {{#id-{next(self.numbers)}}}",
            lambda: "| {} |\n|---|:-:|\n| {} |".format(*(self.row() for _ in range(2))),
            lambda: self.copy("```\n# *x*\n```"),
            lambda: self.copy("$$\n#\n- x\n$$"),
            lambda: f"<div>w{next(self.numbers)} <b>w{next(self.numbers)} &amp;</b></div>",
            lambda: f"::: note\n{self.inline()}\n:::",
            lambda: f"{self.inline()}  \n{self.inline()}\\\n{self.inline()}",
            *[self.inline] * 2,
        ]
        return self.draw.choice(kinds)()

    def row(self) -> str:
        return " | ".join(self.inline(2, line=" ") + " x \\| y" for _ in range(2))

    def document(self) -> str:
        front = self.draw.choice(["", "---\nt: a\n---\n", "+++\nt = 1\n+++\n"])
        text = front + "\n\n".join(self.block() for _ in range(self.draw.randint(1, 5))) + "\n"
        return text.replace("\n", self.draw.choice(["\n", "\n", "\r\n", "\r"]))


def outline(text: str) -> tuple[list[tuple[str, int]], Counter[str]]:
    """Return the blocks of a document, and its inline elements."""
    tokens = REFERENCE.parse(text)
    inline = (child for token in tokens for child in token.children or ())
    tags = {"<em>": "em_open {}", "<strong>": "strong_open {}", "<del>": "s_open {}"}
    kinds = (
        tags.get(each.content, f"{each.type} {each.content or each.attrs}")
        for each in inline
        if each.nesting > 0 or each.type in ("code_inline", "image", "html_inline")
        if each.content not in ("</em>", "</strong>", "</del>")
    )
    return [(token.type, token.level) for token in tokens if token.type != "inline"], Counter(kinds)


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"w\d+é?", " ".join(texts(text, FORMAT)).lower()))


@given(seed=st.integers(0, 10**9))
@example(seed=53271)  # delimiters must not divide the mark of a line
@example(seed=70708)
def test_random_documents_keep_their_blocks_elements_and_copied_parts(seed: int) -> None:
    writer = Writer(random.Random(seed))
    text = writer.document()
    assert translated(text) == text
    result = translated(text, Shuffle())
    (blocks, elements), (expected_blocks, expected) = outline(result), outline(text)
    assert blocks == expected_blocks
    assert set(elements) == set(expected)
    assert not expected - elements  # an element whose words are apart is written twice
    assert words(result) == words(text)
    normal = result.replace("\r\n", "\n").replace("\r", "\n")
    for copied in writer.copied:
        lines = [line.strip() for line in copied.split("\n")]
        assert re.search(r"\n[ >]*".join(map(re.escape, lines)), normal), copied
        assert normal.count(lines[1] if len(lines) > 1 else copied) == 1


@given(seed=st.integers(0, 10**9))
def test_no_translation_becomes_markup(seed: int) -> None:
    draw = random.Random(seed)
    text = Writer(draw).document()
    parts = ["a", "#", "-", "+", "1.", "2)", ">", "==", ":", "_b_", "*", "**c**", "`", "|", "[d](e)", "<i>", "&lt;"]
    parts += ["\\", "~~~", "![f]", "---", "```", "    ", "::", "[^1]:", "x_y", "e*"]

    def hostile(source: str) -> str:
        return " ".join(draw.choices(parts, k=draw.randint(1, 6))).strip() or "a"

    result = replaced(text, hostile)
    (blocks, elements), (expected_blocks, expected) = outline(result), outline(text)
    assert blocks == expected_blocks
    assert set(elements) <= set(expected)


@given(seed=st.integers(0, 10**9))
def test_any_characters_are_kept(seed: int) -> None:
    draw = random.Random(seed)
    parts = [*"\n\n\n  \t*_`[]()<>!#-+=:|\\&$^~{}%.\r1a\"'", "one", "\r\n", "**", "[x]: u", "```", "$$", "\\[", "\\]"]
    parts += [":::", "!!! a", "[^1]:", "<b>", "</b>", "<div>", "<!--", "-->", "<kbd>", "</kbd>", "http://a.b", "{{"]
    parts += ["|-|-|", "| a | b |", "- [ ] ", "---", "+++", "[[", "甲。", "\0", "\u2028", "\x0b", "\x85"]
    parts += ["{.a}", "<!-->"]
    text = "".join(draw.choices(parts, k=draw.randint(1, 60)))
    assert translated(text) == text
    translated(text, Shuffle()).encode()
