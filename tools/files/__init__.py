"""Files as the tools need them: paths, text, lines, revisions, atomic writes and the undo journal."""
