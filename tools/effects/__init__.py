"""What a command did to the files of a project: seen by a helper process, kept in the journal.

`tracker.py` is the daemon's side, `helper.py` the process. Between commands the helper knows every file of a project
(`project_tree.py`); before and after a command it looks only at the names that inotify has seen since.
"""

# The catalog need not import this room to look for tools.
DECLARES_TOOLS = False
