"""The `vocabulary`, `languages`, `task`, `training` and `decoding` sections, and the four special tokens."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Discriminator, Field, Tag

from specs.parts import FeatureSource, SourceFiles
from specs.section import Count, Epsilon, Positive, Probability, Section, Size, Steps, reject

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""IDs of the special tokens: padding, unknown token, beginning of sentence and end of sentence."""


class Vocabulary(Section):
    """Options for the subword vocabulary, learned by SentencePiece from the training text (section 5.1)."""

    kind: Literal["bpe", "unigram"]
    """Algorithm that learns the tokens (section 5.1: bpe). bpe: byte-pair encoding. unigram: a unigram language
    model."""
    size: Annotated[int, Field(gt=EOS + 1)] = Field(le=1_048_576)
    """V, the vocabulary size including the four special tokens (section 5.1: about 37,000 for EN-DE, 32,000 for EN-FR).
    Unit: tokens."""
    target_size: Annotated[int, Field(gt=EOS + 1, le=1_048_576)] | None
    """Size of the target vocabulary, if the target has a separate vocabulary of a different size (not in the paper).
    null: the same as `size`. A parser's target tokens are the brackets of its trees. Unit: tokens."""
    byte_fallback: bool
    """Whether a character that is not in the vocabulary is encoded as its UTF-8 bytes (not in the paper). 256 tokens of
    the vocabulary are then bytes. The rarest 0.01% of all characters in the training text get no token of their own,
    so that the byte tokens are trained. If false, every character in the training text gets a token, and any other
    character is unknown."""
    shared: bool
    """Whether source and target share one vocabulary (section 5.1: yes). If false, they have separate vocabularies."""

    separate_models: bool
    """Whether source and target have separate SentencePiece models that contain the same tokens in the same order (not
    in the paper, but in OPUS-MT). Such a vocabulary can be imported, but not learned."""
    copy_symbols: Annotated[int, Field(ge=0, le=64)] = 0
    """Number of placeholder tokens, which replace numbers, dates, amounts, links and the like in training and
    translation (not in the paper). In the output, each placeholder is replaced by the original, in the notation of the
    target language. Default: 0. Unit: tokens."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Source and target vocabulary sizes."""
        return self.size, self.size if self.target_size is None else self.target_size

    def _check(self) -> None:
        if self.shared and self.target_size is not None:
            problem = f"`vocabulary.target_size` is {self.target_size:,}, but a shared vocabulary has one size"
            reject(("target_size", "shared"), problem, "write `vocabulary: {shared: false}`, or `target_size: null`")
        if self.separate_models and not self.shared:
            problem = "`vocabulary.separate_models` is only for shared vocabularies, but `vocabulary.shared` is false"
            reject(("separate_models", "shared"), problem, "write `vocabulary: {separate_models: false}`")


LanguageCode = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]+)*$", max_length=35)]

_MAX_SHOWN = 20


class Languages(Section):
    """Languages of a multilingual model, and its language tokens (Johnson et al. 2017).

    A language token, such as `<2de>`, specifies the language of the source or of the output.
    """

    codes: Annotated[tuple[LanguageCode, ...], Field(strict=False)] = Field(min_length=2, max_length=1_000)
    """Codes of all languages that the model supports, such as `[en, de, fr]`. NLLB models use codes such as `eng_Latn`.
    A model for a single language has `languages: null`."""
    token: Annotated[str, Field(pattern=r"^[^\s{}]*\{\}[^\s{}]*$", max_length=40)] = "<2{}>"
    """Pattern for the language tokens in the vocabulary. `{}` stands for the language code: `<2{}>` gives the token
    `<2de>` for German. Default: `<2{}>`."""
    source_token: Literal["source", "target"] | None = "target"
    """Which language token precedes each source sentence. target: the token of the target language (Johnson et al.
    2017). source: the token of the source language (NLLB, mBART). null: no language token. Default: target."""
    target_token: Literal["target"] | None = None
    """Which language token precedes each translation. target: the token of the target language (NLLB, mBART). null: no
    language token. Default: null."""

    def listed(self, maximum: int) -> str:
        """Return at most `maximum` language codes, separated by commas, and the number of omitted codes."""
        more = len(self.codes) - maximum
        return ", ".join(self.codes[:maximum]) + (f" and {more} more" if more > 0 else "")

    def token_of(self, code: str) -> str:
        """Return the language token for a language code, such as `<2de>` for `de`."""
        return self.token.replace("{}", code)

    def _check(self) -> None:
        if repeated := [code for code in self.codes if self.codes.count(code) > 1]:
            reject("codes", f"`languages.codes` contains `{repeated[0]}` twice", "list each language once")
        if self.source_token != "target" and self.target_token is None:
            problem = "no language token tells the model which language to translate into"
            reject(("source_token", "target_token"), problem, "write `source_token: target`, or `target_token: target`")


