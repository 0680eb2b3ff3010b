"""The undo journal: changes to files that are whole or not made at all, and that can be taken back."""
