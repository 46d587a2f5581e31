"""Documents in, typed intents or problems out: the kinds of the systems we accept, normalised to one model each."""
