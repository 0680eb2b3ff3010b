"""What a caller is sent of a result: pruned by a question, and fitted to the budget of the caller and the call."""
