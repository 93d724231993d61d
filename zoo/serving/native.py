"""zoo's own API under `/v1`, and the monitoring endpoints."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from specs.notation import quote
from zoo.generation.config import TranslationOptions
from zoo.generation.translation import MARKS
from zoo.models.catalogue import EVERYDAY, better_for
from zoo.serving.answer import Answer, Call, ServingError
from zoo.serving.documents import Documents
from zoo.serving.languages import AUTO
from zoo.serving.requests import Endpoint, authorize, authorized_upload
from zoo.serving.service import Service


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)
    model: str | None = None
    """Name of the model. Default: the first model that fits the request."""

    @model_validator(mode="before")
    @classmethod
    def _stop_at_first_error(cls, given: Any) -> Any:
        """Raise an error for the first unknown parameter, or for the first list with an element that is not a string.

        Pydantic would build one error per unknown parameter and per element, which is slow.
        """
        for name, value in given.items() if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(f"there is no parameter {quote(name[:40])}")
            if isinstance(value, list) and not all(isinstance(text, str) for text in value):
                raise ValueError(f"`{name}` should contain only strings")
        return given


class _SearchBody(_Body):
    text: str | list[str]
    """The text or sentence, or a list of texts or sentences."""
    beam: int | None = None
    """Beam size. Default: the beam size in the model's spec."""
    n_best: int | None = None
    """Number of results per text, best first. Default: 1."""
    alpha: Annotated[float | None, Field(ge=0, le=10, allow_inf_nan=False)] = None
    """Exponent of the length penalty. Default: the exponent in the model's spec."""


class TranslateBody(_SearchBody):
    """Request to translate one or more texts."""

    target: str
    """Code of the target language."""
    source: str = AUTO
    """Language code of the texts, or `auto` to detect the language."""
    prefix: str | None = None
    """Text that each translation begins with."""
    protect: bool = True
    """Keep numbers, dates, links, placeholders and the like."""
    stream: bool = False
    """Send each text's result as a server-sent event when it is done."""
    sentences: bool = False
    """Return the sentences in each translation, together with the source sentences."""


class ScoreBody(_Body):
    """Request to score given translations. Each text and each translation is a single line."""

    text: str | list[str]
    """The text, or a list of texts."""
    translation: str | list[str]
    """The translation of each text."""
    source: str
    """Language code of the texts."""
    target: str
    """Language code of the translations."""


class ParseBody(_SearchBody):
    """Request to parse one or more sentences."""

    tokenized: bool = False
    """Whether the words are already separated by spaces."""


class AttentionBody(_Body):
    """Request for the attention weights between the words in a translation and the words in its source text."""

    text: str
    """The text, a single line."""
    translation: str
    """The translation of the text."""
    source: str
    """Language code of the text."""
    target: str
    """Language code of the translation."""
    layer: Annotated[int | None, Field(ge=0)] = None
    """Decoder layer, counted from 0. Default: the layer of the head that aligns words best."""
    head: Annotated[int | None, Field(ge=0)] = None
    """Attention head, counted from 0. Default: the head that aligns words best or, with `layer`, the mean of all
    heads."""


class Translated(BaseModel):
    """A translation, its natural log-probability, and its score: the log-probability divided by the length penalty.

    If the request asks for sentences, `sentences` contains pairs of a sentence and its translation, and `confidences`
    contains one confidence per sentence. `unkept` lists numbers, links and the like that are missing from the
    translation, and numbers that occur only in the translation. `uncertain` lists the sentences whose translations
    have a low confidence. Both lists are omitted if they are empty. `confidence` is the probability that the
    translation is good: the lowest confidence of its sentences. It is null if the model has no calibration, or if the
    text is returned unchanged.
    """

    text: str
    score: float
    log_probability: float
    confidence: float | None = None
    sentences: list[tuple[str, str]] | None = None
    confidences: list[float | None] | None = None
    unkept: list[str] | None = None
    uncertain: list[str] | None = None


class TextResult(BaseModel):
    """The translations of a text. `model` is null if the text was already in the target language.

    `hint` names a public model if that model suits the request's texts better than the model included with zoo.
    Otherwise, `hint` is omitted.
    """

    source: str
    detected_confidence: float | None
    model: str | None
    revision: str | None
    translations: list[Translated]
    hint: str | None = None


