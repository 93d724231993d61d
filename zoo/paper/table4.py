"""Derivations for the claims of section 6.3, which compare the parsers of Table 4."""

from __future__ import annotations

from zoo.paper.claims import ROWS


def better_than_berkeley() -> tuple[bool, str]:
    """Compare the paper's parser that was trained on the WSJ only with the Berkeley parser."""
    rows = ROWS["table4"]
    ours, theirs = (float(rows[f"{name}-wsj-only"]["f1"]) for name in ("transformer-4-layers", "petrov-et-al-2006"))
    return ours > theirs, f"printed: {ours} and {theirs}"


def better_than_earlier() -> tuple[bool, str]:
    """Compare the paper's best parser with all earlier parsers except that of Dyer et al."""
    rows = ROWS["table4"].values()
    ours = max(float(row["f1"]) for row in rows if "spec" in row)
    above = [
        row for row in rows if "spec" not in row and float(row["f1"]) >= ours and not row["name"].startswith("Dyer")
    ]
    better = ", ".join(f"{row['name']} ({row['training']}) with {row['f1']}" for row in above)
    return not above, f"printed: {ours}; {f'better: {better}' if above else 'no other is better'}"
