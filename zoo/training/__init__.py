"""From a spec and a prepared corpus to weights: one step after the other, stopped and resumed at will."""
