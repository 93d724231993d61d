"""Words on a terminal: parse, call one function of `zoo`, print."""
