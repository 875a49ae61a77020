"""What an archive of one tenant may contain, and how it is written."""
