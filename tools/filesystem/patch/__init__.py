"""The operations of fs_patch, and how they are applied to a file."""
