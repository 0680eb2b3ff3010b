"""Files as they are: text to the letter, the journal, odd places."""
