"""The section `training`: batches, Adam, schedule, regularisation and checkpoints."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.section import Positive, Probability, Section, Size, broken_rule


class Training(Section):
    """How the weights are found (section 5), and which of them are averaged (section 6.1)."""

    steps: Size = Field(
        description="Training steps (5.2; Table 3): 100,000 for base, 300,000 for big; optimiser updates."
    )
    source_tokens: Size = Field(
        description="Source side of one step's batch (5.1: about 25,000), padding counted; pieces."
    )
    target_tokens: Size = Field(
        description="Target side of one step's batch (5.1: about 25,000), padding counted; pieces. Both budgets hold."
    )
    accumulation: Size = Field(
        description="Parts that one step's batch is computed in, one after another, to save memory (no letter); parts."
    )
    learning_rate: Positive = Field(description="Factor on the schedule's lrate (5.3; the paper's is 1.0); no unit.")
    warmup_steps: Size = Field(description="warmup_steps (5.3): the rate rises this long, then falls; steps.")
    beta1: Probability = Field(description="beta_1 of Adam (5.3): decay of the mean of gradients; no unit.")
    beta2: Probability = Field(description="beta_2 of Adam (5.3): decay of the mean of their squares; no unit.")
    epsilon: Positive = Field(description="epsilon of Adam (5.3): added to the root of the squares; no unit.")
    label_smoothing: Probability = Field(
        description="epsilon_ls (5.4): probability moved from the right piece to others; a probability."
    )
    label_smoothing_spread: Literal["wrong_classes", "all_classes"] = Field(
        description="Which pieces share epsilon_ls (5.4; the paper is silent): the V - 1 wrong ones, as in "
        "the authors' code, or all V; a choice."
    )
    checkpoint_steps: Size | None = Field(
        description="A checkpoint every so many steps (6.1: every 10 minutes, at 0.4 s a step 1,500 steps); "
        "steps. Exactly one of this and checkpoint_minutes is not null."
    )
    checkpoint_minutes: Positive | None = Field(
        description="A checkpoint every so many minutes (6.1: 10); minutes. Which weights are averaged then "
        "depends on the clock, so two runs differ."
    )
    average: Size = Field(
        description="Last checkpoints averaged (6.1: base 5, big 20; Table 3: none, so 1); checkpoints."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        description="Arithmetic of the matrix products (the paper is silent); weights stay float32; a choice."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        description="Seed of first weights, shuffling and dropout (no letter); a whole number."
    )
    log_steps: Size = Field(description="A line in log.jsonl every so many steps (no letter); steps.")

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
