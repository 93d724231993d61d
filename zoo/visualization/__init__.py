"""HTML pages, drawings and plots in one common style."""
