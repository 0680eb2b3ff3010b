"""The pictures of the documentation, made from what real commands print: `make screenshots`."""
