"""What commands did to files, and the way back."""
