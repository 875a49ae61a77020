"""What should be: from observations to admission, plan, status and teardown. Pure; nothing is read or done here."""
