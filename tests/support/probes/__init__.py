"""Tools that only tests need: ones that wait, report, fail or return what they are told to."""
