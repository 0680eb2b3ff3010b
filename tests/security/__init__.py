"""Who gets in: the guard, tokens and addresses."""
