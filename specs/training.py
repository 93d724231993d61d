"""The section `training`: batches, Adam, schedule, regularisation and checkpoints."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.section import Epsilon, Minutes, Positive, Probability, Section, Size, Steps, broken_rule

Tokens = Annotated[int, Field(ge=1, le=100_000_000)]


class Training(Section):
    """How the weights are found (section 5), and which of them are averaged (section 6.1)."""

    steps: Steps = Field(
        description="Training steps (5.2; Table 3): 100,000 for base, 300,000 for big; optimiser updates."
    )
    source_tokens: Tokens = Field(
        description="Source side of one step's batch (5.1: about 25,000), padding counted; tokens."
    )
    target_tokens: Tokens = Field(
        description="Target side of one step's batch (5.1: about 25,000), padding counted; tokens. Both budgets hold."
    )
    accumulation_steps: Size = Field(
        le=65_536,
        description="Parts that one step's batch is computed in, one after another, to save memory (no letter); parts.",
    )
    learning_rate: Positive = Field(
        le=1e6, description="Factor on the schedule's lrate (5.3; the paper's is 1.0); no unit."
    )
    warmup_steps: Steps = Field(description="warmup_steps (5.3): the rate rises this long, then falls; steps.")
    beta1: Probability = Field(description="beta_1 of Adam (5.3): decay of the mean of gradients; no unit.")
    beta2: Probability = Field(description="beta_2 of Adam (5.3): decay of the mean of their squares; no unit.")
    epsilon: Epsilon = Field(description="epsilon of Adam (5.3): added to the root of the squares; no unit.")
    label_smoothing: Probability = Field(
        description="epsilon_ls (5.4): probability moved from the right token to others; a probability."
    )
    label_smoothing_spread: Literal["wrong_classes", "all_classes"] = Field(
        description="Which tokens share epsilon_ls (5.4; the paper is silent): the V - 1 wrong ones, as in "
        "the authors' code, or all V; a choice."
    )
    checkpoint_steps: Steps | None = Field(
        description="A checkpoint every so many steps (6.1: every 10 minutes, at 0.4 s a step 1,500 steps); "
        "steps. Exactly one of this and checkpoint_minutes is not null."
    )
    checkpoint_minutes: Minutes | None = Field(
        description="A checkpoint every so many minutes (6.1: 10); minutes. Which weights are averaged then "
        "depends on the clock, so two runs differ."
    )
    max_tokens: Annotated[int, Field(ge=1, le=10**15)] | None = Field(
        description="Training ends after so many target tokens, if it has not before (no letter), null: steps alone "
        "count; tokens."
    )
    max_minutes: Minutes | None = Field(
        description="Training ends after so many minutes spent in steps (no letter), null: steps alone count; minutes. "
        "Which step is the last then depends on the clock."
    )
    dev_score: Literal["perplexity", "bleu", "paper_bleu", "chrf", "ter", "f1"] | None = Field(
        description="What the dev set is scored by at every checkpoint (6.2: perplexity, BLEU by sacreBLEU's tokens or "
        "by the paper's, chrF, TER; 6.3: F1 of brackets); the best is kept beside the last ones; null: it is scored at "
        "the end alone; a choice."
    )
    patience: Steps | None = Field(
        description="Training ends after so many checkpoints in a row of which none has a better `dev_score` than the "
        "best (no letter); null: never; checkpoints."
    )
    clip_norm: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        description="The norm of all gradients together is scaled down to this where it is greater (the paper is "
        "silent); null: never; no unit."
    )
    subword_regularization: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        description="Tokens of each sentence drawn anew in every epoch (the paper is silent): the probability that a "
        "merge is left out (bpe), or the exponent of the probabilities drawn by (unigram); null: the likeliest; a "
        "number."
    )
    start_from: Annotated[str, Field(min_length=1, max_length=4_096)] | None = Field(
        description="A published model or a run whose weights are the first ones (no letter), with a fresh optimiser; "
        "its vocabulary is taken, too; null: random ones; a name or a path."
    )
    average: Size = Field(
        le=1_000, description="Last checkpoints averaged (6.1: base 5, big 20; Table 3: none, so 1); checkpoints."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        description="Arithmetic of the matrix products (the paper is silent); weights stay float32; a choice."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        description="Seed of first weights, shuffling and dropout (no letter); a whole number."
    )
    log_steps: Steps = Field(description="A line in log.jsonl every so many steps (no letter); steps.")

    @model_validator(mode="after")
    def _patience_needs_a_score(self) -> Self:
        if self.patience is not None and self.dev_score is None:
            broken_rule(
                "patience",
                "dev_score",
                problem="`training.patience` waits for a better score, but `training.dev_score` is null",
                hint="write `dev_score: perplexity`, or `patience: null`",
            )
        return self

    @model_validator(mode="after")
    def _one_clock_for_checkpoints(self) -> Self:
        keys = ("checkpoint_minutes", "checkpoint_steps")
        if self.checkpoint_steps is None and self.checkpoint_minutes is None:
            broken_rule(
                *keys,
                problem="`training.checkpoint_steps` and `training.checkpoint_minutes` are both null",
                hint="write a number for exactly one of them",
            )
        if self.checkpoint_steps is not None and self.checkpoint_minutes is not None:
            broken_rule(
                *keys,
                problem="`training.checkpoint_steps` and `training.checkpoint_minutes` are both set",
                hint="set one of them to null, for example `training.checkpoint_steps=null`",
            )
        return self
