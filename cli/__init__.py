"""Command-line interface of zoo."""
