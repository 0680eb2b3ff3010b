"""How good the pruning engine is, and the fit of its weights: see README.md."""
