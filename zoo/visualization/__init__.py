"""Pages and pictures, one style."""
