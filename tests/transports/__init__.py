"""Each wire, and what holds on all of them."""
