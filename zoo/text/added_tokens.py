"""Added tokens: tokens that are found in raw text before SentencePiece tokenises the text between them.

The name comes from transformers. Only imported vocabularies have added tokens. They are stored at the beginning of the
model file, as a field whose number SentencePiece reserves for extensions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Self

from specs import ZooError
from zoo.text.protobuf import encode_bytes, parse_fields

_KEY = b"\xc2\x0c"  # field 200, the first that `sentencepiece_model.proto` reserves for extensions, as bytes
FIELD = 200
"""Number of the field of a SentencePiece model that contains the added tokens."""


class AddedTokens:
    """Added tokens of a vocabulary, with their IDs.

    Attributes:
        ids: The ID of each token, by its text. None if texts with this token are rejected, because it marks
            padding or a language.
    """

    def __init__(self, ids: Mapping[str, int | None]) -> None:
        """Store the tokens. If several tokens match at the same position of a text, the longest one is used."""
        self.ids = dict(ids)
        longest_first = sorted(self.ids, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    @classmethod
    def read(cls, model: bytes, size: int) -> Self | None:
        """Return the added tokens at the beginning of a model file, or None if there are none.

        Args:
            model: Content of the model file.
            size: Number of tokens in the model.

        Raises:
            ValueError: The field is damaged.
        """
        if not model.startswith(_KEY):
            return None
        content = next(parse_fields(model)).value
        assert isinstance(content, bytes)
        ids = json.loads(content)
        if not isinstance(ids, dict) or not ids or not all(ids):
            raise ValueError("the field is not a mapping of texts")
        if not all(id is None or (type(id) is int and 0 <= id < size) for id in ids.values()):
            raise ValueError("an added token has no valid ID")
        return cls(ids)

    def prepended_to(self, model: bytes) -> bytes:
        """Return the content of a model file with these tokens added at the beginning."""
        content = json.dumps(self.ids, ensure_ascii=False).encode()
        return encode_bytes(FIELD, content) + model

    def split(self, text: str) -> Iterator[str | int]:
        """Yield the parts of a text: the ID for an added token, and a string for the text between two of them.

        Raises:
            ZooError: The text contains a token that the model cannot read.
        """
        end = 0
        for match in self._pattern.finditer(text):
            if (id := self.ids[match[0]]) is None:
                raise ZooError(
                    f"the text contains `{match[0]}`, a special token that this model does not accept in texts",
                    hint="remove the token from the text; choose languages with `--from` and `--to`",
                )
            yield text[end : match.start()]
            yield id
            end = match.end()
        yield text[end:]
