"""The section `training`: batches, optimiser, schedule, regularisation and checkpoints (sections 5 and 6.1)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.section import Epsilon, Probability, Section, Size, Steps, reject

TokenCount = Annotated[int, Field(ge=1, le=100_000_000)]


class Training(Section):
    """Options of training (section 5) and of averaging checkpoints (section 6.1)."""

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
    """Number of parts into which the batch of one step is split to save memory (not in the paper). The gradients of the
    parts are accumulated, so the update is that of the whole batch."""
    learning_rate_factor: float = Field(ge=0.01, le=100)
    """Factor that multiplies the learning rate of the paper's schedule (section 5.3: 1.0). The highest rate is
    learning_rate_factor * (d_model * warmup_steps)^-0.5, at the end of the warm-up: 0.0007 for base."""
    warmup_steps: Steps
    """warmup_steps, the number of steps in which the learning rate rises before it decays (section 5.3: 4000). Unit:
    steps."""
    cooldown_steps: Steps | None
    """Number of last steps in which the learning rate also falls linearly to 0 (not in the paper). `steps` can then not
    be changed when a run is resumed. null: no cooldown. Unit: steps."""
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
    dev_score: Literal["perplexity", "bleu", "paper_bleu", "chrf", "ter", "f1"] | None
    """Metric computed on the development set at every checkpoint (sections 6.2 and 6.3). bleu uses the tokenisation of
    sacreBLEU, and paper_bleu that of the paper. f1 compares the brackets of trees. The checkpoint with the best score
    is kept in addition to the last ones. null: score the final weights only."""
    patience: Steps | None
    """Stop training after this number of successive checkpoints without a better `dev_score` (not in the paper). null:
    never. Unit: checkpoints."""
    clip_norm: Annotated[float, Field(gt=0, le=1e9)] | None
    """Maximum global norm of the gradients; larger gradients are scaled down (not in the paper). null: no clipping."""
    guided_alignment: Annotated[float, Field(gt=0, le=1_000)] | None
    """Weight of a loss that trains an attention head to align words: the first head of the last decoder layer but one.
    It is the cross entropy between the head and a statistical word alignment of the training text (not in the paper;
    Chen et al. 2016). null: no such loss."""
    subword_regularization: Annotated[float, Field(gt=0, lt=1)] | None
    """Sample a new segmentation of each sentence into tokens in each epoch (not in the paper). For bpe, this is the
    probability of skipping a merge (BPE-dropout). For unigram, it is the exponent of the segmentations' probabilities.
    null: always use the best segmentation."""
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
    """Write the metrics of training to the run's log.jsonl every this many steps (not in the paper). Unit: steps."""

    def describe_short_training(self, steps: int) -> str | None:
        """Return a warning if a training run of `steps` steps ends before its warm-up. None otherwise."""
        if steps >= self.warmup_steps:
            return None
        return (
            f"training ends after {steps:,} steps, but the learning rate rises until step {self.warmup_steps:,}, so "
            f"the model learns little: train longer, or set `training.warmup_steps={max(1, steps // 5)}`"
        )

    @model_validator(mode="after")
    def _check_checkpoints(self) -> Self:
        if self.patience is not None and self.dev_score is None:
            reject(
                "patience",
                "dev_score",
                problem="`training.patience` needs a score of each checkpoint, but `training.dev_score` is null",
                hint="write `dev_score: perplexity`, or `patience: null`",
            )
        if self.cooldown_steps is not None and self.cooldown_steps > self.steps:
            reject(
                "cooldown_steps",
                "steps",
                problem=f"`training.cooldown_steps` is {self.cooldown_steps:,}, but training has {self.steps:,} steps",
                hint="write a smaller number, or `cooldown_steps: null`",
            )
        return self
