"""Copies shared objects of one host namespace into planes, and keeps the copies up to date, by a task for each tenant."""
