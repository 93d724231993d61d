"""Documents and markup: translate the text of a file and keep everything else."""
