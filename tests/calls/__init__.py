"""The path of one call: progress, cancellation, the focus question, results that are too large."""
