"""The paper's numbers, and what becomes of each of them here."""
