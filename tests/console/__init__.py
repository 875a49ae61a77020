"""The console: its picture, its server, and what a browser makes of both."""
