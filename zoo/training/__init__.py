"""Train the models that specs describe: write checkpoints, average them, and score the averaged weights."""
