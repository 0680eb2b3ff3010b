"""What the repository promises about itself: imports, snapshots, pages, examples."""
