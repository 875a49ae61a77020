"""The decisions: from observations to admission, plan, status and teardown. Pure; nothing is read or written here."""
