"""What the tests share: real daemons, clients of every wire, and programs of others."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