class TranslateResult(BaseModel):
    """The results for the texts of a request, in the order of the texts."""

    results: list[TextResult]


class ScoreResult(BaseModel):
    """The natural log-probability of each translation, including the end-of-sentence token."""

    log_probabilities: list[float]
    model: str
    revision: str


class AttentionResult(BaseModel):
    """Attention weights, one row for each word in the translation and one column for each word in the text.

    A row can sum to less than 1: the rest is the attention to language tokens and to the end of the text.
    `target_starts` are the character positions at which the words in the translation begin. `layers` and `heads` are
    the numbers of layers and heads.
    """

    source: list[str]
    target: list[str]
    target_starts: list[int]
    weights: list[list[float]]
    layer: int
    head: int | None
    layers: int
    heads: int
    model: str


class ModelInfo(BaseModel):
    """A model on the server, with the fields that OpenAI clients require. `id` is the name of the model.

    `revision` is null if the model is not in memory. `reads` is the kind of input, such as text or audio. `scores` are
    the scores on the test set or, without a test set, on the dev set.
    """

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "zoo"
    task: str
    reads: str
    directions: list[tuple[str, str]]
    loaded: bool
    revision: str | None
    description: str | None
    licence: str | None
    scores: dict[str, float]


class ModelList(BaseModel):
    """The models on the server, in the format of OpenAI's API."""

    object: Literal["list"] = "list"
    data: list[ModelInfo]


class RecognizeResult(BaseModel):
    """The text in an image."""

    text: str
    log_probability: float
    model: str


class Native(Endpoint):
    """Endpoint of zoo's own API. Clients send the API key in the header."""

    scheme = "bearer"
    requires_header = True


class Upload(Native):
    """Endpoint of zoo's own API to which clients upload a file."""

    accepts_file = True


class _Monitoring(Endpoint):
    """Endpoint that reports the state of the server."""

    is_monitoring = True


def router(service: Service, documents: Documents) -> APIRouter:
    """Return a router with the endpoints of zoo's own API."""
    routes = APIRouter(route_class=Native)

    @routes.post("/v1/translate", response_model=TranslateResult, response_model_exclude_unset=True)
    async def translate(request: Request, body: TranslateBody) -> Any:
        """Translate one or more texts. Line breaks are kept."""
        key, texts = authorize(service, request), _list(body.text)
        options: TranslationOptions = {"beam": body.beam, "alpha": body.alpha, "protect": body.protect}
        call = Call(key, body.source, body.target, body.model, options, body.n_best, body.prefix)
        if not body.stream:
            answers = await service.translate(call, texts)
            return {"results": [_result(answer, body) for answer in answers]}
        events = _events(await service.translate_each(call, texts), body)
        return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def recognize(request: Request) -> RecognizeResult:
        """Return the text in an image. The image is the `file` field of a form (`multipart/form-data`)."""
        given, key = await authorized_upload(service, request)
        name, target = (given.string(field) or None for field in ("model", "target"))
        route = service.pool.recognizer("image", name, target=target)
        found = await documents.recognize(key, route, given.content)
        return RecognizeResult(text=found.text, log_probability=found.log_probability, model=route.model.name)

    routes.add_api_route("/v1/recognize", recognize, methods=["POST"], route_class_override=Upload)

    @routes.post("/v1/score")
    async def score(request: Request, body: ScoreBody) -> ScoreResult:
        """Return the log-probabilities of given translations."""
        key, texts, translations = authorize(service, request), _list(body.text), _list(body.translation)
        if len(texts) != len(translations):
            raise ServingError(400, f"there are {len(texts):,} texts, but {len(translations):,} translations")
        call = Call(key, body.source, body.target, model=body.model)
        scores, name, revision = await service.score(call, texts, translations)
        return ScoreResult(log_probabilities=scores, model=name, revision=revision)

    @routes.post("/v1/attention")
    async def attention(request: Request, body: AttentionBody) -> AttentionResult:
        """Return the attention weights between the words in a translation and the words in its source text."""
        call = Call(authorize(service, request), body.source, body.target, model=body.model)
        pair = body.text, body.translation
        found, layer, head, name = await service.attention(call, pair, body.layer, body.head)
        layers, heads = found.cross.shape[:2]
        columns, rows = found.word_indices()
        weights = found.cross[layer].mean(0) if head is None else found.cross[layer, head]
        starts, end = list[int](), 0
        for row in rows:
            starts.append(max(found.translation.find(found.target[row], end), end))
            end = starts[-1] + len(found.target[row])
        return AttentionResult(
            source=[found.source[column] for column in columns],
            target=[found.target[row] for row in rows],
            target_starts=starts,
            weights=[[round(weight, 4) for weight in row] for row in weights[rows][:, columns].tolist()],
            layer=layer,
            head=head,
            layers=layers,
            heads=heads,
            model=name,
        )

    @routes.post("/v1/parse", response_model=TranslateResult)
    async def parse(request: Request, body: ParseBody) -> Any:
        """Return the constituency trees of one or more sentences, in bracket notation."""
        options: TranslationOptions = {"beam": body.beam, "alpha": body.alpha}
        call = Call(authorize(service, request), model=body.model, options=options, n_best=body.n_best)
        answers = await service.parse(call, _list(body.text), body.tokenized)
        return {"results": [_result(answer) for answer in answers]}

    return routes


