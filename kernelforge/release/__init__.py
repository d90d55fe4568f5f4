"""What surrounds a lockfile: writing it, publishing it in the right order, its companions, and verification."""
