"""Tools made from the command line programs that `wrap` names in tools.json."""
