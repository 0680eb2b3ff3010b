"""Tests of the artifact store and of what is put into it."""