def suggest_language(code: str, languages: Languages) -> str:
    """Return a hint for an unknown language code: similar codes or, if no code is similar, the first 20 codes."""
    lower = {each.lower(): each for each in languages.codes}
    if code.lower() in lower:
        return f"did you mean `{lower[code.lower()]}`?"
    near = [lower[each] for each in get_close_matches(code.lower(), lower, n=3)]
    near += [each for each in languages.codes if each.lower().startswith(code.lower()[:2]) and each not in near][:3]
    if near and code:
        return f"did you mean {' or '.join(f'`{each}`' for each in near)}?"
    return f"the languages are {languages.listed(_MAX_SHOWN)}"


OUTPUT = "target"
"""Name of the stream that a model generates. All other streams are inputs of the encoder."""


class BaseTask(Section):
    """Base class for tasks that a model can learn. Functions and classes are named in the form `module:name`."""

    loss: ClassVar[str] = "compiler.lowering.transformer:cross_entropy"
    """The function that adds the loss to a graph. For training, this is the output `loss`, of shape [2]: the sums with
    and without label smoothing. For other purposes, it is the output `log_probabilities`. Only the default loss, the
    cross entropy of tokens, needs a decoder."""
    translator: ClassVar[str] = "zoo.generation.translator:Translator"
    """The class that runs models of this task: `Translator` or a subclass."""
    command: ClassVar[str] = "decode"
    """Name of the zoo command that runs a model of this task."""
    action: ClassVar[str]
    """Middle of the message that `zoo decode` prints before typed input: `MODEL {action} each line that you type`."""
    summary: ClassVar[str]
    """Sentence in the model card that describes the model. `{0}` is the corpus, `{1}` is the modality of the source,
    and `{2}` and `{3}` are the languages."""
    variable: ClassVar[str]
    """Name of the variable in the Python example of the model card."""
    method: ClassVar[str] = "translate"
    """Method that the Python example of the model card calls."""
    redirections: ClassVar[str]
    """Redirections in the shell example of the model card."""
    examples: ClassVar[str]
    """Plural noun for training examples in messages and in the model card, such as "sentence pairs"."""
    scores: ClassVar[tuple[str, ...]]
    """Metrics that rate models of this task. The main metric comes first. See `Spec.scores`."""

    modalities: ClassVar[Mapping[str, str]] = {"source": "text", OUTPUT: "text"}
    """Modality of each stream in an example, if the source consists of tokens (see `streams`)."""
    encoding_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that determine how examples are encoded as tokens. Tokenizers know only these fields of a task."""

    @property
    def features(self) -> FeatureSource | None:
        """Options for the source if it consists of features. None if it consists of tokens or if there is no source."""
        return None

    @property
    def streams(self) -> Mapping[str, str]:
        """Modalities of the streams in an example, keyed by stream. The encoder reads all streams except `OUTPUT`."""
        return self.modalities if self.features is None else {**self.modalities, "source": self.features.kind}

    @property
    def token_streams(self) -> tuple[str, ...]:
        """Names of the streams that consist of tokens."""
        return tuple(name for name in self.streams if name != "source" or self.features is None)

    @property
    def encoding(self) -> Mapping[str, Any]:
        """Values of the `encoding_fields`, keyed by name. A change of these values makes prepared corpora unusable."""
        return self.model_dump(include={*self.encoding_fields})

    @property
    def reads(self) -> bool:
        """Whether the model reads a source, and therefore has an encoder."""
        return "source" in self.streams

    @property
    def writes_trees(self) -> bool:
        """Whether the model outputs constituency trees instead of text."""
        return self.streams[OUTPUT] == "trees"


class Translation(BaseTask):
    """Task of translating a sentence into another language (sections 5 and 6.1)."""

    action = "translates"
    summary = "It translates from `{0.source}` to `{0.target}`."
    variable = "translator"
    redirections = "source.txt > target.txt"
    examples = "sentence pairs"
    scores = ("bleu", "paper_bleu", "chrf", "ter", "perplexity")
    kind: Literal["translation"]
    """Translate sentences (section 6.1)."""


class Parsing(BaseTask):
    """Task of generating the constituency tree of a sentence as a sequence (section 6.3)."""

    translator = "zoo.generation.parser:Parser"
    command = "parse"
    action = "parses"
    summary = "It parses `{0.source}` sentences into constituency trees."
    variable = "parser"
    method = "parse"
    redirections = "sentences.txt > trees.txt"
    examples = "trees"
    scores = ("f1", "perplexity")
    modalities: ClassVar[Mapping[str, str]] = {"source": "text", OUTPUT: "trees"}
    encoding_fields = ("linearisation",)
    kind: Literal["parsing"]
    """Parse sentences into constituency trees (section 6.3)."""
    linearisation: Literal["vinyals", "tensor2tensor", "initials"]
    """How a tree is written as a sequence (section 6.3 cites Vinyals et al. 2015). vinyals: `(S (NP XX )NP )S`, with XX
    for each word. tensor2tensor (the code of the paper's authors): `S NP NNP /NP /S`, with each word's part of speech.
    initials: `(S (NP J )NP )S`, with each word's first character."""
    constrained: bool
    """Whether decoding is restricted to valid trees over the words in the sentence (not in the paper). If false,
    invalid trees are corrected afterwards."""


class LanguageModelling(BaseTask):
    """Task of predicting the next token of a text. The model has a decoder only (not in the paper)."""

    translator = "zoo.generation.translator:LanguageModel"
    action = "continues"
    summary = "It is a language model of `{0.target}` text."
    variable = "model"
    method = "generate"
    redirections = "prompts.txt > texts.txt"
    examples = "sentences"
    scores = ("perplexity",)
    modalities: ClassVar[Mapping[str, str]] = {OUTPUT: "text"}
    kind: Literal["language_modelling"]
    """Predict the next token of a text, without reading a source (not in the paper)."""


class Recognition(BaseTask):
    """Task of transcribing or translating speech recordings or images of text (section 7)."""

    translator = "zoo.generation.recognizer:Recognizer"
    action = "reads the file that is named in"
    summary = "It reads {1} files in {2}, and writes their text in {3}."
    variable = "recognizer"
    redirections = "names-of-files.txt > texts.txt"
    examples = "files"
    scores = ("wer", "cer", "bleu", "chrf", "perplexity")
    kind: Literal["recognition"]
    """Transcribe speech recordings or images of text, or translate them into another language (section 7)."""
    source: SourceFiles
    """Type of the files that the model reads, and how they are converted to features."""

    @property
    def features(self) -> FeatureSource:
        """Options for the source, which consists of features."""
        return self.source


Task = Annotated[Translation | Parsing | LanguageModelling | Recognition, Field(discriminator="kind")]
_SCORES = list(dict.fromkeys(name for task in get_args(get_args(Task)[0]) for name in task.scores))

TokenCount = Annotated[int, Field(ge=1, le=100_000_000)]
TokenId = Annotated[int, Field(ge=0, le=1_048_576)]


class Training(Section):
    """Options for training (section 5) and for averaging checkpoints (section 6.1)."""

    steps: Steps
    """Number of training steps (section 5.2 and Table 3: 100,000 for base, 300,000 for big). Unit: optimiser
    updates."""
    source_tokens: TokenCount
    """Maximum number of source tokens in the batch of one step, counting padding (section 5.1: about 25,000). Unit:
    tokens."""
    target_tokens: TokenCount
    """Maximum number of target tokens in the batch of one step, counting padding (section 5.1: about 25,000). The same
    batch must also respect `source_tokens`. Unit: tokens."""
    accumulation_steps: Size = Field(le=65_536)
    """Number of micro-batches into which the batch of one step is split to save memory (not in the paper). Their
    gradients are accumulated, so the update is the same as for the whole batch."""
    learning_rate_factor: float = Field(ge=0.01, le=100)
    """Factor that multiplies the learning rate of the paper's schedule (section 5.3: 1.0). The highest rate is
    learning_rate_factor * (d_model * warmup_steps)^-0.5, at the end of the warm-up: 0.0007 for base."""
    warmup_steps: Steps
    """warmup_steps, the number of steps in which the learning rate rises before it decays (section 5.3: 4000). Unit:
    steps."""
    cooldown_steps: Steps | None
    """Number of steps at the end of training in which the learning rate is also multiplied by a factor that falls
    linearly to 0 (not in the paper). A resumed run then cannot change `steps`. null: no cooldown. Unit: steps."""
    beta1: Probability
    """beta_1 of Adam, the decay rate of the moving average of gradients (section 5.3: 0.9)."""
    beta2: Probability
    """beta_2 of Adam, the decay rate of the moving average of squared gradients (section 5.3: 0.98)."""
    epsilon: Epsilon
    """epsilon of Adam, a constant that is added to the square root of the mean squared gradient to avoid division by
    zero (section 5.3: 1e-9)."""
    label_smoothing: Probability
    """epsilon_ls, the probability mass that label smoothing moves from the correct token to others (section 5.4: 0.1).
    Unit: probability."""
    label_smoothing_spread: Literal["wrong_classes", "all_classes"]
    """Tokens that share epsilon_ls (not specified in section 5.4). wrong_classes: the V - 1 wrong tokens, as in
    tensor2tensor. all_classes: all V tokens."""
    checkpoint_steps: Steps
    """Number of steps between checkpoints (section 6.1: 10 minutes, which is 1,500 steps of 0.4 s). Unit: steps."""
    max_tokens: Annotated[int, Field(ge=1, le=10**15)] | None
    """Stop training after this number of target tokens, unless `steps` is reached first (not in the paper). null: no
    limit. Unit: tokens."""
    dev_score: Annotated[str, Field(json_schema_extra={"enum": _SCORES})] | None
    """Metric computed on the development set at every checkpoint (sections 6.2 and 6.3). bleu uses the tokenisation of
    sacreBLEU. paper_bleu uses the paper's tokenisation. wer and cer count the wrong words and characters in
    transcripts. f1 compares the brackets of trees. The checkpoint with the best score is kept in addition to the
    last checkpoints. null: score the final weights only."""
    patience: Steps | None
    """Stop training after this number of consecutive checkpoints without a better `dev_score` (not in the paper). null:
    never. Unit: checkpoints."""
    clip_norm: Annotated[float, Field(gt=0, le=1e9)] | None
    """Maximum global norm of the gradients; larger gradients are scaled down (not in the paper). null: no clipping."""
    guided_alignment: Annotated[float, Field(gt=0, le=1_000)] | None
    """Weight of a loss that trains an attention head to align words: the first head of the second-to-last decoder
    layer. The loss is the cross entropy between the head and a statistical word alignment of the training text (not in
    the paper; Chen et al. 2016). null: no such loss."""
    ctc_weight: Annotated[float, Field(gt=0, le=1_000)] | None = None
    """Weight of a second loss for recognition: the CTC loss of the text, computed from the encoder's output (not in the
    paper; Graves et al. 2006, Kim et al. 2017). This loss teaches the encoder the order of the tokens. Models that
    translate need null, because CTC expects the tokens in the order in which they are spoken. null: no such loss."""
    subword_regularization: Annotated[float, Field(gt=0, lt=1)] | None
    """Sample a new segmentation of each sentence into tokens in each epoch (not in the paper). For bpe, the value
    is the probability of skipping a merge (BPE-dropout). For unigram, it is the exponent of the segmentation
    probabilities. null: always use the best segmentation."""
    start_from: Annotated[str, Field(min_length=1, max_length=4_096)] | None
    """Model whose weights and vocabulary training starts from (not in the paper): the name of a published model, or the
    path of a run. The optimiser state is not loaded. null: random weights."""
    average: Size = Field(le=1_000)
    """Number of checkpoints, counted from the last, whose weights are averaged at the end of training (section 6.1: 5
    for base, 20 for big). 1: no averaging. Unit: checkpoints."""
    precision: Literal["float32", "bfloat16"]
    """Data type of the matrix products (not in the paper). The weights remain float32."""
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    """Random seed for initial weights, shuffling and dropout (not in the paper)."""
    log_steps: Steps
    """Number of steps between lines with training metrics in the run's log.jsonl (not in the paper). Unit: steps."""

    def describe_short_training(self, steps: int) -> str | None:
        """Return a warning if training for `steps` steps is shorter than the learning rate warm-up, otherwise None."""
        if steps >= self.warmup_steps:
            return None
        return (
            f"training ends at step {steps:,}, but the learning rate rises until step {self.warmup_steps:,}, so "
            f"the model learns little: train longer, or set `training.warmup_steps={max(1, steps // 5)}`"
        )

    def _check(self) -> None:
        if self.patience is not None and self.dev_score is None:
            problem = "`training.patience` needs a score for each checkpoint, but `training.dev_score` is null"
            reject(("patience", "dev_score"), problem, "write `dev_score: perplexity`, or `patience: null`")
        if self.cooldown_steps is not None and self.cooldown_steps > self.steps:
            problem = f"`training.cooldown_steps` is {self.cooldown_steps:,}, but training has {self.steps:,} steps"
            reject(("cooldown_steps", "steps"), problem, "write a smaller number, or `cooldown_steps: null`")


class Decoding(Section):
    """Options for beam search and sampling (section 6.1)."""

    search: Literal["beam", "sample"]
    """Decoding method (section 6.1: beam). beam is beam search; sample draws each token from the model's
    distribution."""
    beam: Size = Field(le=1_024)
    """Beam size (section 6.1: 4). 1 is greedy search. Sampling ignores it. Unit: hypotheses."""
    alpha: Annotated[float, Field(ge=0, le=10)]
    """alpha, the exponent of the length penalty (section 6.1: 0.6). 0 means no penalty."""
    length_penalty: Literal["gnmt", "power"]
    """Divisor of a hypothesis's log-probability. gnmt: ((5 + length) / 6)^alpha (Wu et al. 2016, cited in section 6.1).
    power: length^alpha, as in Marian, fairseq and transformers. The length includes EOS."""
    stopping_rule: Literal["admissible", "shrinking", "full"]
    """When beam search ends (not in the paper). admissible: when no unfinished hypothesis can still become one of the
    `beam` best. shrinking: each finished hypothesis reduces the beam size by one, and search ends at 0, as in Marian.
    full: when `beam` hypotheses are finished, as in fairseq and CTranslate2."""
    length_factor: Annotated[float, Field(ge=0, le=100)]
    """A translation has at most `length_factor` times as many tokens as its source, plus `extra_length` (section 6.1:
    1)."""
    extra_length: Count = Field(le=10_000)
    """Tokens added to `length_factor` times the source length to give the maximum length of a translation (section 6.1:
    50). EOS is not counted. With `stopping_rule: shrinking`, a translation that is cut off has one more token, in place
    of EOS, as in Marian. Unit: tokens."""
    min_length: Count = Field(le=10_000)
    """Minimum length of a translation, excluding EOS (not in the paper; fairseq and CTranslate2: 1). If it exceeds the
    maximum length, the maximum length applies. Unit: tokens."""
    suppressed_tokens: Annotated[tuple[TokenId, ...], Field(strict=False, max_length=1_000)]
    """IDs of tokens that no translation contains (not in the paper; Marian suppresses the unknown token). The other
    tokens' probabilities are not renormalised."""
    shortlist: bool = False
    """Whether a translation may only contain tokens of the model's vocabulary shortlist, which depends on the
    source (not in the paper; Marian: `--shortlist`). A shortlist makes decoding faster. Probabilities are normalised
    over these tokens. Only the `native` backend supports it."""
    max_source_length: Size = Field(le=100_000)
    """Maximum length of a source (not in the paper). A longer source is split at sentence boundaries, and its parts are
    translated one by one. A single sentence above the maximum is an error. Unit: tokens."""
    temperature: Positive = Field(le=1e6)
    """Divisor of the logits before a token is sampled (not in the paper). 1.0 changes nothing. Only sampling uses
    it."""
    top_k: Count = Field(le=1_048_576)
    """Sample only from the k most probable tokens (not in the paper). 0 permits all tokens. Unit: tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)]
    """Sample only from the smallest set of most probable tokens whose total probability reaches this value (not in the
    paper). Applied after temperature and top_k. 1.0 permits all tokens. Unit: probability."""
    workers: Annotated[
        Annotated[Literal["auto"], Tag("word")] | Annotated[Annotated[int, Field(ge=1, le=1_024)], Tag("number")],
        Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
    ]
    """Number of threads that decode batches in parallel (not in the paper). auto: one per core if the backend computes
    a batch on one core, otherwise 1. Unit: threads."""
