"""How fast this machine translates and trains."""