def monitoring(service: Service) -> APIRouter:
    """Return a router with the endpoints that need no API key: monitoring, and the list of models."""
    routes = APIRouter(route_class=_Monitoring)

    async def models() -> ModelList:
        """List the models on this server."""
        models = [
            ModelInfo(
                id=model.name,
                task=model.spec.task.kind,
                reads=model.spec.task.streams["source"],
                directions=[] if model.parses else list(model.directions.public),
                loaded=model.loaded is not None,
                revision=None if model.loaded is None else model.loaded.revision,
                description=model.spec.description,
                licence=model.spec.licence,
                scores=model.scores(),
            )
            for model in service.pool.models.values()
        ]
        return ModelList(data=models)

    routes.add_api_route("/v1/models", models, route_class_override=Endpoint)

    @routes.get("/health")
    async def health() -> dict[str, object]:
        """Report that the server process is alive, and whether it is ready for requests."""
        return {"status": "ok", "ready": service.admission.ready}

    @routes.get("/health/ready")
    async def ready() -> Response:
        """Answer with status 200 if the server is ready, or 503 if it is starting or stopping, or its queue is full."""
        return JSONResponse({"ready": service.admission.ready}, 200 if service.admission.ready else 503)

    @routes.get("/metrics")
    async def metrics() -> Response:
        """Return the metrics in Prometheus's text format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes


def _list(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _result(answer: Answer, body: TranslateBody | None = None) -> dict[str, Any]:
    """Return the fields of a `TextResult`. `body` is the translation request, or None if the answer is a parse tree."""
    translations = []
    for each in answer.translations:
        scores = {"score": each.score, "log_probability": each.log_probability, "confidence": each.confidence}
        sentences = {"sentences": each.parts, "confidences": each.confidences} if body and body.sentences else {}
        marks = {name: marked for name in MARKS if (marked := getattr(each, name))}
        translations.append({"text": each.text, **scores, **sentences, **marks})
    result: dict[str, Any] = {
        "source": answer.source,
        "detected_confidence": answer.confidence,
        "model": answer.model,
        "revision": answer.revision,
        "translations": translations,
    }
    if body and answer.model == EVERYDAY:
        texts = [source for source, _ in answer.translations[0].parts]
        if found := better_for(texts, answer.source, body.target):
            result["hint"] = f"{found[1]}: `zoo serve --model {found[0].name}`"
    return result


async def _events(results: AsyncIterator[tuple[int, Answer | ServingError]], body: TranslateBody) -> AsyncIterator[str]:
    """Yield a server-sent event for each text, and the `done` event at the end."""
    async with aclosing(results):  # type: ignore[type-var]
        async for index, answer in results:
            if isinstance(answer, ServingError):
                yield _event("error", {"index": index, "error": answer.message, "status": answer.status})
            else:
                yield _event("translation", {"index": index, **_result(answer, body)})
    yield _event("done", {})


def _event(name: str, data: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
