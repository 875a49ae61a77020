"""What the syncer watches on both sides, and how a change there becomes a key in the queue."""
