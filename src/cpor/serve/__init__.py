"""The web service and its page."""
