"""Files and processes: whole writes, locks, resumable work on several cores or a cluster."""
