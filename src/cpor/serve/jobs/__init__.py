"""Worker processes of the service, and which questions they get."""
