"""What a caller is sent of a result: the focus question, the budgets, short results, and the way to the rest."""
