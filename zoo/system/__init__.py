"""What this computer is, and what it does in a second."""
