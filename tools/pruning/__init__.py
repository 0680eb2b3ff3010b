"""Line pruning: what a question needs of a text, with the rest replaced by markers."""
