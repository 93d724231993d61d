"""Catalogue of public models: what they are, where they are, and how to fetch them."""
