"""The programs that are measured, besides the ones that people install: each is a script that is run."""
