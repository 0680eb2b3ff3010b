"""How this program is called in a shell, so that what we tell people to type works as it stands."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from mcp_agent.config import Config, load

_NAME = "mcp-agent"


def own_command() -> str:
    """`mcp-agent` if the PATH leads to this program, else its absolute path, quoted for a shell."""
    own = own_program()
    found = shutil.which(_NAME)
    if own is None:
        return f"{shlex.quote(sys.executable)} -m mcp_agent"
    return _NAME if found is not None and os.path.realpath(found) == os.path.realpath(own) else shlex.quote(str(own))


def reaching_flags(config: Config) -> str:
    """The flags that another terminal needs to reach a daemon with these settings, with a space before; often none.

    Its state folder says where it listens. A variable of our own environment is not set there.
    """
    if config.state_dir.absolute() == load({}, {}).state_dir.absolute():
        return ""
    return f" --state-dir {shlex.quote(str(config.state_dir.absolute()))}"


def own_program() -> Path | None:
    """The console script of this installation; None if there is only the module."""
    started_as = Path(sys.argv[0]).absolute()
    beside = Path(sys.executable).with_name(_NAME)
    return next((each for each in (started_as, beside) if each.name == _NAME and each.is_file()), None)
